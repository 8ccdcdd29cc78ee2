"""Serve the names of Services to pods: `python dns.py ADDRESS API-SERVER CA-FILE TOKEN-FILE`.

A separate process, since pods resolve names while a test computes. It knows only A records: a Service's address, for a
headless one those of the ready pods, for a pod with a hostname that pod's. Each query asks the API server. Standard
library only.
"""

import json
import socket
import ssl
import struct
import sys
import threading
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

DOMAIN = ("svc", "cluster", "local")
_TTL = 1  # seconds
_A, _IN = 1, 1
_NO_SUCH_NAME, _FAILED = 3, 2

Lookup: TypeAlias = Callable[[Sequence[str]], Sequence[str] | None]
"""Addresses of a name, by its labels; None: the name does not exist."""


def answer(query: bytes, lookup: Lookup) -> bytes:
    """Answer a query with one question, as resolvers send them."""
    labels, end = _name(query)
    kind = struct.unpack_from("!H", query, end)[0]
    code, addresses = 0, ()
    try:
        result = lookup(labels)
    except OSError:
        result, code = (), _FAILED
    if result is None:
        code = _NO_SUCH_NAME
    elif kind == _A:
        addresses = tuple(result)
    head = struct.pack("!2sHHHHH", query[:2], 0x8580 | code, 1, len(addresses), 0, 0)
    records = [struct.pack("!HHHIH4s", 0xC00C, _A, _IN, _TTL, 4, socket.inet_aton(address)) for address in addresses]
    return head + query[12 : end + 4] + b"".join(records)


def _name(query: bytes) -> tuple[list[str], int]:
    labels: list[str] = []
    at = 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii", "replace").lower())
        at += 1 + length
    return labels, at + 1


class Services:
    """Resolves names through the API server, with a token that may read Services and EndpointSlices."""

    def __init__(self, server: str, ca_file: str, token: str) -> None:
        self._server, self._token = server, token
        trusted = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file))
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({}), trusted).open

    def lookup(self, labels: Sequence[str]) -> Sequence[str] | None:
        """Return the addresses. Raises OSError if the API server does not answer."""
        if tuple(labels[-3:]) != DOMAIN or len(labels) not in (5, 6):
            return None
        *pod, service, namespace = labels[:-3]
        services = self._list(f"/api/v1/namespaces/{namespace}/services?fieldSelector=metadata.name={service}")
        if not services:
            return None
        address = services[0]["spec"].get("clusterIP", "None")
        if address != "None":
            return None if pod else [address]
        ready = self._ready(namespace, service)
        return ([ip for ip, name in ready if name == pod[0]] or None) if pod else [ip for ip, _ in ready]

    def _ready(self, namespace: str, service: str) -> list[tuple[str, str]]:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        slices = self._list(f"{path}?labelSelector=kubernetes.io/service-name={service}")
        endpoints: list[dict[str, Any]] = [row for item in slices for row in item.get("endpoints") or ()]
        ready = (row for row in endpoints if row.get("conditions", {}).get("ready", True))
        return [(row["addresses"][0], row.get("hostname", "")) for row in ready]

    def _list(self, path: str) -> list[dict[str, Any]]:
        """List objects, since a kube-proxy's token may read no single object."""
        request = urllib.request.Request(f"{self._server}{path}", headers={"Authorization": f"Bearer {self._token}"})
        with self._open(request, timeout=5) as reply:
            return json.load(reply)["items"]


def main(address: str, server: str, ca_file: str, token_file: str) -> None:
    services = Services(server, ca_file, Path(token_file).read_text())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((address, 53))
        while True:
            query, client = listener.recvfrom(4096)

            def reply(query: bytes = query, client: Any = client) -> None:
                listener.sendto(answer(query, services.lookup), client)

            threading.Thread(target=reply, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
