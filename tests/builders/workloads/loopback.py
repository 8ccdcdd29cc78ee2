"""An HTTP server on loopback that test doubles of an API build on."""

import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LoopbackServer(ThreadingHTTPServer):
    def __init__(self, handler: "type[Replying]") -> None:
        super().__init__(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def end(self) -> None:
        """Stop the server; further connections are refused."""
        self.shutdown()
        self.server_close()


class Replying(BaseHTTPRequestHandler, ABC):
    @abstractmethod
    def answer(self) -> tuple[int, str]:
        """Return status and body for `self.path`."""

    def do_GET(self) -> None:
        status, text = self.answer()
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        pass
