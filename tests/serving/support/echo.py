"""A server that says which pod it is, on port 8000. A query holds the answer back until the caller is gone.

With the word `busy` it uses a tenth of a core, until somebody asks for `/rest`.
"""

import os
import sys
import time
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from threading import Event, Thread

RESTING = Event()


class Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if "?" in self.path:
            self.hold()
            return
        if self.path == "/rest":
            RESTING.set()
        body = os.environ["POD_NAME"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hold(self) -> None:
        """A part of the answer every ten seconds, since Envoy ends a stream that is silent for five minutes."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.connection.settimeout(10)
        while True:
            try:
                self.connection.recv(1)
            except TimeoutError:
                self.wfile.write(b"1\r\n.\r\n")
            else:
                return


def work() -> None:
    """A tenth of a core."""
    while not RESTING.is_set():
        until = time.process_time() + 0.01
        while time.process_time() < until:
            pass
        time.sleep(0.09)


if __name__ == "__main__":
    if "busy" in sys.argv:
        Thread(target=work, daemon=True).start()
    Server(("0.0.0.0", 8000), Page).serve_forever()  # in a network of its own
