"""A server that answers as JupyterHub does when it is asked for users with a server."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

TOKEN = "abc"
CONNECTED = {"name": "kim", "servers": {"": {"pending": None, "ready": True}}}
STARTING = {"name": "kim", "servers": {"": {"pending": "spawn", "ready": False}}}


class Hub(ThreadingHTTPServer):
    """Answers as JupyterHub 5 does to `GET /hub/api/users?state=active`; it is none."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Users)
        self.answer: tuple[int, object] = 200, []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class _Users(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        hub = cast("Hub", self.server)
        known = (
            self.headers["Authorization"] == f"Bearer {TOKEN}" and self.path == "/hub/api/users?state=active&limit=1"
        )
        status, document = hub.answer if known else (403, {"status": 403, "message": "Forbidden"})
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        pass
