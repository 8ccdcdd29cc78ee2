"""One kind of object in one namespace, listed once and then watched.

Only what `slim` makes of an object is kept: raw ones are ten times as large. Lists ask for the newest state, in pages:
a list from the server's own cache comes whole and may be older than what was seen before. The trap: a dead watch looks
like a quiet one. Bookmarks come once a minute, the first after up to two, so longer silence ends the watch.
"""

from collections.abc import Callable, Iterator
from random import randint, uniform
from threading import Event, Thread
from time import monotonic
from typing import Generic, TypeVar

from controllers.adapters.kube_api import ApiError, Json, KubeApi, Watch

T = TypeVar("T")

_PAGE = "50"  # objects: what a page takes in memory is never given back
_SILENCE, _STALE = 130.0, 150.0  # seconds without a word: the watch is given up, what is kept is not believed
_SHORT_BREAK = 5.0  # seconds that a lost watch may take to come back before anyone is told
_LONGEST_WAIT = 2.0
_WATCH_SECONDS = (300, 600)  # how long the server keeps a watch: spread, so that they do not all end together


def pages(api: KubeApi, path: str, **query: str) -> Iterator[Json]:
    """A list as it is now. Raises `ApiError`."""
    page = Json()
    while not page or query["continue"]:
        page = api.get(path, limit=_PAGE, **query)
        query["continue"] = page["metadata"].get("continue", "")
        yield page


class KubeCache(Generic[T]):
    """`slim` says what to keep of an object, if anything; `changed` is called when that differs from what was kept."""

    def __init__(
        self, api: KubeApi, path: str, slim: Callable[[Json], T | None], changed: Callable[[], None], **selector: str
    ) -> None:
        self._api, self._path, self._selector, self._slim, self._changed = api, path, selector, slim, changed
        self._kept: dict[str, T] = {}  # written by the thread alone; copying it is one step to other threads
        self.revision = 0  # grows with every change
        self._version = ""  # of the watch's last event; empty: to be listed
        self._why = "not listed yet"  # empty while a watch is open
        self._heard = monotonic()
        self._broken = self._began = float("-inf")  # since when there is no watch, and since when one is tried for
        self._watch: Watch | None = None
        self._closed = Event()
        self.start = Thread(target=self._run, name=f"watch {path}", daemon=True).start

    def close(self) -> None:
        """Its thread ends by itself: at once, or when a server that hangs has been waited for."""
        self._closed.set()
        self.reconnect()

    def reconnect(self) -> None:
        """A new watch begins after the last event that came: what a slow or silent one kept back arrives at once."""
        self._began = float("-inf")  # an end that is asked for is no failure
        if self._watch is not None:
            self._watch.stop()

    def snapshot(self) -> dict[str, T]:
        return self._kept.copy()

    def trouble(self) -> str:
        """Why what is kept may be old; empty if it may be believed."""
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
                failures = 0 if monotonic() - self._began > 1 else failures + 1  # a server that ends them all at once
            except (ApiError, LookupError, TypeError, AttributeError, ValueError) as error:  # one odd answer is no end
                failures = min(failures + 1, 10)
                self._broken = self._broken if self._why else monotonic()
                self._why = str(error) or repr(error)
                if not (isinstance(error, ApiError) and error.status in (0, 429)):
                    self._version = ""  # it has expired, or is of a history that this server does not know

    def _list(self) -> str:
        found, page = dict[str, T](), Json()
        for page in pages(self._api, self._path, **self._selector):
            for item in page["items"]:
                self._put(found, item, self._slim(item))
        if found != self._kept or not self.revision:
            self._kept = found
            self._tell()
        return page["metadata"]["resourceVersion"]

    def _follow(self) -> None:
        query = {**self._selector, "allowWatchBookmarks": "true", "timeoutSeconds": str(randint(*_WATCH_SECONDS))}
        self._watch = watch = self._api.watch(self._path, _SILENCE, resourceVersion=self._version, **query)
        if self._closed.is_set():  # by whoever could not see the watch yet
            watch.stop()
        self._why, self._heard = "", monotonic()
        for event in watch:
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                raise ApiError(int(item.get("code", 410)), f"the watch ended: {item.get('message', item)}")
            if kind != "BOOKMARK" and self._put(self._kept, item, None if kind == "DELETED" else self._slim(item)):
                self._tell()
            self._version, self._heard = item["metadata"]["resourceVersion"], monotonic()

    def _put(self, where: dict[str, T], item: Json, value: T | None) -> bool:
        name = item["metadata"]["name"]
        before = where.pop(name, None) if value is None else where.get(name)
        if value is not None:
            where[name] = value
        return before != value

    def _tell(self) -> None:
        self.revision += 1
        self._changed()
