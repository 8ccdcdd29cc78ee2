"""GitHub's REST API with the standard library: one request at a time, and patience that ends.

    GithubError               the message is one line, without the token
    ├── Refused               the API says no: asking again does not help
    │   └── Gone              what was asked for is not there (404, 410)
    ├── Unsure                a comment may have been created or not: look before it is created again
    └── Unreachable           no sound answer within the attempts and the time that there are

The traps, from GitHub's pages "Best practices for using the REST API" and "Rate limits for the REST API" and the issues
named here:

- A limit answers 403 as well as 429, and does not always say how long to wait (hub4j/github-api issue 1805): then at
  least a minute, and longer each time.
- A POST whose answer got lost may have been carried out. Whoever sends it again writes a second comment.
- The token of a workflow may not ask REST who it is (`GET /user` answers 403), but GraphQL's `viewer` tells it for all
  kinds of tokens (fullsend-ai/fullsend pull request 1953).
- urllib sends the token along wherever a redirect points to, so redirects are not followed.
"""

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import IO, NoReturn, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

API = "https://api.github.com"
ATTEMPTS = 5
PATIENCE = 300.0
"""Seconds to wait in all: a job of a pull request that waits longer is better run again."""

_TIMEOUT = 30.0
_MINUTE = 60.0
_LONGEST_WORDS = 200

Json = Mapping[str, object]


class GithubError(Exception):
    """One line for whoever reads the job's log."""


class Refused(GithubError):
    """Final."""


class Gone(Refused):
    """Not there, or not to be seen with this token."""


class Unsure(GithubError):
    """Sent, and the answer lost."""


class Unreachable(GithubError):
    """Tried long enough."""


class Clock(Protocol):
    """What waiting needs."""

    def now(self) -> float:
        """Seconds since 1970, as in `x-ratelimit-reset`."""
        ...

    def wait(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> object:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise Refused("the answer is not JSON: does --api name GitHub's REST API?") from None

    @property
    def words(self) -> str:
        """What the API says about a refusal, short and on one line; "" where it says nothing."""
        try:
            message = json.loads(self.body)["message"]
        except (ValueError, KeyError, TypeError):
            return ""
        return " ".join("".join(c if c.isprintable() else " " for c in str(message)).split())[:_LONGEST_WORDS]


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """None lets urllib report the 3xx as it came."""


class GithubApi:
    """Asks on behalf of one token. Raises: `GithubError`."""

    def __init__(self, token: str, clock: Clock, *, url: str = API, tell: Callable[[str], None]) -> None:
        self._token = token
        self._clock = clock
        self._url = url.rstrip("/")
        self._tell = tell
        self._opener: OpenerDirector = build_opener(_NoRedirects)
        self._waited = 0.0

    def get(self, path: str) -> Answer:
        return self._ask("GET", path, None, again=True)

    def patch(self, path: str, body: Json) -> Answer:
        return self._ask("PATCH", path, body, again=True)

    def post(self, path: str, body: Json) -> Answer:
        """Never sent twice unless it is certain that the first did nothing. Raises also `Unsure`."""
        return self._ask("POST", path, body, again=False)

    def own_id(self) -> int:
        """The number of the token's own user or bot, as it stands in `user.id` of what it writes."""
        answer = self._ask("POST", self._graphql(), {"query": "{ viewer { databaseId } }"}, again=True)
        match answer.json():
            case {"data": {"viewer": {"databaseId": int(number)}}}:
                return number
            case _:
                raise Refused("GitHub did not say whom the token belongs to, so no comment is known to be its own")

    def _graphql(self) -> str:
        """GraphQL stands beside REST: /graphql, and on GitHub Enterprise Server /api/graphql beside /api/v3."""
        return f"{self._url.removesuffix('/v3')}/graphql"

    def _ask(self, method: str, path: str, body: Json | None, *, again: bool) -> Answer:
        request = self._request(method, path, body)
        trouble = ""
        for attempt in range(1, ATTEMPTS + 1):
            trouble, answer = self._attempt(request)
            if answer is not None and answer.status < 300:
                return answer
            limited = None if answer is None else self._limit(answer, attempt)
            if limited is not None:
                trouble = "GitHub's rate limit is reached"
            elif answer is not None and answer.status < 500:
                self._refuse(answer, method, path)
            pause = 2.0 ** (attempt - 1) if limited is None else limited
            if attempt < ATTEMPTS:
                self._pause(pause, trouble)
            if limited is None and not again:
                raise Unsure(self._masked(trouble))
        raise Unreachable(self._masked(f"{trouble}, {ATTEMPTS} times: run the job again later"))

    def _request(self, method: str, path: str, body: Json | None) -> Request:
        address = path if path.startswith(("http://", "https://")) else f"{self._url}{path}"
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "User-Agent": "ebbtide",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        data = None if body is None else json.dumps(body).encode()
        return Request(address, data=data, headers=headers, method=method)

    def _attempt(self, request: Request) -> tuple[str, Answer | None]:
        """What went wrong, and the answer if there was one."""
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as response:
                return "", Answer(response.status, _lower(response.headers), response.read())
        except HTTPError as error:
            with error:
                return f"GitHub answers {error.code}", Answer(error.code, _lower(error.headers), _rest_of(error))
        except URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise Refused(self._masked(f"{self._url}: no secure connection: {error.reason}")) from None
            return f"{self._url}: {error.reason}", None
        except (OSError, HTTPException) as error:
            return f"{self._url}: the connection broke ({type(error).__name__})", None

    def _limit(self, answer: Answer, attempt: int) -> float | None:
        """How long a rate limit wants us to wait; None if there is none."""
        if answer.status not in (403, 429):
            return None
        if (after := answer.headers.get("retry-after", "")).isdecimal():
            return float(after)
        if answer.headers.get("x-ratelimit-remaining") == "0":
            reset = answer.headers.get("x-ratelimit-reset", "")
            return max(float(reset) - self._clock.now(), 0.0) + 1 if reset.isdecimal() else _MINUTE
        # A 403 that forbids and a 403 of the secondary limit differ in their words alone.
        if answer.status == 429 or "rate limit" in answer.words.lower():
            return _MINUTE * 2 ** (attempt - 1)
        return None

    def _pause(self, seconds: float, trouble: str) -> None:
        if self._waited + seconds > PATIENCE:
            raise Unreachable(self._masked(f"{trouble}, for {seconds:.0f} s more: run the job again then"))
        self._waited += seconds
        self._tell(self._masked(f"{trouble}: again in {seconds:.0f} s"))
        self._clock.wait(seconds)

    def _refuse(self, answer: Answer, method: str, path: str) -> NoReturn:
        why = {
            401: "the token is wrong or has expired",
            403: "the token may not: give the job `pull-requests: write` (a fork's pull request never has it)",
            404: "no such repository, pull request or comment, or the token may not see it",
            410: "it was deleted",
            422: "the comment was not accepted",
        }.get(answer.status, "not accepted")
        if 300 <= answer.status < 400:
            why = "redirected, which is not followed with a token: has the repository another name now?"
        answer_text = f" (GitHub: {answer.words})" if answer.words else ""
        error = Gone if answer.status in (404, 410) else Refused
        raise error(self._masked(f"{method} {path}: {answer.status}, {why}{answer_text}"))

    def _masked(self, words: str) -> str:
        return words.replace(self._token, "***")


def _rest_of(error: HTTPError) -> bytes:
    """The body of a refusal; the refusal counts even if its body does not arrive."""
    try:
        return error.read()
    except (OSError, HTTPException):
        return b""


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
