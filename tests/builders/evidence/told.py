"""A Prometheus whose answers are written down by hand, in the process and by HTTP."""

import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from ebbtide.monitoring.links import Reply

Points: TypeAlias = Sequence[tuple[float, float]]


class Told:
    """`courses` are by a part of the question; points are hours before now, and values."""

    where = "Prometheus at test"

    def __init__(self, until: datetime, courses: Mapping[str, Mapping[str, Points]], *, watched: bool = True) -> None:
        self._until, self._courses, self._watched = until, courses, watched

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        asked = str(query.get("query", ""))
        if path == "status/runtimeinfo":
            return self._reply({})
        if path == "query" and asked.startswith(("vector", *(("max(timestamp", "count(") if self._watched else ()))):
            return self._reply({"result": [{"metric": {}, "value": [0, str(self._until.timestamp())]}]})
        nothing: Mapping[str, Points] = {}
        found = next((series for part, series in self._courses.items() if part in asked), nothing)
        if path == "query":
            result = [{"metric": labels(text), "value": [0, str(points[-1][1])]} for text, points in found.items()]
            return self._reply({"result": result})
        begin, end = (float(str(query[key])) for key in ("start", "end"))
        return self._reply({"result": [*self._series(found, begin, end)]})

    def _series(self, found: Mapping[str, Points], begin: float, end: float) -> Iterator[dict[str, Any]]:
        for text, points in found.items():
            every = [(self._until.timestamp() - hours * 3600, str(value)) for hours, value in points]
            if values := [(at, value) for at, value in every if begin <= at <= end]:
                yield {"metric": labels(text), "values": values}

    def _reply(self, data: dict[str, Any]) -> Reply:
        return Reply({"status": "success", "data": data}, self._until)


class _Served(ThreadingHTTPServer):
    def __init__(self, told: Told) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.told = told
        threading.Thread(target=self.serve_forever, daemon=True).start()


@contextmanager
def served(told: Told) -> Generator[str]:
    """The same by HTTP: its address."""
    server = _Served(told)
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Served)
        parts = urlsplit(self.path)
        reply = self.server.told.get(parts.path.removeprefix("/api/v1/"), dict(parse_qsl(parts.query)))
        body = json.dumps(reply.document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        """Quiet."""


def labels(text: str) -> dict[str, str]:
    """`namespace=ebbtide workload=api`"""
    return dict(part.split("=") for part in text.split())


def hourly(days: float, value: Callable[[float], float]) -> Points:
    """A point each hour until now; `value` of the hours before now."""
    return [(float(hour), value(hour)) for hour in range(round(days * 24) - 1, -1, -1)]
