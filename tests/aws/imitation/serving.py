"""Answers over HTTP/1.1, on connections that stay open. A request comes as WSGI's environment, with all of its body."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote_to_bytes


@dataclass(frozen=True, slots=True)
class Said:
    status: str
    headers: list[tuple[str, str]]
    content: bytes


Application = Callable[[dict[str, Any]], Said]

_HOST = "127.0.0.1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer is one packet
    application: Application

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = type(self).application(self._environ(body))
        self.send_response(int(said.status.split()[0]))
        for name, value in said.headers:
            if name.lower() not in ("content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(said.content)))
        self.end_headers()
        self.wfile.write(said.content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that the library looks for

    def log_request(self, code: object = "-", size: object = "-") -> None:
        if not str(code).startswith("2"):
            super().log_request(str(code), str(size))

    def _environ(self, body: bytes) -> dict[str, Any]:
        path, _, query = self.path.partition("?")
        return {
            "REQUEST_METHOD": self.command,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "REQUEST_URI": self.path,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "SERVER_NAME": _HOST,
            "SERVER_PORT": str(self.connection.getsockname()[1]),
            "SERVER_PROTOCOL": self.request_version,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in self.headers.items()},
        }


def server_of(application: Application) -> ThreadingHTTPServer:
    """On a free port of the loopback interface."""
    return ThreadingHTTPServer((_HOST, 0), type("_Serving", (_Handler,), {"application": staticmethod(application)}))
