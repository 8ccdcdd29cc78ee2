"""Expiry of the certificates of TLS endpoints, read from each endpoint at most once an hour.

A certificate is read without verification: nothing is sent to the endpoint, and only one date is read from the
certificate. An alert on an expired certificate must not stop because the certificate is no longer trusted. So no CA is
needed either. The last expiry is reported until a new one is read: a server that is down for a while returns with the
same certificate.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic

_HOUR = 3600.0  # seconds
_PATIENCE = 5.0  # seconds for each step of the connection
_LOOK = 5.0  # seconds between two checks for endpoints to read

_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


class Certificates:
    """`ends`: expiry by endpoint; `whys`: error of the last read. Both are replaced, never changed in place."""

    def __init__(self, read: Callable[[str], datetime] | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.ends: dict[str, float] = {}
        self.whys: dict[str, str] = {}
        self._read, self._clock = read or end_of, clock
        self._read_at: dict[str, float] = {}
        self._endpoints: Sequence[str] = ()

    def start(self) -> None:
        never = threading.Event()
        threading.Thread(target=self.run, args=(never.wait,), name="certificates", daemon=True).start()

    def follow(self, endpoints: Sequence[str]) -> None:
        self._endpoints = endpoints

    def look(self) -> None:
        """Read the endpoints whose last read was at least an hour ago."""
        endpoints = self._endpoints
        for endpoint in endpoints:
            if self._clock() - self._read_at.get(endpoint, float("-inf")) < _HOUR:
                continue
            self._read_at[endpoint] = self._clock()
            try:
                self.ends = {**self.ends, endpoint: self._read(endpoint).timestamp()}
                self.whys = {**self.whys, endpoint: ""}
            except (OSError, ValueError, LookupError, OverflowError) as error:
                self.whys = {**self.whys, endpoint: f"{endpoint}: {str(error) or repr(error)}"}
        self.ends = {endpoint: end for endpoint, end in self.ends.items() if endpoint in endpoints}
        self.whys = {endpoint: why for endpoint, why in self.whys.items() if endpoint in endpoints}

    def run(self, wait: Callable[[float], bool]) -> None:
        """Read repeatedly until `wait`, which receives seconds, returns True."""
        self.look()
        while not wait(_LOOK):
            self.look()


def end_of(endpoint: str, patience: float = _PATIENCE) -> datetime:
    """Read the expiry from `host:port`. Raises OSError if TLS fails, ValueError without a certificate."""
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
    """Parse the expiry of an X.509 certificate; the standard library parses only trusted ones. Raises ValueError.

    Source: RFC 5280, 4.1. The signed part contains: version (optional), number, algorithm, issuer, validity.
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
    """Return tag, content and end of the DER element at an offset."""
    if len(data) < at + 2:
        raise ValueError("what it presents is no certificate")
    tag, length, at = data[at], data[at + 1], at + 2
    if length & 0x80:  # the length of the length
        size = length & 0x7F
        length, at = int.from_bytes(data[at : at + size], "big"), at + size
    if len(data) < at + length:
        raise ValueError("what it presents is no certificate")
    return tag, data[at : at + length], at + length
