"""HTTP server for probes, Prometheus and `ebbtide status`. Open to every client: it only reads, and shows no secret."""

import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Page: TypeAlias = tuple[int, str, str]  # HTTP status, content type, text
NOT_FOUND: Page = 404, "text/plain", "try /status, /metrics, /healthz or /readyz\n"


def verdict(why_not: str) -> Page:
    """Return a probe's page; an empty `why_not` means success."""
    return 503 if why_not else 200, "text/plain", f"{why_not or 'ok'}\n"


def document(value: Mapping[str, Any]) -> Page:
    return 200, "application/json", json.dumps(value, indent=1) + "\n"


class Server(ThreadingHTTPServer):
    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        """Listen at once. Raises OSError."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.pages = pages
        super().__init__((host, port), _Handler)
        threading.Thread(target=self.serve_forever, name="server", daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect; print any other error with its traceback, since it is a bug."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = 5  # seconds: a silent client must not occupy a thread forever

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        page = self.server.pages.get(self.path.partition("?")[0])
        status, kind, text = page() if page else NOT_FOUND
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the library's own name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        """Log no requests: probes come every few seconds."""
