"""List and watch all objects of a kind, in every namespace.

Unlike the controller's cache this one keeps entire objects, and lists again whenever a watch ends: it is for tests with
hundreds of objects, in which memory does not matter.
"""

import threading
from collections.abc import Callable

from controllers.adapters.kube_api import ApiError, Json, KubeApi, Watch

_WATCH_SECONDS, _SILENCE = 50, 60.0
_RETRY = 0.2  # seconds


class Watched:
    """Objects by "namespace/name", or by name without a namespace. `changed` is called from its thread."""

    def __init__(self, api: KubeApi, path: str, changed: Callable[[], None]) -> None:
        self._api, self._path, self._changed = api, path, changed
        self._objects: dict[str, Json] = {}
        self.listed = threading.Event()
        self._closed = threading.Event()
        self._watch: Watch | None = None
        self.start = threading.Thread(target=self._run, name=f"watch {path}", daemon=True).start

    def close(self) -> None:
        self._closed.set()
        if self._watch is not None:
            self._watch.stop()

    def snapshot(self) -> dict[str, Json]:
        return self._objects.copy()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow(self._list())
            except (ApiError, LookupError):
                self._closed.wait(_RETRY)

    def _list(self) -> str:
        listed = self._api.get(self._path)
        self._objects = {key_of(item): item for item in listed["items"]}
        self.listed.set()
        self._changed()
        return str(listed["metadata"]["resourceVersion"])

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
                self._objects.pop(key_of(item), None)
            else:
                self._objects[key_of(item)] = item
            self._changed()


def key_of(item: Json) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])
