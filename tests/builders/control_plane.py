"""What a test on the real control plane makes for itself, and waiting for what the control plane does with it."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError, KubeApi

PATIENCE = 60.0  # seconds; for what happens "eventually", far beyond what it takes

_T = TypeVar("_T")


def eventually(look: Callable[[], _T | None], *, what: str, patience: float = PATIENCE) -> _T:
    """Return the first true answer.

    An error of the API server counts as not yet; so does a missing field, since a status omits what is not known now.
    """
    deadline = time.monotonic() + patience
    while True:
        seen: object = None
        try:
            seen = answer = look()
            if answer:
                return answer
        except (ApiError, LookupError) as error:
            seen = error
        if time.monotonic() > deadline:
            raise AssertionError(f"still waiting for {what}, last seen: {seen!r}")
        time.sleep(0.05)


def events_of(api: KubeApi, namespace: str, component: str) -> list[dict[str, Any]]:
    """Return a component's Events so far. The component sends each one after the change that it reports."""
    events = api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return [event for event in events if event.get("source", {}).get("component") == component]


def reasons(api: KubeApi, namespace: str, component: str) -> set[str]:
    return {event["reason"] for event in events_of(api, namespace, component)}


class Fresh:
    """Names that no other test uses; what was made with them goes when the test ends."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._made: list[str] = []

    def namespace(self, prefix: str = "test", **labels: str) -> str:
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.plane.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        self.forget_later(f"/api/v1/namespaces/{name}")
        return name

    def node(self, prefix: str = "node", **shape: Any) -> str:
        """As `ControlPlane.add_node`."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.plane.add_node(name, **shape)
        self.forget_later(f"/api/v1/nodes/{name}")
        return name

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """An object outside any namespace."""
        self.plane.api.create(path, body)
        self.forget_later(f"{path}/{body['metadata']['name']}")

    def forget_later(self, path: str) -> None:
        self._made.append(path)

    def clean(self) -> None:
        for path in reversed(self._made):
            try:
                self.plane.api.delete(path)
            except ApiError as error:
                if error.status != 404:
                    raise
