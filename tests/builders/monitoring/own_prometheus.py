"""The rendered Prometheus and Alertmanager as processes of this machine, and a kubelet's pages to be scraped.

What is another here than in a cluster, and nothing else: the folders that config names; a kubeconfig with the account's
token, since a process outside the cluster finds the API server by that; Alertmanager's address; and waits, which are
seconds instead of minutes.
"""

import json
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self
from urllib.parse import urlencode

from control_plane.plane.driver import ControlPlane

from ebbtide.demo.embedded import free_port
from tests.builders.control_plane import eventually
from tests.builders.monitoring.servers import answers, asked

CADVISOR = """\
container_cpu_usage_seconds_total{container="train",namespace="ebbtide-workers",pod="train-0"} 7
container_cpu_usage_seconds_total{container="",namespace="ebbtide-workers",pod="train-0"} 8
container_memory_working_set_bytes{container="",namespace="ebbtide-workers",pod="train-0"} 8
container_fs_reads_total{container="train",namespace="ebbtide-workers",pod="train-0"} 9
container_network_receive_bytes_total{container="",interface="eth0",namespace="ebbtide-workers",pod="train-0"} 10
container_network_transmit_bytes_total{container="",interface="eth0",namespace="ebbtide-workers",pod="train-0"} 11
container_network_transmit_errors_total{container="",interface="eth0",namespace="ebbtide-workers",pod="train-0"} 12
container_network_receive_bytes_total{container="",id="/",interface="eni1a2b",namespace="",pod=""} 13
"""
"""Lines as cAdvisor writes them: of a container, of its pod's group, of the network, and some that nothing needs."""


class KubeletPages(ThreadingHTTPServer):
    """The pages of a kubelet over TLS. Who asks is looked up as a kubelet does it: token first, then the right."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(("127.0.0.1", 0), _Kubelet)
        self.plane = plane
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates = plane.folder / "certificates"
        context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up is no news."""


class _Kubelet(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, KubeletPages)
        allowed = self._allowed(self.server.plane)
        text = CADVISOR if self.path == "/metrics/cadvisor" else ""
        body = text.encode() if allowed else b"forbidden"
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _allowed(self, plane: ControlPlane) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        review = plane.api.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
        user = review["status"].get("user", {})
        right = {"resource": "nodes", "subresource": "metrics", "verb": "get", "name": "one"}
        spec = {"user": user.get("username", ""), "groups": user.get("groups", []), "resourceAttributes": right}
        asked = plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        return bool(asked["status"].get("allowed"))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        """Quiet."""


@dataclass(kw_only=True)
class Process:
    """A server that may be killed and started again, with the same arguments. Use with `with`."""

    command: Sequence[str]
    folder: Path
    address: str
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.address.rpartition(':')[2]}.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as told:
            self._process = process = subprocess.Popen(self.command, cwd=self.folder, stdout=told, stderr=told)
        eventually(lambda: process.poll() is not None or answers(f"{self.url}/-/ready"), what=self.command[0])
        assert process.poll() is None, self.log.read_text()[-3000:]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The samples now."""
        return asked(self.url, f"query?{urlencode({'query': expression})}")["result"]


def moved(text: str, folders: Mapping[str, Path]) -> str:
    for there, here in folders.items():
        text = text.replace(there, str(here))
    return text


def quick(config: dict[str, Any], kubeconfig: Path, alertmanager: str) -> dict[str, Any]:
    """Prometheus' config, with seconds for its waits."""
    jobs = [
        {
            **job,
            **(
                {"kubernetes_sd_configs": [{**one, "kubeconfig_file": str(kubeconfig)} for one in found]}
                if (found := job.get("kubernetes_sd_configs"))
                else {}
            ),
        }
        for job in config["scrape_configs"]
        if job["job_name"] not in ("prometheus", "alertmanager")  # they have fixed addresses of the cluster
    ]
    waits = {**config["global"], "scrape_interval": "1s", "evaluation_interval": "1s"}
    told = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    return {**config, "global": waits, "scrape_configs": jobs, "alerting": told}


def hurried(config: dict[str, Any]) -> dict[str, Any]:
    """Alertmanager's config, with seconds for its waits."""
    at_once = {"group_wait": "0s", "group_interval": "1s", "repeat_interval": "1s"}
    route = config["route"]
    return {**config, "route": {**route, **at_once, "routes": [{**one, **at_once} for one in route["routes"]]}}


def address() -> str:
    return f"127.0.0.1:{free_port()}"


def write(folder: Path, files: Mapping[str, Any]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
