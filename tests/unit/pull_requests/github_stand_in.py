"""A stand-in for GitHub's REST API on 127.0.0.1: it keeps comments as GitHub does, and answers badly when told to.

Only what GitHub does is imitated: pages with a Link header, ids, authors, 404 for what was deleted, refusals with
a message. A `Trouble` is used up by the first request that it fits, before or after the request is carried out.
"""

import json
import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

US, SOMEBODY = 41898282, 7
TOKEN = "ghs_canary0123456789"
REPO = "acme/platform"
_COMMENTS = f"/repos/{REPO}/issues/7/comments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Status 0 ends the connection without an answer."""

    method: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    message: str = ""
    carried_out: bool = False  # the request is done, and only its answer is bad


@dataclass(slots=True)
class Hub:
    comments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    troubles: list[Trouble] = field(default_factory=list[Trouble])
    asked: list[str] = field(default_factory=list[str])  # "GET /repos/…?page=1"
    tokens: set[str] = field(default_factory=set[str])
    per_page: int = 2
    before: Callable[[str], None] = lambda _: None  # called with each request's method
    url: str = ""
    _numbers: int = 100

    def comment(self, body: str, author: int = US) -> int:
        self._numbers += 1
        url = f"https://github.com/{REPO}/pull/7#issuecomment-{self._numbers}"
        self.comments.append({"id": self._numbers, "body": body, "user": {"id": author}, "html_url": url})
        return self._numbers

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments]

    def methods(self) -> list[str]:
        """What was asked about comments."""
        return [line.partition(" ")[0] for line in self.asked if "graphql" not in line]

    def trouble(self, method: str) -> Trouble | None:
        found = next((trouble for trouble in self.troubles if trouble.method == method), None)
        if found is not None:
            self.troubles.remove(found)
        return found

    def carry_out(self, method: str, path: str, body: Any) -> tuple[int, dict[str, str], object]:
        if path == "/graphql":
            return 200, {}, {"data": {"viewer": {"databaseId": US}}}
        if method == "GET" and (asked := re.fullmatch(rf"{_COMMENTS}\?per_page=100&page=(\d+)", path)):
            return self._page(int(asked[1]))
        if method == "POST" and path == _COMMENTS:
            self.comment(body["body"])
            return 201, {}, self.comments[-1]
        if method == "PATCH" and (asked := re.fullmatch(rf"/repos/{REPO}/issues/comments/(\d+)", path)):
            for comment in self.comments:
                if comment["id"] == int(asked[1]):
                    comment["body"] = body["body"]
                    return 200, {}, comment
        return 404, {}, {"message": "Not Found"}

    def _page(self, number: int) -> tuple[int, dict[str, str], object]:
        last = number * self.per_page >= len(self.comments)
        link = {} if last else {"Link": f'<{self.url}/elsewhere?page={number + 1}>; rel="next", <x>; rel="last"'}
        return 200, link, self.comments[(number - 1) * self.per_page : number * self.per_page]


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.hub.asked.append(f"{self.command} {self.path}")
        self.hub.tokens.add(self.headers.get("Authorization", ""))
        self.hub.before(self.command)
        trouble = self.hub.trouble("GRAPHQL" if self.path == "/graphql" else self.command)
        if trouble is None or trouble.carried_out:
            status, headers, answer = self.hub.carry_out(self.command, self.path, json.loads(body or b"null"))
        else:
            status, headers, answer = trouble.status, {}, {"message": trouble.message}
        if trouble is not None:
            status, headers = trouble.status, dict(trouble.headers)
        if status != 0:  # else the server closes the connection
            self._send(status, headers, json.dumps(answer).encode())

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Quiet."""


@contextmanager
def github() -> Generator[Hub]:
    """GitHub with no comments yet; `url` is for --api."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield hub
        server.shutdown()


class FastClock:
    """A clock on which waiting takes no time."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.waits: list[float] = []
        self._now = now

    def now(self) -> float:
        return self._now + sum(self.waits)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
