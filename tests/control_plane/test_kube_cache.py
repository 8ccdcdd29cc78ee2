"""List and watch, on a real API server that is cut off, killed, frozen or asked for what it has forgotten."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters import kube_cache
from controllers.adapters.kube_api import KubeApi
from controllers.adapters.kube_cache import KubeCache
from tests.builders.control_plane import Fresh, eventually

pytestmark = pytest.mark.control_plane


class Maps:
    """ConfigMaps, of which the cache keeps one value, and whoever changes them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.path = plane, f"/api/v1/namespaces/{namespace}/configmaps"
        self.api = KubeApi(plane.configuration())
        self.told = 0

    def put(self, name: str, value: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}
        self.plane.api.apply(f"{self.path}/{name}", body, manager="test")

    def remove(self, name: str) -> None:
        self.plane.api.delete(f"{self.path}/{name}")

    @contextmanager
    def watched(self, slim: Callable[[dict[str, Any]], str | None] | None = None) -> Generator[KubeCache[str]]:
        cache = KubeCache(self.api, self.path, slim or value_of, self._changed)
        assert cache.trouble().endswith("not listed yet")
        cache.start()
        try:
            yield cache
        finally:
            cache.close()

    def _changed(self) -> None:
        self.told += 1


def value_of(item: dict[str, Any]) -> str | None:
    return item.get("data", {}).get("value")


def synced(cache: KubeCache[str]) -> None:
    eventually(lambda: not cache.trouble(), what="the cache to be believed")


def holds(cache: KubeCache[str], **values: str) -> None:
    eventually(lambda: named(cache) == values, what=f"{values}")


def named(cache: KubeCache[str]) -> dict[str, str]:
    return {name: value for name, value in cache.snapshot().items() if name != "kube-root-ca.crt"}


@pytest.fixture
def maps(control_plane: ControlPlane, fresh: Fresh) -> Maps:
    return Maps(control_plane, fresh.namespace())


def test_it_follows_what_is_made_changed_and_removed(maps: Maps) -> None:
    maps.put("old", "1")
    with maps.watched() as cache:
        holds(cache, old="1")
        maps.put("new", "2")
        maps.put("old", "3")
        holds(cache, old="3", new="2")
        maps.remove("old")
        holds(cache, new="2")


def test_a_long_list_comes_in_pages(maps: Maps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_cache, "_PAGE", "2")
    for number in range(5):
        maps.put(f"map-{number}", str(number))
    with maps.watched() as cache:
        holds(cache, **{f"map-{number}": str(number) for number in range(5)})
        assert maps.api.calls["GET"] >= 3


def test_a_change_of_nothing_that_is_kept_wakes_nobody(maps: Maps) -> None:
    maps.put("one", "1")
    with maps.watched() as cache:
        holds(cache, one="1")
        synced(cache)
        before = maps.told
        maps.plane.api.patch(f"{maps.path}/one", {"metadata": {"labels": {"any": "label"}}})
        maps.put("two", "2")
        holds(cache, one="1", two="2")
        assert maps.told == before + 1


def test_a_watch_that_is_cut_goes_on_where_it_was_without_a_list(maps: Maps) -> None:
    with maps.watched() as cache:
        maps.put("before", "1")
        holds(cache, before="1")
        listed = maps.api.calls["GET"]
        cut(cache)
        maps.put("after", "2")
        maps.remove("before")
        holds(cache, after="2")
        assert maps.api.calls["GET"] == listed


def test_a_version_that_the_server_has_forgotten_is_answered_by_a_new_list(maps: Maps) -> None:
    maps.put("lost", "1")
    maps.plane.restart("kube-apiserver")  # it remembers no change from before
    with maps.watched() as cache:
        holds(cache, lost="1")
        synced(cache)
        listed, told = maps.api.calls["GET"], maps.told
        cache._version = "1"
        cut(cache)
        maps.remove("lost")
        maps.put("found", "2")
        holds(cache, found="2")
        assert maps.api.calls["GET"] > listed
        eventually(lambda: maps.told > told, what="the change to be told")


def cut(cache: KubeCache[str]) -> None:
    synced(cache)  # what was listed is held before the watch is open
    assert cache._watch is not None
    cache._watch.stop()


def test_bookmarks_keep_a_quiet_watch_young(maps: Maps, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_cache, "_WATCH_SECONDS", (6, 6))  # one comes shortly before the server ends a watch
    with maps.watched(lambda item: item["metadata"]["name"]) as cache:
        eventually(lambda: "kube-root-ca.crt" in cache.snapshot(), what="what every namespace gets")
        before = int(cache._version)
        elsewhere = Maps(maps.plane, fresh.namespace())
        elsewhere.put("any", "1")
        eventually(lambda: int(cache._version) > before, what="a bookmark")


def test_a_killed_server_is_told_after_a_while_and_caught_up_with(maps: Maps) -> None:
    maps.put("one", "1")
    with maps.watched() as cache:
        holds(cache, one="1")
        synced(cache)
        maps.plane.kill("kube-apiserver")
        try:
            assert cache.trouble() == "", "a short break is nobody's business"
            eventually(cache.trouble, what="trouble")
            assert cache.snapshot()["one"] == "1"
        finally:
            maps.plane.restart("kube-apiserver")
        maps.put("two", "2")
        holds(cache, one="1", two="2")
        synced(cache)


def test_a_frozen_server_is_noticed_though_its_connections_stay_open(
    maps: Maps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_cache, "_SILENCE", 1.0)
    monkeypatch.setattr(kube_cache, "_STALE", 3.0)
    with maps.watched() as cache:
        synced(cache)
        maps.plane.suspend("kube-apiserver")
        try:
            eventually(cache.trouble, what="trouble")
        finally:
            maps.plane.resume("kube-apiserver")
        maps.put("one", "1")
        holds(cache, one="1")
        synced(cache)


def test_an_object_that_cannot_be_read_is_trouble_until_it_goes(maps: Maps) -> None:
    def strict(item: dict[str, Any]) -> str | None:
        return value_of(item) if item["metadata"]["name"] != "odd" else item["data"]["missing"]

    with maps.watched(strict) as cache:
        synced(cache)
        maps.put("odd", "1")
        eventually(cache.trouble, what="trouble")
        maps.remove("odd")
        maps.put("even", "2")
        holds(cache, even="2")
        synced(cache)


def test_its_thread_ends_in_the_middle_of_a_wait(maps: Maps) -> None:
    with maps.watched() as cache:
        synced(cache)
        cache.close()

        eventually(
            lambda: f"watch {maps.path}" not in [thread.name for thread in threading.enumerate()], what="its end"
        )


def test_a_watch_that_is_opened_anew_goes_on_where_it_was_and_that_is_no_failure(
    maps: Maps, monkeypatch: pytest.MonkeyPatch
) -> None:
    with maps.watched() as cache:
        synced(cache)
        pauses: list[float] = []
        wait = cache._closed.wait

        def noted(timeout: float) -> bool:
            pauses.append(timeout)
            return wait(timeout)

        monkeypatch.setattr(cache._closed, "wait", noted)
        for number in range(5):
            watch = cache._watch
            cache.reconnect()
            maps.put("a", str(number))
            holds(cache, a=str(number))
            opened_anew(cache, watch)  # whichever of the two told it

    assert len(pauses) >= 5
    assert not any(pauses), "it waited before it watched again"


def opened_anew(cache: KubeCache[str], before: object) -> None:
    eventually(lambda: cache._watch is not before, what="another watch")
