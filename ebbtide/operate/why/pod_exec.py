"""Run a command in a pod's container as `kubectl exec` does, without a terminal and with the operator's rights."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from kubernetes.stream.ws_client import create_websocket  # pyright: ignore[reportUnknownVariableType] - has no types
from websocket import ABNF, WebSocketBadStatusException, WebSocketException

from controllers.adapters.kube_api import ApiError
from ebbtide.operate.api import OperatorApi
from ebbtide.operate.objects import at, rows_at
from ebbtide.text.one_line import collapsed

PROTOCOL = "v4.channel.k8s.io"
_OUT, _ERR, _VERDICT = 1, 2, 3  # channels: the first byte of each message
_WAIT = 30.0  # seconds for the entire command


@dataclass(frozen=True, slots=True)
class Completed:
    code: int | None  # the exit code; None: it was not started, or did not end
    out: str
    message: str  # why there is no exit code, or the last line of stderr


def run_in_pod(api: OperatorApi, pod_path: str, container: str, command: list[str]) -> Completed:
    """Run in the pod at `pod_path`. Raises `ApiError`, with the HTTP status if the API server refuses."""
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
        raise ApiError(0, f"{pod_path}/exec: {collapsed(error)}") from error
    try:
        output = _read(stream)
    except (WebSocketException, OSError) as error:
        raise ApiError(0, f"{pod_path}/exec: {collapsed(error)}") from error
    finally:
        stream.shutdown()
    if _VERDICT not in output:
        return Completed(None, "", "the connection ended before the command did")
    code, why = _exit_code(output[_VERDICT])
    lines = output.get(_ERR, b"").decode(errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Completed(code, output.get(_OUT, b"").decode(errors="replace"), why if code is None else last)


def _read(stream: Any) -> dict[int, bytes]:
    """Collect the output by channel, until the verdict."""
    output: dict[int, bytes] = {}
    until = time.monotonic() + _WAIT
    while _VERDICT not in output:
        stream.settimeout(max(0.1, until - time.monotonic()))
        kind, message = stream.recv_data()
        if kind == ABNF.OPCODE_CLOSE:
            break
        if message:
            output[message[0]] = output.get(message[0], b"") + message[1:]
    return output


def _message(error: WebSocketBadStatusException) -> str:
    """Return the API server's own message if it sent a Status."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(error.resp_body or b"")["message"])
    return f"HTTP {error.status_code}"


def _exit_code(verdict: bytes) -> tuple[int | None, str]:
    """Read the final Status: the exit code among its causes, or why the command did not run."""
    try:
        status: object = json.loads(verdict)
    except ValueError:
        return None, f"found {verdict[:60]!r}, wanted a Status"
    if at(status, "status") == "Success":
        return 0, ""
    for cause in rows_at(status, "details", "causes"):
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
            return int(str(cause["message"])), ""
    return None, collapsed(at(status, "message") or "no reason given")
