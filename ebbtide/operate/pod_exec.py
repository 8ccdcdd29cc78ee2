"""A command in a pod's container, as `kubectl exec` runs one: without a terminal, by the operator's right to it."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from kubernetes.stream.ws_client import create_websocket  # pyright: ignore[reportUnknownVariableType] - has no types
from websocket import ABNF, WebSocketBadStatusException, WebSocketException

from controllers.adapters.kube_api import ApiError
from ebbtide.operate.api import OperatorApi, one_line
from ebbtide.operate.objects import at, rows_at

PROTOCOL = "v4.channel.k8s.io"
_OUT, _ERR, _VERDICT = 1, 2, 3  # channels: the first byte of each message
_WAIT = 30.0  # seconds for the whole command


@dataclass(frozen=True, slots=True)
class Ran:
    code: int | None  # the exit code; None: it was not started, or did not end
    out: str
    said: str  # why there is no exit code, or the last line of stderr


def run_in_pod(api: OperatorApi, pod_path: str, container: str, command: list[str]) -> Ran:
    """`pod_path`: as of the pod itself. Raises `ApiError`, with the status where the API server says no."""
    query = {"command": command, "container": container, "stdout": "true", "stderr": "true"}
    url = f"{api.configuration.host}{pod_path}/exec?{urlencode(query, doseq=True)}"
    headers = {"sec-websocket-protocol": PROTOCOL}
    if token := api.configuration.get_api_key_with_prefix("authorization", alias="BearerToken"):
        headers["authorization"] = token
    try:
        stream: Any = create_websocket(api.configuration, url.replace("http", "ws", 1), headers)
    except WebSocketBadStatusException as error:
        raise ApiError(error.status_code, _message(error)) from error
    except (WebSocketException, OSError) as error:
        raise ApiError(0, f"{pod_path}/exec: {one_line(error)}") from error
    try:
        sent = _all_that_is_sent(stream)
    except (WebSocketException, OSError) as error:
        raise ApiError(0, f"{pod_path}/exec: {one_line(error)}") from error
    finally:
        stream.shutdown()
    if _VERDICT not in sent:
        return Ran(None, "", "the connection ended before the command did")
    code, why = _exit_code(sent[_VERDICT])
    lines = sent.get(_ERR, b"").decode(errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Ran(code, sent.get(_OUT, b"").decode(errors="replace"), why if code is None else last)


def _all_that_is_sent(stream: Any) -> dict[int, bytes]:
    """By channel, until the verdict."""
    sent: dict[int, bytes] = {}
    until = time.monotonic() + _WAIT
    while _VERDICT not in sent:
        stream.settimeout(max(0.1, until - time.monotonic()))
        kind, message = stream.recv_data()
        if kind == ABNF.OPCODE_CLOSE:
            break
        if message:
            sent[message[0]] = sent.get(message[0], b"") + message[1:]
    return sent


def _message(error: WebSocketBadStatusException) -> str:
    """The API server's own words, where it sent a Status."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(error.resp_body or b"")["message"])
    return f"HTTP {error.status_code}"


def _exit_code(verdict: bytes) -> tuple[int | None, str]:
    """What the last message says: a Status with the exit code among its causes, or why nothing was run."""
    try:
        status: object = json.loads(verdict)
    except ValueError:
        return None, f"found {verdict[:60]!r}, wanted a Status"
    if at(status, "status") == "Success":
        return 0, ""
    for cause in rows_at(status, "details", "causes"):
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
            return int(str(cause["message"])), ""
    return None, " ".join(str(at(status, "message") or "no reason given").split())
