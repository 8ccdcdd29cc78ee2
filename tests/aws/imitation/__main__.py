"""The imitation of AWS as a program: moto, what it lacks, and a record of every request. It says its port and serves.

It runs in the environment of tools/locks/aws.txt, which has nothing of the project, and the project has nothing of it.
"""

import base64
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from tests.aws.imitation.dlm import Dlm
from tests.aws.imitation.eks import Eks
from tests.aws.imitation.elasticache import ElastiCache
from tests.aws.imitation.mend import mend
from tests.aws.imitation.rest import Answer, Failed, Request, failed_as_json, request_of
from tests.aws.imitation.serving import Said, server_of

_SCOPE = re.compile(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/")  # the region and the service that a request is signed for


class Front:
    """In front of moto: writes each request down as one line, and answers for what moto lacks."""

    def __init__(self, moto: Callable[..., Iterable[bytes]], file: Path, account: str) -> None:
        self._moto = moto
        self._said: dict[str, Said] = {}
        self._file = file
        self._lock = Lock()
        self._account = account
        self._own: dict[str, Callable[[Request], Answer]] = {"eks": Eks(account).answer, "dlm": Dlm(account).answer}
        self._caches = ElastiCache(account)

    def __call__(self, environ: dict[str, Any]) -> Said:
        """A client that lost an answer on its way asks once more, by the same mark, and is told the same.

        The provider loses one of some thousands; AWS would know most such requests by a token of their own.
        """
        mark = environ.get("HTTP_AMZ_SDK_INVOCATION_ID", "")
        if mark in self._said:
            return self._said[mark]
        said = self._answer(environ)
        if mark and said.status.startswith("2"):
            self._said[mark] = said
        return said

    def _answer(self, environ: dict[str, Any]) -> Said:
        body = environ["wsgi.input"].read()
        environ["wsgi.input"].seek(0)
        uri = environ["REQUEST_URI"]
        region, service = _scope(environ.get("HTTP_AUTHORIZATION", ""))
        self._write(environ, uri, service, body)
        with self._lock:
            if service in self._own:
                answer = _answered(self._own[service], request_of(environ["REQUEST_METHOD"], uri, region, body))
            else:
                answer = self._caches.answer(region, body) if service == "elasticache" else None
        if answer is None:
            said = self._from_moto(environ)
            mend(service, self._account, region, body)
            return said
        error = [("X-Amzn-ErrorType", answer.error)] if answer.error else []
        return Said(answer.status, [("Content-Type", answer.kind), *error], answer.body)

    def _from_moto(self, environ: dict[str, Any]) -> Said:
        started: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
            started[:] = [status, headers]

        content = b"".join(self._moto(environ, start_response))
        status, headers = started
        return Said(status, headers, content)

    def _write(self, environ: dict[str, Any], uri: str, service: str, body: bytes) -> None:
        line = {
            "method": environ["REQUEST_METHOD"],
            "uri": uri,
            "service": service,
            "target": environ.get("HTTP_X_AMZ_TARGET", ""),
            "body": base64.b64encode(body).decode(),
        }
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _scope(authorization: str) -> tuple[str, str]:
    found = _SCOPE.search(authorization)
    return (found[1], found[2]) if found else ("", "")


def _answered(service: Callable[[Request], Answer], request: Request) -> Answer:
    try:
        return service(request)
    except Failed as failed:
        return failed_as_json(failed)
    except Exception as error:  # a fault of ours, or of moto's behind: a client would ask again for minutes
        traceback.print_exc()
        return failed_as_json(Failed("InvalidRequestException", repr(error)))


def main(file: str) -> None:
    app: Any = import_module("moto.moto_server.werkzeug_app")
    behind = app.DomainDispatcherApplication(app.create_backend_app)
    server = server_of(Front(behind, Path(file), os.environ["MOTO_ACCOUNT_ID"]))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
