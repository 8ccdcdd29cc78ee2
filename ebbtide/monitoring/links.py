"""Connections to a Prometheus: send a query and return the answer, or one line with the reason of a failure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ebbtide.text.one_line import collapsed

MOST_BYTES = 64 * 2**20


def error_text(message: object) -> str:
    """Return the beginning of a server's message, on one line."""
    return collapsed(message)[:300]


class NoReply(Exception):
    """The message is one line for the operator, without a token."""


@dataclass(frozen=True, slots=True)
class Reply:
    document: object  # decoded JSON
    at: datetime | None  # by the server's clock, with a zone; None if not stated


class Link(Protocol):
    @property
    def where(self) -> str:
        """The beginning of every line about this Prometheus."""
        ...

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        """Query `path` below `/api/v1/`. Raises `NoReply`."""
        ...


class HttpLink:
    """Connect by address. `token` and `headers` are never shown, and sent only there."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: timedelta = timedelta(seconds=10),
    ) -> None:
        """Raises ValueError if `url` is not the address of a server."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise ValueError("wanted the address of a Prometheus without a login (for example http://127.0.0.1:9090)")
        self._url, self.where = url.rstrip("/"), f"Prometheus at {parts.scheme}://{parts.netloc}"
        self._headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        self._timeout, self._opener = timeout.total_seconds(), build_opener(_NoRedirect())

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        try:
            request = Request(f"{self._url}/api/v1/{path}?{urlencode(query)}", headers=self._headers)
            with self._opener.open(request, timeout=self._timeout) as answer:
                text, date = answer.read(MOST_BYTES + 1), answer.headers.get("Date", "")
        except HTTPError as error:
            raise NoReply(_refusal(error)) from error
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise NoReply(error_text(getattr(error, "reason", "") or error)) from error
        if len(text) > MOST_BYTES:
            raise NoReply(f"the answer has more than {MOST_BYTES // 2**20} MiB")
        try:
            return Reply(json.loads(text), _instant(date))
        except (ValueError, RecursionError) as error:
            raise NoReply(NOT_PROMETHEUS) from error


NOT_PROMETHEUS = "the answer is not from Prometheus: are the address of its API and the login correct?"


class _NoRedirect(HTTPRedirectHandler):
    """Follow no redirect: the token goes only to the operator's address."""

    def http_error_302(self, *_: object, **__: object) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _refusal(error: HTTPError) -> str:
    """Return Prometheus' error message; of other servers only the status."""
    if error.code in (401, 403):
        return f"HTTP {error.code}: the token is refused or missing"
    try:
        return f"HTTP {error.code}: {error_text(json.loads(error.read(10_000))['error'])}"
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code}"


def _instant(date: str) -> datetime | None:
    try:
        instant = parsedate_to_datetime(date)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None
