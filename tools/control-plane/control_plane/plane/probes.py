"""Ports of this machine, and answers of servers on them, without a proxy: all is loopback."""

import socket
import ssl
import urllib.request
from urllib.error import URLError

HOST = "127.0.0.1"


def free_ports(number: int, host: str = HOST) -> list[int]:
    """Return free ports, which are open at the same time so that they differ."""
    probes = [socket.socket() for _ in range(number)]
    try:
        for probe in probes:
            probe.bind((host, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def accepts(port: int, host: str = HOST) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def says_ok(url: str) -> bool:
    """Return True if the server is healthy; this needs no login."""
    try:
        text_at(url)
    except (URLError, OSError):
        return False
    return True


def text_at(url: str, token: str = "") -> str:
    """Return a page. Raises OSError. Certificates are not checked: only the servers know their authorities."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unchecked)
    )
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with opener.open(urllib.request.Request(url, headers=headers), timeout=5) as answer:
        return str(answer.read().decode())
