"""All objects of a kind, in every namespace, listed and then watched.

Unlike the controller's cache this one keeps objects whole, and lists anew whenever a watch ends: it is for tests,
where there are hundreds of objects and memory is no question.
"""

import threading
from collections.abc import Callable

from controllers.adapters.kube_api import ApiError, Json, KubeApi, Watch

_WATCH_SECONDS, _SILENCE = 50, 60.0
_RETRY = 0.2  # seconds


class Watched:
    """Objects by "namespace/name", or by name where they have no namespace. `changed` is called from its thread."""

    def __init__(self, api: KubeApi, path: str, changed: Callable[[], None]) -> None:
        self._api, self._path, self._changed = api, path, changed
        self._kept: dict[str, Json] = {}
        self.listed = threading.Event()
        self._closed = threading.Event()
        self._watch: Watch | None = None
        self.start = threading.Thread(target=self._run, name=f"watch {path}", daemon=True).start

    def close(self) -> None:
        self._closed.set()
        if self._watch is not None:
            self._watch.stop()

    def snapshot(self) -> dict[str, Json]:
        return self._kept.copy()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow(self._list())
            except (ApiError, LookupError):
                self._closed.wait(_RETRY)

    def _list(self) -> str:
        found = self._api.get(self._path)
        self._kept = {key_of(item): item for item in found["items"]}
        self.listed.set()
        self._changed()
        return str(found["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        self._watch = watch = self._api.watch(
            self._path, _SILENCE, resourceVersion=version, timeoutSeconds=str(_WATCH_SECONDS)
        )
        if self._closed.is_set():
            watch.stop()
        for event in watch:
            item = event["object"]
            if event["type"] == "ERROR":
                return
            if event["type"] == "DELETED":
                self._kept.pop(key_of(item), None)
            else:
                self._kept[key_of(item)] = item
            self._changed()


def key_of(item: Json) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])
