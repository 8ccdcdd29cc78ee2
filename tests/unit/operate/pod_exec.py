"""An API server that answers a few paths, and runs the command of a pod's `exec` as a process of this machine.

It stands where a kubelet and a container would be, which need a node: the WebSocket and its messages are as Kubernetes'
`v4.channel.k8s.io` has them, and the process is the real command with a worker's environment.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_OUT, _ERR, _VERDICT = 1, 2, 3
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455


@dataclass
class PodServer:
    """`objects` by path; a list by its path too. `environment` is that of every container."""

    objects: dict[str, Any] = field(default_factory=dict[str, Any])
    environment: dict[str, str] = field(default_factory=dict[str, str])
    refuse: Mapping[str, Any] | None = None  # what exec is answered with, instead of running anything
    python: str = sys.executable
    ran: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])  # the path, the command
    address: str = ""

    def kubeconfig(self, folder: Path) -> Path:
        user = {"name": "me", "user": {"token": "mine"}}
        clusters = [{"name": "here", "cluster": {"server": self.address}}]
        contexts = [{"name": "here", "context": {"cluster": "here", "user": "me"}}]
        access = {"clusters": clusters, "contexts": contexts, "current-context": "here", "users": [user]}
        file = folder / "kubeconfig"
        file.write_text(json.dumps(access))
        return file


@contextmanager
def serving(pods: PodServer) -> Generator[PodServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"pods": pods}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    pods.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield pods
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    pods: PodServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if self.headers.get("Authorization") != "Bearer mine":
            self._answer(401, {"message": "Unauthorized"})
        elif url.path.endswith("/exec"):
            self._exec(url.path, query["command"])
        elif url.path not in self.pods.objects:
            self._answer(404, {"message": "not found"})
        else:
            self._answer(200, self._selected(self.pods.objects[url.path], query))

    def _selected(self, found: Any, query: Mapping[str, list[str]]) -> Any:
        """Return the pods with one label, which is the only selector used here."""
        if "labelSelector" not in query:
            return found
        key, value = query["labelSelector"][0].split("=")
        return {"items": [pod for pod in found["items"] if pod["metadata"]["labels"].get(key) == value]}

    def _answer(self, status: int, body: Mapping[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _exec(self, path: str, command: list[str]) -> None:
        if self.pods.refuse is not None:
            self._answer(self.pods.refuse["code"], self.pods.refuse)
            return
        if self.headers["Sec-WebSocket-Protocol"] != "v4.channel.k8s.io":
            self._answer(400, {"message": "no protocol that is spoken here"})
            return
        self.pods.ran.append((path, command))
        accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + _MAGIC).encode()).digest())
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept.decode())
        self.send_header("Sec-WebSocket-Protocol", self.headers["Sec-WebSocket-Protocol"])
        self.end_headers()
        self._run([self.pods.python if word == "python" else word for word in command])
        self.wfile.write(b"\x88\x02\x03\xe8")  # closed, and all is well
        self.close_connection = True

    def _run(self, command: list[str]) -> None:
        bare = {name: value for name, value in os.environ.items() if "REDIS" not in name and "CELERY" not in name}
        try:
            done = subprocess.run(command, capture_output=True, env=bare | self.pods.environment, check=False)
        except FileNotFoundError:
            why = f'OCI runtime exec failed: exec: "{command[0]}": executable file not found in $PATH: unknown'
            self._message(_VERDICT, json.dumps({"status": "Failure", "message": why, "code": 500}).encode())
            return
        self._message(_OUT, done.stdout)
        self._message(_ERR, done.stderr)
        causes = [{"reason": "ExitCode", "message": str(done.returncode)}]
        failure = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
        self._message(_VERDICT, json.dumps(failure if done.returncode else {"status": "Success"}).encode())

    def _message(self, channel: int, content: bytes) -> None:
        payload = bytes([channel]) + content
        size = len(payload)
        length = bytes([size]) if size < 126 else bytes([126]) + size.to_bytes(2, "big")
        self.wfile.write(b"\x82" + length + payload)
