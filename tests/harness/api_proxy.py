"""A small HTTP proxy before a real API server, which answers badly when told to.

Plain HTTP towards the client, the server's own TLS behind it; the client's token travels through. One request per
connection: what is tested is the client's behaviour among faults, and not its connection pool.
"""

import http.client
import json
import socket
import ssl
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}
_WRITES = {"PATCH", "PUT", "POST"}
_PIECE = 65536


class ApiFault(StrEnum):
    NONE = "none"
    DROPPED = "connections dropped"
    CONFLICT = "409 on writes"
    GONE = "410 on watches"
    BUSY = "429 on everything"
    ERROR = "500 on everything"
    SLOW = "every answer late"
    WATCHES_CUT = "watches cut"
    DENIED = "a webhook denies writes"
    ANSWER_LOST = "writes done, answers lost"
    PODS_SILENT = "watches of pods connected and silent"


_STATUS = {
    ApiFault.CONFLICT: 409,
    ApiFault.GONE: 410,
    ApiFault.BUSY: 429,
    ApiFault.ERROR: 500,
    ApiFault.DENIED: 403,
}


class ApiProxy:
    """Use as a context manager; `url` is for the client."""

    def __init__(self, url: str, ca_file: str, *, delay: float = 1.0) -> None:
        target = urlsplit(url)
        self.host, self.port = target.hostname or "", target.port or 443
        self.tls = ssl.create_default_context(cafile=ca_file)
        self.delay = delay
        self.fault = ApiFault.NONE
        self.ahead = timedelta()  # of the server's clock, as its answers show it
        self.hits: Counter[ApiFault] = Counter()
        self._open: set[socket.socket] = set()  # the clients that are being answered
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            through = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self.cut()
        self._server.server_close()

    def begin(self, fault: ApiFault) -> None:
        self.fault = fault
        if fault in {ApiFault.DROPPED, ApiFault.WATCHES_CUT, ApiFault.GONE}:
            self.hits[fault] += self.cut()

    def end(self) -> None:
        self.fault = ApiFault.NONE

    def cut(self) -> int:
        """End what is being answered now: the watches."""
        with self._lock:
            cut = list(self._open)
        for client in cut:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        return len(cut)

    def keep(self, client: socket.socket, *, open_now: bool) -> None:
        with self._lock:
            (self._open.add if open_now else self._open.discard)(client)

    def answered(self, method: str, path: str, status: int) -> None:
        """What the server behind said; for those who want to know."""

    def verdict(self, method: str, path: str) -> ApiFault:
        """What to do with this request, now."""
        watches = "watch=" in path
        applies = {
            ApiFault.CONFLICT: method in _WRITES,
            ApiFault.DENIED: method in _WRITES,
            ApiFault.ANSWER_LOST: method in _WRITES,
            ApiFault.GONE: watches,
            ApiFault.WATCHES_CUT: watches,
            ApiFault.PODS_SILENT: False,  # what is open already falls silent
        }
        fault = self.fault
        if not applies.get(fault, True):
            return ApiFault.NONE
        if fault is not ApiFault.NONE:
            self.hits[fault] += 1
        return fault


class _Handler(BaseHTTPRequestHandler):
    through: ApiProxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Quiet."""

    def do_GET(self) -> None:
        self._pass_on()

    do_PATCH = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the base class looks for these names

    def _pass_on(self) -> None:
        self.close_connection = True
        proxy = self.through
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.verdict(self.command, self.path)
        if fault in {ApiFault.DROPPED, ApiFault.WATCHES_CUT}:
            return
        if fault in _STATUS:
            self._refuse(_STATUS[fault], fault)
            return
        if fault is ApiFault.SLOW:
            time.sleep(proxy.delay)
        behind = http.client.HTTPSConnection(proxy.host, proxy.port, context=proxy.tls, timeout=60)
        proxy.keep(self.connection, open_now=True)
        try:
            self._relay(behind, body, answer=fault is not ApiFault.ANSWER_LOST)
        except (OSError, http.client.HTTPException):
            return  # one of the two has gone
        finally:
            proxy.keep(self.connection, open_now=False)
            behind.close()

    def _relay(self, behind: http.client.HTTPSConnection, body: bytes, *, answer: bool) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        behind.request(self.command, self.path, body or None, headers)
        response = behind.getresponse()
        self.through.answered(self.command, self.path, response.status)
        if not answer:
            response.read()
            return
        self.send_response_only(response.status)  # the other adds a Date, and the server sent one
        for name, value in response.getheaders():
            if name.lower() == "date":
                shown = parsedate_to_datetime(value) + self.through.ahead
                self.send_header(name, format_datetime(shown, usegmt=True))
            elif name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        # In chunks, as the server sends a watch: a client that waits for more bytes would else see no event.
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pods = self.path.partition("?")[0].endswith("/pods") and "watch=" in self.path
        while piece := response.read1(_PIECE):
            while pods and self.through.fault is ApiFault.PODS_SILENT:
                self.through.hits[ApiFault.PODS_SILENT] += 1
                time.sleep(0.02)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, status: int, fault: ApiFault) -> None:
        answer = json.dumps(
            {"kind": "Status", "apiVersion": "v1", "code": status, "message": f"test: {fault}"}
        ).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer)
