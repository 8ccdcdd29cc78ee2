"""The Kubernetes API as raw JSON over one connection pool.

The client library finds the server, the token (and renews it) and the certificates. Its models are not used: they cost
30 MB, and one malformed object raises an error. Nothing is retried here: the caller decides what to do without an
answer.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias, cast
from urllib.parse import urlencode

from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config  # pyright: ignore[reportUnknownVariableType] - the library is typed in part
from kubernetes.utils.keepalive import tcp_keepalive_socket_options
from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from controllers.one_line import one_line

Json: TypeAlias = dict[str, Any]
NoCluster = ConfigException  # no API server is configured; the message has the reason

_JSON, MERGE_PATCH = "application/json", "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
_PATIENCE = 5.0  # seconds; a later answer is too late for a Lease of 15 s


class ApiError(Exception):
    """The API server refused (`status` is the HTTP status), or could not be reached (`status` is 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubeApi:
    """Safe to use from several threads. `on_time` receives the server's time with every answer. `patience` is the
    longest wait for an answer, in seconds.
    """

    def __init__(
        self,
        configuration: Configuration,
        on_time: Callable[[datetime], None] = lambda _: None,
        *,
        patience: float = _PATIENCE,
    ) -> None:
        self._configuration, self._on_time = configuration, on_time
        self._patience = Timeout(connect=2.0, read=patience)
        # Without keepalive a dead connection would look like a quiet one.
        configuration.socket_options = tcp_keepalive_socket_options(idle=10, interval=5, count=3)
        configuration.connection_pool_maxsize = 16  # one per watch and thread
        self._pool = RESTClientObject(configuration).pool_manager
        self.calls: Counter[str] = Counter()  # by verb

    def get(self, path: str, **query: str) -> Json:
        return self._answer("GET", path, query)

    def create(self, path: str, body: Mapping[str, Any], **query: str) -> Json:
        return self._answer("POST", path, query, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """Replace an object; if `body` has an outdated resourceVersion, the server refuses (409)."""
        return self._answer("PUT", path, {}, body)

    def patch(self, path: str, body: Mapping[str, Any], kind: str = MERGE_PATCH, **query: str) -> Json:
        return self._answer("PATCH", path, query, body, kind)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str, force: bool = True) -> Json:
        """Server-side apply: the manager takes over every field that `body` contains.

        Without `force` the server refuses (409) to change another manager's field.
        """
        return self.patch(path, body, APPLY, fieldManager=manager, force=str(force).lower())

    def delete(self, path: str) -> Json:
        return self._answer("DELETE", path, {})

    def watch(self, path: str, silence: float, **query: str) -> "Watch":
        """Open a watch. `silence` is the longest wait for one event, in seconds."""
        patience = Timeout(connect=2.0, read=silence)
        return Watch(self._send("GET", path, {**query, "watch": "true"}, timeout=patience, preload_content=False))

    def _answer(self, verb: str, path: str, query: Mapping[str, str], body: object = None, kind: str = _JSON) -> Json:
        response = self._send(verb, path, query, kind, json=body, timeout=self._patience)
        try:
            return cast("Json", response.json())
        except ValueError as error:
            raise ApiError(0, f"an answer that is not JSON: {error}") from error

    def _send(self, verb: str, path: str, query: Mapping[str, str], kind: str = _JSON, **how: Any) -> BaseHTTPResponse:
        self.calls["WATCH" if "watch" in query else verb] += 1
        headers, url = {"Accept": _JSON, "Content-Type": kind}, f"{self._configuration.host}{path}?{urlencode(query)}"
        if token := self._configuration.get_api_key_with_prefix("authorization", alias="BearerToken"):
            headers["Authorization"] = token
        try:
            response = self._pool.request(verb, url, headers=headers, retries=False, **how)
        except (HTTPError, OSError) as error:
            raise ApiError(0, f"the server {self._configuration.host} cannot be reached: {error}") from error
        with suppress(ValueError):  # a proxy may drop or mangle the Date
            date = parsedate_to_datetime(response.headers.get("Date", ""))
            if date.tzinfo is not None and date.year < 9000:  # calendars look a year ahead
                self._on_time(date)
        if response.status >= 400:
            message = f"HTTP {response.status}"
            with suppress(HTTPError, ValueError, KeyError, TypeError):
                message = str(response.json()["message"])
            raise ApiError(response.status, message)
        return response


class Watch:
    """The events of one open watch, as they arrive, until the server ends the watch."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response, self._stopped = response, False

    def __iter__(self) -> Iterator[Json]:
        incomplete = b""
        try:
            for chunk in self._response.stream(amt=None, decode_content=True):
                *lines, incomplete = (incomplete + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        except (HTTPError, ValueError) as error:
            if not self._stopped:
                raise ApiError(0, f"the watch broke: {error}") from error
        finally:
            self._response.close()

    def stop(self) -> None:
        """End the watch at once, from another thread, even while it waits for an event."""
        self._stopped = True
        with suppress(ValueError, RuntimeError, OSError):  # it has already ended
            self._response.shutdown()


def from_kubeconfig(file: str | None = None, context: str | None = None) -> Configuration:
    """Read a kubeconfig as kubectl does. Raises `NoCluster` for any error in the file."""
    configuration = Configuration()
    try:
        load_kube_config(file, context, configuration)
    except (
        YAMLError,
        OSError,
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # the library checks little
        raise NoCluster(f"not a kubeconfig: {one_line(error)}") from error
    if "://" not in configuration.host:
        raise NoCluster(f"server: wanted https://host:port, found {configuration.host}")
    return configuration


def from_pod_or(kubeconfig: str | None) -> Configuration:
    """Return the configuration of a kubeconfig, or else of the pod's service account. Raises `NoCluster`."""
    if kubeconfig:
        return from_kubeconfig(kubeconfig)
    load_incluster_config(configuration := Configuration())
    return configuration
