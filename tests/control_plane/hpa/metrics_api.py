"""A stand-in for the metrics APIs: it says what a scenario says, and keeps who was told what, and when.

The metric is the input of the experiment; what is recorded is what the real autoscaler makes of it. Served through the
real API server's aggregation, as KEDA's adapter and metrics-server are.
"""

import json
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import Json
from tests.builders.control_plane import eventually

CPU = "cpu"
_EXTERNAL, _OF_PODS = "external.metrics.k8s.io", "metrics.k8s.io"
_GROUPS = {
    _EXTERNAL: {"name": "externalmetrics", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]},
    _OF_PODS: {"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]},
}
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Told:
    at: datetime
    scenario: str
    metric: str
    value: float | None


@dataclass
class Script:
    """`pods` says of a scenario's pods which are ready; a value is of the whole scenario, CPU's of each ready pod."""

    pods: Callable[[str], dict[str, bool]]
    values: dict[tuple[str, str], float | None] = field(default_factory=dict[tuple[str, str], float | None])
    told: list[Told] = field(default_factory=list[Told])

    def tell(self, scenario: str, metric: str) -> float | None:
        value = self.values.get((scenario, metric))
        self.told.append(Told(datetime.now(UTC), scenario, metric, value))
        return value

    def answer(self, path: str) -> Json | None:
        """Of the paths that discovery and the HPA controller ask for; None: there is no such thing."""
        parts = [part for part in path.split("/") if part]
        match parts[1:]:
            case [group, "v1beta1"] if group in _GROUPS:
                return {"kind": "APIResourceList", "groupVersion": f"{group}/v1beta1", "resources": [_GROUPS[group]]}
            case [group, "v1beta1", "namespaces", scenario, "pods"] if group == _OF_PODS:
                return self._of_pods(scenario)
            case [group, "v1beta1", "namespaces", scenario, metric] if group == _EXTERNAL:
                value = self.tell(scenario, metric)
                item: Json = {
                    "metricName": metric,
                    "metricLabels": {},
                    "timestamp": _now(),
                    "value": _milli(value or 0),
                }
                items = [] if value is None else [item]
                return {"kind": "ExternalMetricValueList", "apiVersion": f"{group}/v1beta1", "items": items}
            case _:
                return None

    def _of_pods(self, scenario: str) -> Json:
        """A window of no time: a pod counts from the moment that it is ready."""
        value = self.tell(scenario, CPU)
        items = [
            {
                "metadata": {"name": name, "namespace": scenario},
                "timestamp": _now(),
                "window": "0s",
                "containers": [{"name": "x", "usage": {CPU: _milli((value or 0) / 100 if ready else 0)}}],
            }
            for name, ready in (self.pods(scenario).items() if value is not None else ())
        ]
        return {"kind": "PodMetricsList", "apiVersion": f"{_OF_PODS}/v1beta1", "items": items}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _milli(value: float) -> str:
    return f"{round(value * 1000)}m"


@contextmanager
def serving(plane: ControlPlane, script: Script) -> Generator[None]:
    """Both APIs, until the end; returns once the API server passes requests on."""
    server = _server(plane, script)
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    port = server.server_address[1]
    try:
        service = {"type": "ExternalName", "externalName": _HOST}
        plane.api.create("/api/v1/namespaces/default/services", {"metadata": {"name": "metrics"}, "spec": service})
        for group in _GROUPS:
            spec: dict[str, Any] = {
                "group": group,
                "version": "v1beta1",
                "service": {"namespace": "default", "name": "metrics", "port": port},
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            }
            body = {"metadata": {"name": f"v1beta1.{group}"}, "spec": spec}
            plane.api.create("/apis/apiregistration.k8s.io/v1/apiservices", body)
        for group in _GROUPS:
            path = f"/apis/{group}/v1beta1"
            eventually(lambda path=path: plane.api.get(path)["resources"], what=path)
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _server(plane: ControlPlane, script: Script) -> ThreadingHTTPServer:
    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = script.answer(urlsplit(self.path).path)
            body = json.dumps(answer or {}).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
            """Quiet."""

    server = ThreadingHTTPServer((_HOST, 0), Answers)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = plane.folder / "certificates"
    context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server
