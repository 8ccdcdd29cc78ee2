"""The Kubernetes API as raw JSON over one connection pool.

The client library finds the server, the token (and its renewal) and the certificates; its models are not used: they
cost 30 MB and raise on one odd object. Nothing is retried here: whoever asks decides what to do without an answer.
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

Json: TypeAlias = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
_PATIENCE = Timeout(connect=2.0, read=5.0)  # an answer that comes later is late for a Lease of 15 s
_CONNECTIONS = 16  # one per watch and thread: more than the library keeps on a small node
GONE = 410


class ApiError(Exception):
    """The API server said no (`status` is HTTP's), or could not be reached (`status` is 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoCluster(Exception):
    """Where the API server is could not be found out; the message says why."""


class KubeApi:
    """Safe to use from several threads. `heard` is told the server's time with every answer."""

    def __init__(self, configuration: Configuration, heard: Callable[[datetime], None] = lambda _: None) -> None:
        self._configuration = configuration
        # A connection whose other end vanished would otherwise look like a quiet one.
        configuration.socket_options = tcp_keepalive_socket_options(idle=10, interval=5, count=3)
        configuration.connection_pool_maxsize = _CONNECTIONS
        self._pool = RESTClientObject(configuration).pool_manager
        self._heard = heard
        self.calls: Counter[str] = Counter()  # by verb

    def get(self, path: str, **query: str) -> Json:
        return self._answer("GET", path, query)

    def create(self, path: str, body: Mapping[str, Any]) -> Json:
        return self._answer("POST", path, {}, body, "application/json")

    def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """A whole object; with a resourceVersion in it the server refuses (409) if it has changed since."""
        return self._answer("PUT", path, {}, body, "application/json")

    def patch(self, path: str, body: Mapping[str, Any], kind: str = MERGE_PATCH, **query: str) -> Json:
        return self._answer("PATCH", path, query, body, kind)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> Json:
        """Server-side apply: what `body` names becomes the manager's own, whoever had it."""
        return self.patch(path, body, APPLY, fieldManager=manager, force="true")

    def delete(self, path: str) -> Json:
        return self._answer("DELETE", path, {})

    def watch(self, path: str, silence: float, **query: str) -> "Watch":
        """Open a watch. `silence` is the longest wait for one event, in seconds."""
        response = self._send("GET", path, {**query, "watch": "true"}, timeout=Timeout(connect=2.0, read=silence))
        self._check(response)
        return Watch(response)

    def _answer(
        self, verb: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None = None, kind: str = ""
    ) -> Json:
        response = self._send(verb, path, query, body, kind)
        self._check(response)
        try:
            return cast("Json", json.loads(response.data))
        except (HTTPError, ValueError) as error:
            raise ApiError(0, f"an answer that is not JSON: {error}") from error

    def _send(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        kind: str = "",
        timeout: Timeout = _PATIENCE,
    ) -> BaseHTTPResponse:
        self.calls["WATCH" if "watch" in query else verb] += 1
        headers = {"Accept": "application/json"}
        token = self._configuration.get_api_key_with_prefix("authorization", alias="BearerToken")
        if token:
            headers["Authorization"] = token
        if kind:
            headers["Content-Type"] = kind
        try:
            response = self._pool.request(
                verb,
                f"{self._configuration.host}{path}{'?' if query else ''}{urlencode(query)}",
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=timeout,
                retries=False,
                preload_content="watch" not in query,
            )
        except (HTTPError, OSError) as error:
            raise ApiError(0, f"the API server cannot be reached: {error}") from error
        if "Date" in response.headers:
            self._heard(parsedate_to_datetime(response.headers["Date"]))
        return response

    def _check(self, response: BaseHTTPResponse) -> None:
        if response.status >= 400:
            try:
                message = json.loads(response.data)["message"]
            except (HTTPError, ValueError, KeyError, TypeError):
                message = f"HTTP {response.status}"
            raise ApiError(response.status, str(message))


class Watch:
    """The events of one open watch, as they come; ends when the server ends it."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[Json]:
        rest = b""
        try:
            for chunk in self._response.stream(amt=None, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        except (HTTPError, ValueError) as error:
            raise ApiError(0, f"the watch broke: {error}") from error
        finally:
            self._response.close()

    def stop(self) -> None:
        """End it from another thread, at once, even in the middle of a wait."""
        with suppress(ValueError, RuntimeError, OSError):  # it has ended by itself
            self._response.shutdown()


def in_cluster() -> Configuration:
    """From the pod's own service account. Raises `NoCluster`."""
    return _loaded(lambda configuration: load_incluster_config(configuration))


def from_kubeconfig(file: str | None = None, context: str | None = None) -> Configuration:
    """As kubectl finds it. Raises `NoCluster`."""
    return _loaded(lambda configuration: load_kube_config(file, context, configuration))


def _loaded(load: Callable[[Configuration], None]) -> Configuration:
    configuration = Configuration()
    try:
        load(configuration)
    except (ConfigException, OSError) as error:
        raise NoCluster(str(error)) from error
    return configuration
