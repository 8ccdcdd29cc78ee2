"""A proxy before moto's SQS that answers as the real one may: late counts, zeros, throttling, refusals, silence.

moto's counts are exact at once. The real counts may be a minute old, so the proxy shows those of a minute ago, by a
clock of the test.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from ebbtide.demo.embedded import HOST

COUNTS = tuple(f"ApproximateNumberOfMessages{name}" for name in ("", "NotVisible", "Delayed"))


class Proxy:
    """`lag` is in seconds of `clock`. `asked` lists the actions of all requests, `hidden_for` the seconds of each
    `ChangeMessageVisibility`.
    """

    def __init__(self, port: int, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._upstream, self._clock = port, clock
        self.lag, self.fault = 0.0, ""
        self.allowed: Collection[str] | None = None  # actions; None: all
        self.denied: set[str] = set()  # actions that were refused
        self.asked: list[str] = []
        self.hidden_for: list[int] = []
        self._past: defaultdict[str, list[tuple[float, dict[str, str]]]] = defaultdict(list)
        self.released = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65536  # one packet for each answer

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if proxy.fault == "silent":
                    proxy.asked.append("")
                    proxy.released.wait(10)
                    self.close_connection = True
                    return
                status, answer = proxy.answer(dict(self.headers.items()), body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}"

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        action = headers["X-Amz-Target"].partition(".")[2]
        self.asked.append(action)
        if action == "ChangeMessageVisibility":
            self.hidden_for.append(json.loads(body)["VisibilityTimeout"])
        refusals = {
            "throttled": (400, "com.amazonaws.sqs#RequestThrottled", "Rate exceeded"),
            "denied": (
                403,
                "com.amazon.coral.service#AccessDeniedException",
                f"not authorized to perform: sqs:{action}",
            ),
        }
        if self.fault in refusals:
            status, code, message = refusals[self.fault]
            return status, json.dumps({"__type": code, "message": message}).encode()
        right = f"sqs:{action.removesuffix('Batch')}"
        if self.allowed is not None and right not in self.allowed:
            self.denied.add(action)
            return 403, json.dumps({"__type": "com.amazon.coral.service#AccessDeniedException"}).encode()
        if self.fault in ("html", "down"):
            return (200, b"<html>") if self.fault == "html" else (503, b"")
        status, answer = self._forward(headers, body)
        if not set(COUNTS) <= {*json.loads(body).get("AttributeNames", ())} or status != 200:
            return status, answer
        return status, self._shown(json.loads(body)["QueueUrl"], json.loads(answer))

    def _forward(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        connection = HTTPConnection(HOST, self._upstream, timeout=10)
        try:
            connection.request("POST", "/", body, {**headers, "Host": f"{HOST}:{self._upstream}"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _shown(self, url: str, answer: dict[str, Any]) -> bytes:
        past = self._past[url]
        past.append((self._clock(), {name: answer["Attributes"][name] for name in COUNTS}))
        late = [counts for at, counts in past if at <= self._clock() - self.lag] or [dict.fromkeys(COUNTS, "0")]
        shown = {"zeros": dict.fromkeys(COUNTS, "0"), "negative": dict.fromkeys(COUNTS, "-1")}.get(self.fault, late[-1])
        answer["Attributes"] |= shown
        if self.fault == "incomplete":
            del answer["Attributes"][COUNTS[1]]
        return json.dumps(answer).encode()
