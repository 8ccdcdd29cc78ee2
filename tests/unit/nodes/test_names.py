"""The small DNS of real nodes: queries as a pod's resolver sends them, without a network."""

import socket
import struct
from collections.abc import Sequence

import pytest
from control_plane.nodes.dns import answer

A, AAAA = 1, 28
SERVICES = {
    "hub.ebbtide.svc.cluster.local": ["10.96.0.7"],
    "redis.ebbtide.svc.cluster.local": ["10.244.1.2", "10.244.1.3"],
}


def lookup(labels: Sequence[str]) -> Sequence[str] | None:
    name = ".".join(labels)
    if name.startswith("silent."):
        raise OSError("the API server does not answer")
    return SERVICES.get(name)


def query(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!HHHHHH", 0xBEEF, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def told(name: str, kind: int = A) -> tuple[int, list[str]]:
    """The answer's code and its addresses, read as RFC 1035 says."""
    question = query(name, kind)
    reply = answer(question, lookup)
    number, flags, questions, answers, _, _ = struct.unpack_from("!HHHHHH", reply)
    assert (number, questions) == (0xBEEF, 1)
    assert flags & 0x8000, "an answer"
    records = reply[len(question) :]
    assert reply[12 : len(question)] == question[12:]
    assert len(records) == 16 * answers
    return flags & 0xF, [socket.inet_ntoa(records[at + 12 : at + 16]) for at in range(0, len(records), 16)]


def test_a_service_has_its_address() -> None:
    assert told("hub.ebbtide.svc.cluster.local") == (0, ["10.96.0.7"])


def test_names_are_read_in_any_case() -> None:
    assert told("Hub.EBBTIDE.svc.cluster.local") == (0, ["10.96.0.7"])


def test_a_headless_service_has_those_of_its_pods() -> None:
    assert told("redis.ebbtide.svc.cluster.local") == (0, ["10.244.1.2", "10.244.1.3"])


def test_a_name_without_an_address_of_that_kind_exists_all_the_same() -> None:
    """Else a resolver that asks for both would take the name for unknown."""
    assert told("hub.ebbtide.svc.cluster.local", AAAA) == (0, [])


@pytest.mark.parametrize("kind", [A, AAAA])
def test_an_unknown_name_is_unknown(kind: int) -> None:
    assert told("nobody.ebbtide.svc.cluster.local", kind) == (3, [])


def test_no_answer_of_the_api_server_is_no_unknown_name() -> None:
    assert told("silent.ebbtide.svc.cluster.local") == (2, [])
