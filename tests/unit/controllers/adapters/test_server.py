"""The pages that the server answers, and its refusal of other paths."""

import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from controllers.adapters.server import Server, document, verdict

pytestmark = pytest.mark.process

WHY = {"why": ""}


@pytest.fixture
def server() -> Iterator[Server]:
    WHY["why"] = ""
    server = Server(
        "127.0.0.1", 0, {"/healthz": lambda: verdict(WHY["why"]), "/status": lambda: document({"customer": "ümlaut"})}
    )
    yield server
    server.shutdown()
    server.server_close()


def ask(server: Server, method: str, path: str) -> tuple[int, str, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Length"], answer.read().decode()
    finally:
        connection.close()


def test_a_probe_gives_the_reason_when_it_fails(server: Server) -> None:
    assert ask(server, "GET", "/healthz")[::2] == (200, "ok\n")
    WHY["why"] = "no reconcile for 60 s"
    assert ask(server, "GET", "/healthz")[::2] == (503, "no reconcile for 60 s\n")


def test_head_gives_the_length_and_no_body(server: Server) -> None:
    _, length, body = ask(server, "GET", "/status?pretty")
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as raw:
        raw.sendall(b"HEAD /status HTTP/1.0\r\n\r\n")
        answer = raw.makefile("rb").read().decode()

    assert int(length) == len(body.encode())
    assert f"Content-Length: {length}\r\n" in answer
    assert answer.endswith("\r\n\r\n")


def test_an_unknown_page_says_which_there_are(server: Server) -> None:
    status, _, text = ask(server, "GET", "/secrets")

    assert status == 404
    assert "/status" in text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed(server: Server, method: str) -> None:
    assert ask(server, method, "/status")[0] == 501


def test_who_hangs_up_leaves_no_trace(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port)) as rude:
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        rude.sendall(b"GET /stat")

    assert ask(server, "GET", "/healthz")[0] == 200
    assert capsys.readouterr().err == ""
