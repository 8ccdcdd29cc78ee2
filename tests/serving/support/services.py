"""Plays Services: an address that leads to a ready pod, DNS that knows the address, and the cloud's load balancer.

Connections are passed on by this process, which is fine for what control planes say to each other. Load goes to pods.
"""

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self, cast

from controllers.adapters.kube_api import ApiError, Json, KubeApi
from controllers.adapters.kube_cache import KubeCache
from tests.serving.support.network import HOST, own_address

_CHUNK = 1 << 16
_A = 1  # the type of an address of version 4


class Services:
    """Use with `with`."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._news, self._closed = Event(), Event()
        self._loop = asyncio.new_event_loop()
        self._servers: dict[tuple[str, int], asyncio.Server] = {}
        self._addresses: set[str] = set()

    def __enter__(self) -> Self:
        self._services: KubeCache[Json] = KubeCache(self._api, "/api/v1/services", lambda one: one, self._news.set)
        self._slices: KubeCache[Json] = KubeCache(
            self._api, "/apis/discovery.k8s.io/v1/endpointslices", lambda one: one, lambda: None
        )
        self._services.start()
        self._slices.start()
        self._threads = [
            Thread(target=self._loop.run_forever, name="services", daemon=True),
            Thread(target=self._follow, name="services' addresses", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        serve = self._loop.create_datagram_endpoint(lambda: _Dns(self._resolve), (HOST, 53))
        self._dns, _ = asyncio.run_coroutine_threadsafe(serve, self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._news.set()
        self._services.close()
        self._slices.close()
        self._threads[1].join()
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._threads[0].join()
        self._loop.close()

    async def _stop(self) -> None:
        self._dns.close()
        for server in self._servers.values():
            server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _follow(self) -> None:
        while not self._closed.is_set():
            self._news.wait(1.0)
            self._news.clear()
            for one in [one for one in self._services.snapshot().values() if _address(one)]:
                for port in one["spec"].get("ports", ()):
                    self._listen(one, port)
                self._balance(one)

    def _resolve(self, name: str) -> str:
        """The address of a Service; empty for any other name."""
        parts = name.rstrip(".").removesuffix(".cluster.local").split(".")
        if len(parts) != 3 or parts[2] != "svc":
            return ""
        for one in self._services.snapshot().values():
            if (one["metadata"]["name"], one["metadata"]["namespace"]) == (parts[0], parts[1]):
                return _address(one)
        return ""

    def _listen(self, service: Json, port: Json) -> None:
        key = (_address(service), int(port["port"]))
        if key in self._servers or port.get("protocol", "TCP") != "TCP" or service["metadata"]["name"] == "kubernetes":
            return
        if key[0] not in self._addresses:
            own_address(key[0])
            self._addresses.add(key[0])
        name, space, port_name = service["metadata"]["name"], service["metadata"]["namespace"], port.get("name", "")

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.CancelledError):  # at the end; asyncio would print a page about it
                await _pass_on(reader, writer, self._endpoints(space, name, port_name))

        made = asyncio.run_coroutine_threadsafe(asyncio.start_server(pass_on, *key), self._loop)
        self._servers[key] = made.result(10)

    def _endpoints(self, space: str, name: str, port_name: str) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for one in self._slices.snapshot().values():
            labels = one["metadata"].get("labels", {})
            if labels.get("kubernetes.io/service-name") == name and one["metadata"]["namespace"] == space:
                ports = [port["port"] for port in one.get("ports") or () if (port.get("name") or "") == port_name]
                ready = [each for each in one.get("endpoints") or () if each.get("conditions", {}).get("ready")]
                found += [(each["addresses"][0], ports[0]) for each in ready if ports]
        return found

    def _balance(self, service: Json) -> None:
        """A balancer of the cloud: Envoy Gateway calls a Gateway programmed when its Service has an address."""
        if service["spec"].get("type") != "LoadBalancer" or service.get("status", {}).get("loadBalancer"):
            return
        metadata = service["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/services/{metadata['name']}/status"
        with suppress(ApiError):
            self._api.patch(path, {"status": {"loadBalancer": {"ingress": [{"ip": _address(service)}]}}})


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoints: list[tuple[str, int]]
) -> None:
    there: asyncio.StreamWriter | None = None
    try:
        from_there, there = await asyncio.open_connection(*random.choice(endpoints)) if endpoints else (None, None)
        if from_there is not None and there is not None:
            done, rest = await asyncio.wait(
                [asyncio.ensure_future(_copy(reader, there)), asyncio.ensure_future(_copy(from_there, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in (*done, *rest):
                task.cancel()
    except OSError:
        pass  # the pod is gone
    finally:
        for end in (writer, there):
            if end is not None:
                end.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()


def _address(service: Json) -> str:
    found = str(service["spec"].get("clusterIP", ""))
    return "" if found == "None" else found


class _Dns(asyncio.DatagramProtocol):
    """Answers for addresses of version 4; a name that is not a Service's does not exist."""

    def __init__(self, resolve: Callable[[str], str]) -> None:
        self._resolve = resolve

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, at = list[str](), 12
        while length := data[at]:
            labels.append(data[at + 1 : at + 1 + length].decode())
            at += 1 + length
        question = data[12 : at + 5]
        address, kind = self._resolve(".".join(labels)), int.from_bytes(question[-4:-2], "big")
        answer = b""
        if address and kind == _A:
            # A pointer to the name in the question, its type and class, 5 s to live, four bytes.
            answer = b"\xc0\x0c" + question[-4:] + struct.pack(">IH", 5, 4) + socket.inet_aton(address)
        flags = 0x8580 if address else 0x8583  # an answer by who knows; or: there is no such name
        header = data[:2] + struct.pack(">HHHHH", flags, 1, 1 if answer else 0, 0, 0)
        self._transport.sendto(header + question + answer, addr)
