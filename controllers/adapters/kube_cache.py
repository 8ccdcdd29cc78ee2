"""One kind of object in one namespace, listed once and then watched.

The cache stores the result of `slim`: raw objects are ten times as large. Lists request the newest state, in pages: a
list from the server's cache has no pages and may be older than an earlier one. The trap: a dead watch looks like a
quiet one. Bookmarks arrive once a minute, the first within two minutes, so a longer silence ends the watch.
"""

from collections.abc import Callable, Iterator
from random import randint, uniform
from threading import Event, Thread
from time import monotonic
from typing import Generic, TypeVar

from controllers.adapters.kube_api import ApiError, Json, KubeApi, Watch

T = TypeVar("T")

_PAGE = "50"  # objects; the process never returns a page's memory
_SILENCE, _STALE = 130.0, 150.0  # seconds without an event until the watch is ended, and until objects are stale
_SHORT_BREAK = 5.0  # seconds without a watch before this is reported
_LONGEST_WAIT = 2.0
_WATCH_SECONDS = (300, 600)  # duration of a watch on the server: random, so that watches do not all end together


def pages(api: KubeApi, path: str, **query: str) -> Iterator[Json]:
    """Yield the pages of the present list. Raises `ApiError`."""
    page = Json()
    while not page or query["continue"]:
        page = api.get(path, limit=_PAGE, **query)
        query["continue"] = page["metadata"].get("continue", "")
        yield page


class KubeCache(Generic[T]):
    """`slim` returns the part of an object to keep, or None; `changed` is called when a kept part changes."""

    def __init__(
        self, api: KubeApi, path: str, slim: Callable[[Json], T | None], changed: Callable[[], None], **selector: str
    ) -> None:
        self._api, self._path, self._selector, self._slim, self._changed = api, path, selector, slim, changed
        self._kept: dict[str, T] = {}  # only this cache's thread writes; copies by other threads are atomic
        self.revision = 0  # grows with every change
        self._version = ""  # of the watch's last event; empty: list first
        self._why = "not listed yet"  # empty while a watch is open
        self._heard = monotonic()
        self._broken = self._began = float("-inf")  # times when the watch was lost, and when the present attempt began
        self._watch: Watch | None = None
        self._closed = Event()
        self.start = Thread(target=self._run, name=f"watch {path}", daemon=True).start

    def close(self) -> None:
        """End the thread: at once, or after the timeout if the server hangs."""
        self._closed.set()
        self.reconnect()

    def reconnect(self) -> None:
        """Open a new watch from the last received event on: events that a silent watch missed arrive at once."""
        self._began = float("-inf")  # a requested end is no failure
        if self._watch is not None:
            self._watch.stop()

    def snapshot(self) -> dict[str, T]:
        return self._kept.copy()

    def trouble(self) -> str:
        """Return why the objects may be stale; empty if they are current."""
        why, silent = self._why, monotonic() - self._heard
        if why and monotonic() - self._broken > _SHORT_BREAK:
            return f"{self._path}: {why}"
        return f"{self._path}: nothing heard for {silent:.0f} s" if silent > _STALE else ""

    def _run(self) -> None:
        failures = 0
        while not self._closed.wait(failures and min(_LONGEST_WAIT, 0.05 * 2**failures) * uniform(0.5, 1)):
            self._began = monotonic()
            try:
                self._version = self._version or self._list()
                self._follow()
                failures = (
                    0 if monotonic() - self._began > 1 else failures + 1
                )  # otherwise a server that ends every watch at once would make this loop spin
            except Exception as error:  # one malformed answer must not end the thread
                failures = min(failures + 1, 10)
                self._broken = self._broken if self._why else monotonic()
                self._why = str(error) or repr(error)
                if not (isinstance(error, ApiError) and error.status in (0, 429)):
                    self._version = ""  # expired, or unknown to this server

    def _list(self) -> str:
        listed, page = dict[str, T](), Json()
        for page in pages(self._api, self._path, **self._selector):
            for item in page["items"]:
                self._put(listed, item, self._slim(item))
        if listed != self._kept or not self.revision:
            self._kept = listed
            self._notify()
        return page["metadata"]["resourceVersion"]

    def _follow(self) -> None:
        query = {**self._selector, "allowWatchBookmarks": "true", "timeoutSeconds": str(randint(*_WATCH_SECONDS))}
        self._watch = watch = self._api.watch(self._path, _SILENCE, resourceVersion=self._version, **query)
        if self._closed.is_set():  # `close` ran before the watch was set
            watch.stop()
        self._why, self._heard = "", monotonic()
        for event in watch:
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                raise ApiError(int(item.get("code", 410)), f"the watch ended: {item.get('message', item)}")
            if kind != "BOOKMARK" and self._put(self._kept, item, None if kind == "DELETED" else self._slim(item)):
                self._notify()
            self._version, self._heard = item["metadata"]["resourceVersion"], monotonic()

    def _put(self, where: dict[str, T], item: Json, value: T | None) -> bool:
        name = item["metadata"]["name"]
        previous = where.pop(name, None) if value is None else where.get(name)
        if value is not None:
            where[name] = value
        return previous != value

    def _notify(self) -> None:
        self.revision += 1
        self._changed()
