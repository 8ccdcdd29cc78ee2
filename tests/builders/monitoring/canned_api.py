"""A mock of an API server: objects at paths, and a proxy to a Service that leads to a real server, or to none."""

import json
import threading
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit


class CannedApi(ThreadingHTTPServer):
    """`objects` by path, without the query; `services` are the addresses behind the proxy, by the Service's path."""

    def __init__(self, objects: Mapping[str, Any], services: Mapping[str, str] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects, self.services = dict(objects), dict(services or {})
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def kubeconfig(self, folder: Path) -> str:
        server = f"http://127.0.0.1:{self.server_port}"
        context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
        access = {"clusters": [{"name": "here", "cluster": {"server": server}}], "contexts": [context]}
        file = folder / "kubeconfig"
        file.write_text(json.dumps({**access, "current-context": "here", "users": [{"name": "me", "user": {}}]}))
        return str(file)


@contextmanager
def canned_api(objects: Mapping[str, Any], services: Mapping[str, str] | None = None) -> Generator[CannedApi]:
    server = CannedApi(objects, services)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, CannedApi)
        path = urlsplit(self.path).path
        behind = next((at for at in self.server.services if path.startswith(f"{at}/proxy/")), None)
        if behind is not None:
            self._pass_on(self.server.services[behind] + self.path.removeprefix(f"{behind}/proxy"))
        elif path in self.server.objects:
            self._answer(200, json.dumps(self.server.objects[path]).encode())
        else:
            status = {"kind": "Status", "status": "Failure", "message": f'"{path}" not found', "code": 404}
            self._answer(404, json.dumps(status).encode())

    def _pass_on(self, address: str) -> None:
        """As the real proxy does: status, body and Date are those of the server behind."""
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                self._answer(answer.status, answer.read(), answer.headers["Date"])
        except HTTPError as error:
            self._answer(error.code, error.read(), error.headers["Date"])

    def _answer(self, status: int, body: bytes, date: str = "") -> None:
        self.send_response_only(status)
        self.send_header("Date", date or self.date_time_string())
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        """Quiet."""
