"""Debian's Prometheus and Alertmanager as processes on loopback, and a receiver that keeps what arrives."""

import json
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from controllers.adapters.metrics import FORMAT
from controllers.adapters.server import Page, Server
from ebbtide.demo.embedded import free_port
from tests.builders.control_plane import eventually

PROMETHEUS, ALERTMANAGER = shutil.which("prometheus"), shutil.which("prometheus-alertmanager")
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on PATH (Debian's package)")
needs_alertmanager = pytest.mark.skipif(
    ALERTMANAGER is None, reason="no prometheus-alertmanager on PATH (Debian's package)"
)
CUSTOMER = {"target_label": "customer", "replacement": "acme"}
"""What a PodMonitor of a stack adds to each target."""


class Exposed:
    """A target whose text a test may change; None answers with an error, as a process in trouble does."""

    def __init__(self, text: str | None) -> None:
        self.text = text
        self._server = Server("127.0.0.1", 0, {"/metrics": self._page})
        self.address = f"127.0.0.1:{self._server.server_port}"

    def _page(self) -> Page:
        return (500, "text/plain", "") if self.text is None else (200, FORMAT, self.text)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Receiver(ThreadingHTTPServer):
    """A webhook: `alerts` holds each alert that arrived, as Alertmanager sends it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Webhook)
        self.alerts: list[dict[str, Any]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Webhook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.alerts += body["alerts"]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        """Quiet."""


@contextmanager
def prometheus(
    folder: Path,
    targets: Mapping[str, str],
    *,
    rules: Mapping[str, Any] | None = None,
    alertmanager: str = "",
    retention: str = "15d",
) -> Generator[str]:
    """Its URL, once it is ready; scrapes each target, an address by job, every second."""
    assert PROMETHEUS is not None
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [address]}], "relabel_configs": [CUSTOMER]}
            for job, address in targets.items()
        ],
        "rule_files": ["rules.json"] if rules else [],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}] if alertmanager else [],
        },
    }
    (folder / "rules.json").write_text(json.dumps(rules or {}), encoding="utf-8")
    (folder / "prometheus.json").write_text(json.dumps(config), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    arguments = [
        *(
            "--config.file",
            "prometheus.json",
            "--storage.tsdb.path",
            "data",
            "--storage.tsdb.retention.time",
            retention,
        ),
        f"--web.listen-address={address}",
        "--rules.alert.resend-delay=1s",  # what is sent before Alertmanager is found is lost
    ]
    with _running([PROMETHEUS, *arguments], folder, f"http://{address}/-/ready"):
        yield f"http://{address}"


@contextmanager
def alertmanager(folder: Path, receiver: str) -> Generator[str]:
    """Its address; sends on at once."""
    assert ALERTMANAGER is not None
    config = {
        "route": {"receiver": "here", "group_wait": "0s", "group_interval": "1s", "group_by": ["alertname"]},
        "receivers": [{"name": "here", "webhook_configs": [{"url": receiver}]}],
    }
    (folder / "alertmanager.json").write_text(json.dumps(config), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    arguments = [
        *("--config.file", "alertmanager.json", "--storage.path", "alerts", "--cluster.listen-address="),
        f"--web.listen-address={address}",
    ]
    with _running([ALERTMANAGER, *arguments], folder, f"http://{address}/-/ready"):
        yield address


@contextmanager
def _running(command: Sequence[str], folder: Path, ready: str) -> Generator[None]:
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("wb") as told:
        process = subprocess.Popen(command, cwd=folder, stdout=told, stderr=told)
        try:
            eventually(lambda: process.poll() is not None or answers(ready), what=f"{command[0]} to be ready")
            assert process.poll() is None, log.read_text()
            yield
        finally:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status == 200
    except (URLError, OSError):
        return False


def asked(url: str, path: str) -> Any:
    """The data of an answer of Prometheus' API."""
    with urllib.request.urlopen(f"{url}/api/v1/{path}", timeout=30) as answer:
        return json.loads(answer.read())["data"]
