"""The cache after lists and watches, answer by answer. The server is a script: it can be silent for hours.

How a real API server behaves under the same cache is in tests/control_plane/test_kube_cache.py.
"""

import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, cast

import pytest

from controllers.adapters import kube_cache
from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.kube_cache import KubeCache

PATH = "/api/v1/pods"
PATIENCE = float(os.environ.get("EBBTIDE_PATIENCE", "20"))  # seconds; what is awaited comes within milliseconds


def item(name: str, value: str | None = "1", version: str = "2") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}, "value": value}


def page(*items: dict[str, Any], version: str = "1", more: str = "") -> dict[str, Any]:
    return {"items": list(items), "metadata": {"resourceVersion": version, "continue": more}}


def event(kind: str, name: str, value: str | None = "1", version: str = "2") -> dict[str, Any]:
    return {"type": kind, "object": item(name, value, version)}


class Feed:
    """A watch: events as the script puts them there; ends when it is stopped, or with an error."""

    def __init__(self, *events: Any) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()
        self.put(*events)
        self.stopped = Event()
        self.taken = 0

    def put(self, *events: Any) -> None:
        for one in events:
            self._events.put(one)

    def stop(self) -> None:
        self.stopped.set()
        self._events.put(None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (one := self._events.get()) is not None:
            if isinstance(one, Exception):
                raise one
            yield one
            self.taken += 1  # the cache is done with it


@dataclass
class Server:
    """Answers lists and watches in the order given, and then no more; `asked` is what it was asked, with the query."""

    pages: list[dict[str, Any] | Exception] = field(default_factory=list[Any])
    feeds: list[Feed | Exception] = field(default_factory=list[Any])
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list[Any])
    silences: list[float] = field(default_factory=list[float])
    told: "SimpleQueue[str]" = field(default_factory=SimpleQueue)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        assert path == PATH
        self._note("list", query)
        return self._next(self.pages)

    def watch(self, path: str, silence: float, **query: str) -> Feed:
        assert path == PATH
        self.silences.append(silence)
        self._note("watch", query)
        return self._next(self.feeds)

    def _note(self, verb: str, query: dict[str, str]) -> None:
        self.asked.append((verb, dict(query)))
        self.told.put(verb)

    def _next(self, answers: list[Any]) -> Any:
        if not answers:
            raise ApiError(0, "the script has ended")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def awaits(self, *verbs: str) -> None:
        """These questions, and the answers to them are on their way."""
        for verb in verbs:
            assert self.told.get(timeout=PATIENCE) == verb

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(kube_cache, "monotonic", made)
    return made


@dataclass
class Changes:
    count: int = 0

    def __call__(self) -> None:
        self.count += 1


def cache_of(server: Server, changed: Callable[[], None] = lambda: None, **selector: str) -> KubeCache[str]:
    return KubeCache(cast("KubeApi", server), PATH, lambda one: one["value"], changed, **selector)


@contextmanager
def running(cache: KubeCache[str]) -> Generator[KubeCache[str]]:
    cache.start()
    try:
        yield cache
    finally:
        cache.close()


def bounds(low: int, high: int) -> str:
    return f"{low}..{high}"


def longest(low: float, high: float) -> float:
    """In place of chance."""
    assert low == 0.5
    return high


def eventually(look: Callable[[], bool]) -> None:
    waker: SimpleQueue[None] = SimpleQueue()
    for _ in range(int(PATIENCE / 0.01)):
        if look():
            return
        with pytest.raises(Empty):
            waker.get(timeout=0.01)
    assert look()


# --- whether it may be believed ---------------------------------------------------------------------------------------


def test_before_the_first_list_nothing_is_believed(clock: Clock) -> None:
    cache = cache_of(Server())

    assert cache.trouble() == f"{PATH}: not listed yet"
    assert (cache.snapshot(), cache.revision) == ({}, 0)


def test_a_silent_watch_is_believed_for_a_while_and_not_forever(clock: Clock) -> None:
    feed = Feed()
    server = Server(pages=[page(item("a"))], feeds=[feed])
    with running(cache_of(server)) as cache:
        eventually(lambda: not cache.trouble())

        clock.at += 150
        assert cache.trouble() == ""
        clock.at += 1
        assert cache.trouble() == f"{PATH}: nothing heard for 151 s"
        assert cache.snapshot() == {"a": "1"}
        feed.put(event("BOOKMARK", "", version="9"))
        eventually(lambda: not cache.trouble())


def test_the_watch_is_given_up_before_what_is_kept_is_no_longer_believed(clock: Clock) -> None:
    server = Server(pages=[page()], feeds=[Feed()])
    with running(cache_of(server)) as cache:
        eventually(lambda: not cache.trouble())

    assert server.silences == [130.0]


def test_a_list_that_takes_long_does_not_make_an_open_watch_old(clock: Clock) -> None:
    server = Server(pages=[page()], feeds=[Feed()])
    cache = cache_of(server)
    clock.at += 1000

    with running(cache):
        eventually(lambda: not cache.trouble())


def test_a_broken_watch_is_reported_five_seconds_after_its_first_failure(clock: Clock) -> None:
    feed = Feed()
    server = Server(pages=[page()], feeds=[feed])
    with running(cache_of(server)) as cache:
        eventually(lambda: not cache.trouble())
        feed.put(ApiError(0, "cut"))
        eventually(lambda: server.verbs.count("watch") > 2)

        clock.at += 5
        assert cache.trouble() == ""
        seen = server.verbs.count("watch")
        eventually(lambda: server.verbs.count("watch") > seen + 1)  # it fails again, which begins nothing anew
        clock.at += 0.1
        assert cache.trouble() == f"{PATH}: the script has ended"


def test_an_error_without_a_message_is_reported_by_its_kind(clock: Clock) -> None:
    server = Server(pages=[ValueError()])
    with running(cache_of(server)) as cache:
        eventually(lambda: "ValueError()" in cache.trouble())


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_it_keeps_what_slim_makes_of_what_is_made_changed_and_removed() -> None:
    feed = Feed()
    changes = Changes()
    server = Server(pages=[page(item("a"), item("nothing", None))], feeds=[feed])
    with running(cache_of(server, changes)) as cache:
        server.awaits("list", "watch")
        assert (cache.snapshot(), changes.count, cache.revision) == ({"a": "1"}, 1, 1)
        feed.put(event("ADDED", "b", "2"), event("MODIFIED", "a", "3"), event("DELETED", "b", "2"))
        feed.put(event("MODIFIED", "a", None))
        eventually(lambda: feed.taken == 4)

        assert (cache.snapshot(), changes.count, cache.revision) == ({}, 5, 5)


def test_a_change_outside_the_cached_part_wakes_nothing() -> None:
    feed = Feed()
    changes = Changes()
    server = Server(pages=[page(item("a"))], feeds=[feed])
    with running(cache_of(server, changes)) as cache:
        feed.put(event("MODIFIED", "a", "1"), event("ADDED", "c", None), event("DELETED", "d"))
        feed.put(event("BOOKMARK", "odd", "7"))
        eventually(lambda: feed.taken == 4)

        assert (cache.snapshot(), changes.count, cache.revision) == ({"a": "1"}, 1, 1)


def test_an_empty_first_list_is_a_change_and_the_same_list_again_is_none() -> None:
    changes = Changes()
    first = Feed()
    server = Server(pages=[page(), page()], feeds=[first, Feed()])
    with running(cache_of(server, changes)) as cache:
        server.awaits("list", "watch")
        assert (changes.count, cache.revision) == (1, 1)
        first.put({"type": "ERROR", "object": {"code": 410, "message": "expired"}})
        server.awaits("list", "watch")

        assert (changes.count, cache.revision) == (1, 1)


def test_a_snapshot_does_not_change_afterwards() -> None:
    feed = Feed()
    server = Server(pages=[page(item("a"))], feeds=[feed])
    with running(cache_of(server)) as cache:
        server.awaits("list", "watch")
        before = cache.snapshot()
        feed.put(event("ADDED", "b"))
        eventually(lambda: feed.taken == 1)

        assert (before, cache.snapshot()) == ({"a": "1"}, {"a": "1", "b": "1"})


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_a_list_is_asked_for_in_pages_and_its_version_is_where_the_watch_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kube_cache, "randint", bounds)
    pages: Sequence[Any] = [page(item("a"), more="next"), page(item("b"), version="7")]
    server = Server(pages=[*pages], feeds=[Feed()])
    with running(cache_of(server, labelSelector="x")) as cache:
        server.awaits("list", "list", "watch")

        assert cache.snapshot() == {"a": "1", "b": "1"}
    assert server.asked[0][1] == {"labelSelector": "x", "limit": "50"}
    assert server.asked[1][1] == {"labelSelector": "x", "limit": "50", "continue": "next"}
    query = server.asked[2][1]
    assert query.pop("timeoutSeconds") == "300..600"
    assert query == {"labelSelector": "x", "allowWatchBookmarks": "true", "resourceVersion": "7"}


def test_a_watch_that_ends_goes_on_behind_its_last_event_without_a_list() -> None:
    first = Feed(event("ADDED", "a", version="5"), event("BOOKMARK", "", version="8"), None)
    server = Server(pages=[page()], feeds=[first, Feed()])
    with running(cache_of(server)):
        server.awaits("list", "watch", "watch")

    assert server.asked[-1][1]["resourceVersion"] == "8"


@pytest.mark.parametrize(
    "end",
    [
        ApiError(0, "cut"),
        ApiError(429, "later"),
        {"type": "ERROR", "object": {"code": 429, "message": "later", "metadata": {}}},
    ],
)
def test_a_watch_that_is_cut_or_put_off_goes_on_without_a_list(end: Any) -> None:
    first = Feed(event("ADDED", "a", version="5"), end)
    server = Server(pages=[page()], feeds=[first, Feed()])
    with running(cache_of(server)):
        server.awaits("list", "watch", "watch")

    assert server.asked[-1][1]["resourceVersion"] == "5"


@pytest.mark.parametrize(
    "end",
    [
        {"type": "ERROR", "object": {"code": 410, "message": "expired"}},
        {"type": "ERROR", "object": {}},
        {"type": "ADDED", "object": {"metadata": {}}},
        ApiError(500, "broken"),
        ValueError("odd"),
        OverflowError("odd"),
    ],
)
def test_an_expired_or_unreadable_watch_is_listed_again(end: Any) -> None:
    first = Feed(event("ADDED", "a", version="5"), end)
    server = Server(pages=[page(), page(item("b"), version="6")], feeds=[first, Feed()])
    with running(cache_of(server)) as cache:
        server.awaits("list", "watch", "list", "watch")

        assert cache.snapshot() == {"b": "1"}
    assert server.asked[-1][1]["resourceVersion"] == "6"


def test_failures_are_answered_with_longer_and_longer_waits_up_to_two_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The waits are recorded and not waited for; chance is taken out."""
    monkeypatch.setattr(kube_cache, "uniform", longest)
    server = Server()
    cache = cache_of(server)
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) > 14

    monkeypatch.setattr(cache._closed, "wait", wait)
    cache._run()

    assert waits[:8] == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert waits[-1] == 2.0


@pytest.mark.parametrize(("lasts", "waits"), [(1.1, [0, 0, 0, 0]), (1.0, [0, 0.1, 0.2, 0.4])])
def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_loop(
    lasts: float, waits: list[float], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_cache, "uniform", longest)

    class Short(Feed):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            clock.at += lasts
            return iter(())

    server = Server(pages=[page()], feeds=[Short() for _ in range(9)])
    cache = cache_of(server)
    seen: list[float] = []

    def wait(seconds: float) -> bool:
        seen.append(seconds)
        return len(seen) > 3

    monkeypatch.setattr(cache._closed, "wait", wait)
    cache._run()

    assert seen == waits


# --- its end ----------------------------------------------------------------------------------------------------------


def test_closing_stops_the_watch_and_asks_for_no_other() -> None:
    feed = Feed()
    server = Server(pages=[page()], feeds=[feed, Feed()])
    cache = cache_of(server)
    with running(cache):
        server.awaits("list", "watch")
        eventually(lambda: cast("object", cache._watch) is feed)
        [daemon, *_] = [one.daemon for one in threading.enumerate() if one.name == f"watch {PATH}"]
        assert daemon, "a process may end while a server hangs"

    assert feed.stopped.is_set()
    with pytest.raises(Empty):
        server.told.get(timeout=0.2)


def test_a_watch_that_is_opened_while_it_closes_is_stopped_by_its_own_thread() -> None:
    feed = Feed()

    class Late(Server):
        def watch(self, path: str, silence: float, **query: str) -> Feed:
            cache.close()  # by another thread, before this answer is there
            return super().watch(path, silence, **query)

    server = Late(pages=[page()], feeds=[feed])
    cache = cache_of(server)
    cache._run()

    assert feed.stopped.is_set()


def test_closing_before_the_start_is_no_error() -> None:
    cache_of(Server()).close()
