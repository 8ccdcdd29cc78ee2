"""What kubelets tell metrics-server: CPU and memory of the processes that stand for containers, as they really are.

One server for each node, at the address of this machine and on a port of its own, which the node's status names. Who
asks is looked up as a kubelet does it.
"""

import os
import ssl
import time
from collections import defaultdict
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread
from typing import Any

from control_plane.plane.driver import ControlPlane

from tests.serving.support.kubelet import Kubelet
from tests.serving.support.network import HOST

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class UsagePages(ThreadingMixIn, TCPServer):
    """Of one node."""

    daemon_threads = True

    def __init__(self, plane: ControlPlane, kubelet: Kubelet, node: str) -> None:
        super().__init__((HOST, 0), _Page)
        self.plane, self.kubelet, self.node = plane, kubelet, node
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates = plane.folder / "certificates"
        context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        Thread(target=self.serve_forever, name=f"usage of {node}", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def text(self) -> str:
        now, used = int(time.time() * 1000), usage()
        lines: list[str] = []
        for pod in self.kubelet.playing():
            for container, pid in pod.pids().items() if pod.node == self.node else ():
                seconds, memory, started = used.get(pid, (0.0, 0, 0.0))
                of = f'{{container="{container}",namespace="{pod.namespace}",pod="{pod.name}"}}'
                lines += [
                    f"container_cpu_usage_seconds_total{of} {seconds} {now}",
                    f"container_memory_working_set_bytes{of} {memory} {now}",
                    f"container_start_time_seconds{of} {started}",
                ]
        whole = list(used.values())
        lines.append(f"node_cpu_usage_seconds_total {sum(one[0] for one in whole)} {now}")
        lines.append(f"node_memory_working_set_bytes {sum(one[1] for one in whole)} {now}")
        return "".join(f"{line}\n" for line in lines)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up is no news."""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, UsagePages)
        allowed = self.path == "/metrics/resource" and self._allowed(self.server)
        body = (self.server.text() if allowed else "forbidden").encode()
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _allowed(self, server: UsagePages) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        api = server.plane.api
        user = api.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})["status"]["user"]
        right = {"resource": "nodes", "subresource": "metrics", "verb": "get", "name": server.node}
        spec = {"user": user["username"], "groups": user.get("groups", []), "resourceAttributes": right}
        asked = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        return bool(asked["status"].get("allowed"))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        """Quiet."""


def usage() -> dict[int, tuple[float, int, float]]:
    """By session, which each container's process leads: CPU seconds, bytes of memory, and since when (Unix time)."""
    booted = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    found: dict[int, tuple[float, int, float]] = defaultdict(lambda: (0.0, 0, float("inf")))
    for fields in _stats(Path("/proc").iterdir()):
        session = int(fields[3])
        seconds, memory, since = found[session]
        found[session] = (
            seconds + (int(fields[11]) + int(fields[12])) / _TICKS,
            memory + int(fields[21]) * _PAGE,
            min(since, booted + int(fields[19]) / _TICKS),
        )
    return found


def _stats(processes: Iterable[Path]) -> Iterable[list[str]]:
    """The fields of `/proc/PID/stat` after the program's name."""
    for one in processes:
        if one.name.isdecimal():
            try:
                yield (one / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
