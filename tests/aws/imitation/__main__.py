"""The imitation of AWS as a program: moto, what it lacks, and a record of every request. It says its port and serves.

It runs in the environment of tools/locks/aws.txt, which the project's own lacks, so nothing is imported from there.
"""

import base64
import io
import json
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any


class Recorder:
    """In front of moto: writes each request down as one line, and answers what moto does not know."""

    def __init__(self, behind: Callable[..., Iterable[bytes]], file: Path) -> None:
        self._behind = behind
        self._file = file
        self._lock = Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        said: list[str] = []

        def started(status: str, *rest: Any) -> Any:
            said.append(status)
            return start_response(status, *rest)

        answer = self._behind(environ, started)
        self._write(environ, body, said)
        return answer

    def _write(self, environ: dict[str, Any], body: bytes, said: list[str]) -> None:
        line = {
            "method": environ["REQUEST_METHOD"],
            "path": environ.get("REQUEST_URI", environ["PATH_INFO"]),
            "authorization": environ.get("HTTP_AUTHORIZATION", ""),
            "target": environ.get("HTTP_X_AMZ_TARGET", ""),
            "body": base64.b64encode(body).decode(),
            "status": said[0] if said else "",
        }
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def main(file: str) -> None:
    moto: Any = import_module("moto.moto_server.werkzeug_app")
    serving: Any = import_module("werkzeug.serving")
    behind = moto.DomainDispatcherApplication(moto.create_backend_app)
    server = serving.make_server(
        "127.0.0.1", 0, Recorder(behind, Path(file)), threaded=True, request_handler=moto.MotoRequestHandler
    )
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
