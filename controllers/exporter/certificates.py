"""When the certificates of TLS endpoints end, asked of the endpoints themselves at most once an hour.

What an endpoint presents is read without being trusted: nothing is sent to it and nothing but one date is taken from
it, and an alert that a certificate has run out must not fall silent because nobody trusts that certificate any more.
So no authority is needed either. An end that was read is told until another is read: a server that is away for a
while has the same certificate afterwards.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic

_HOUR = 3600.0  # seconds
_PATIENCE = 5.0  # seconds for each step of the connection
_LOOK = 5.0  # seconds until new endpoints are found

_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


class Certificates:
    """`ends`: seconds since 1970 by endpoint; `whys`: why the last look failed. Both are replaced, never changed."""

    def __init__(self, read: Callable[[str], datetime] | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.ends: dict[str, float] = {}
        self.whys: dict[str, str] = {}
        self._read, self._clock = read or end_of, clock
        self._asked: dict[str, float] = {}
        self._endpoints: Sequence[str] = ()

    def start(self) -> None:
        never = threading.Event()
        threading.Thread(target=self.run, args=(never.wait,), name="certificates", daemon=True).start()

    def follow(self, endpoints: Sequence[str]) -> None:
        self._endpoints = endpoints

    def look(self) -> None:
        """At those whose hour has come."""
        endpoints = self._endpoints
        for endpoint in endpoints:
            if self._clock() - self._asked.get(endpoint, float("-inf")) < _HOUR:
                continue
            self._asked[endpoint] = self._clock()
            try:
                self.ends = {**self.ends, endpoint: self._read(endpoint).timestamp()}
                self.whys = {**self.whys, endpoint: ""}
            except (OSError, ValueError, LookupError, OverflowError) as error:
                self.whys = {**self.whys, endpoint: f"{endpoint}: {str(error) or repr(error)}"}
        self.ends = {it: end for it, end in self.ends.items() if it in endpoints}
        self.whys = {it: why for it, why in self.whys.items() if it in endpoints}

    def run(self, wait: Callable[[float], bool]) -> None:
        """`wait` says, after so many seconds, whether it is time to end."""
        self.look()
        while not wait(_LOOK):
            self.look()


def end_of(endpoint: str, patience: float = _PATIENCE) -> datetime:
    """`host:port`. Raises OSError where nothing answers in TLS, ValueError for what is no certificate."""
    host, _, port = endpoint.rpartition(":")
    host = host.strip("[]")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, int(port)), patience) as connection,
        context.wrap_socket(connection, server_hostname=host) as secured,
    ):
        presented = secured.getpeercert(binary_form=True)
    if presented is None:
        raise ValueError("it presents no certificate")
    return not_after(presented)


def not_after(der: bytes) -> datetime:
    """Of an X.509 certificate: the standard library reads dates only of those that it trusts. Raises ValueError.

    Source: RFC 5280, 4.1. Of the part that is signed: version (may be missing), number, algorithm, issuer, validity.
    """
    signed = _element(_element(der, 0)[1], 0)[1]
    tag, _, at = _element(signed, 0)
    if tag == _VERSION:
        _, _, at = _element(signed, at)
    for _ in range(2):  # algorithm, issuer
        _, _, at = _element(signed, at)
    tag, validity, _ = _element(signed, at)
    if tag != _SEQUENCE:
        raise ValueError("what it presents is no certificate")
    kind, text, _ = _element(validity, _element(validity, 0)[2])
    if kind not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError("what it presents is no certificate")
    written = text.decode("ascii").replace("Z", "+0000")
    if kind == _UTC_TIME:
        written = f"{'19' if written >= '5' else '20'}{written}"
    return datetime.strptime(written, "%Y%m%d%H%M%S%z")


def _element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """One element of DER: its tag, what is in it, and where the next begins."""
    if len(data) < at + 2:
        raise ValueError("what it presents is no certificate")
    tag, length, at = data[at], data[at + 1], at + 2
    if length & 0x80:  # the length of the length
        size = length & 0x7F
        length, at = int.from_bytes(data[at : at + size], "big"), at + size
    if len(data) < at + length:
        raise ValueError("what it presents is no certificate")
    return tag, data[at : at + length], at + length
