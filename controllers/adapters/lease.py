"""Leader election on an existing Lease: only its holder acts.

Clocks of two machines are never compared. This process's hold ends by its monotonic clock, counted from *before* the
renewal was sent; another process's hold ends when the Lease has been observed unchanged for its entire duration. So a
process that was frozen wakes up without the Lease, and `held` is checked before every write.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread
from time import monotonic
from typing import TypeAlias

from controllers.adapters.kube_api import ApiError, Json, KubeApi
from ebbtide.vocabulary.labels import CONTROLLER

Now: TypeAlias = Callable[[], float]  # seconds


class Lease:
    """`duration` is in seconds; `holder` is the last observed holder (empty: none); `why`: why it is unreachable."""

    def __init__(
        self, api: KubeApi, namespace: str, me: str, name: str = CONTROLLER, duration: int = 15, clock: Now = monotonic
    ) -> None:
        self._api, self._path = api, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        self._identity, self._clock, self._duration, self.holder, self.why = me, clock, duration, "", ""
        self._renew, self._retry = duration / 3, duration / 7.5
        self._margin = duration / 5  # a write that `held` allowed may take a while to arrive
        self._deadline = float("-inf")
        self._acquired = ""  # distinguishes this process from an earlier process of the same name
        self._lease: Json | None = None  # the last written Lease, so that a renewal is one request
        self._theirs: tuple[Json, float] = ({}, float("-inf"))  # another process's hold, and since when it is unchanged
        self._ended = Event()
        self._thread: Thread | None = None

    def start(self, changed: Callable[[], None]) -> None:
        """Compete until `release`; call `changed` when the Lease is won, lost or unreachable, or has another holder."""
        self._thread = Thread(target=self._run, args=(changed,), name="lease", daemon=True)
        self._thread.start()

    def held(self) -> bool:
        return not self._ended.is_set() and self._clock() < self._deadline

    def release(self) -> None:
        """Release the Lease, so that a successor need not wait; wait only briefly for the server."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(self._retry)

    def step(self) -> float:
        """Take the Lease, renew it or read its holder; return the seconds until the next step."""
        try:
            lease = self._lease or self._api.get(self._path)
            spec: Json = lease.get("spec") or {}
            if (wait := 0.0 if self._is_ours(spec) else self._theirs_for(spec)) <= 0:
                self._write(lease, spec)
        except ApiError as error:
            refused = {401: "the API server refuses our token: ", 403: "a right is missing: "}.get(error.status, "")
            self._lease, self.why = (
                None,
                "" if error.status == 409 else f"{refused}{error}",
            )  # 409: another process was faster
            return self._retry
        self.why = ""
        return min(wait, self._retry) if wait > 0 else self._renew

    def _write(self, lease: Json, spec: Json) -> None:
        began, stamp = self._clock(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # for people, never compared
        transitions: int = spec.get("leaseTransitions", 0)
        if not self._is_ours(spec):
            self._acquired, transitions = stamp, transitions + 1
        ours = {"holderIdentity": self._identity, "acquireTime": self._acquired, "renewTime": stamp}
        ours |= {"leaseDurationSeconds": self._duration, "leaseTransitions": transitions}
        self._lease = self._api.replace(self._path, {**lease, "spec": ours})
        self._deadline = began + self._duration - self._margin
        self.holder = self._identity

    def _is_ours(self, spec: Json) -> bool:
        return spec.get("holderIdentity") == self._identity and spec.get("acquireTime") == self._acquired

    def _theirs_for(self, spec: Json) -> float:
        """Return the seconds for which another process's hold must still be respected."""
        self.holder = spec.get("holderIdentity") or ""
        if not self.holder:
            return 0
        if spec != self._theirs[0]:
            self._theirs = (spec, self._clock())
        return self._theirs[1] + (spec.get("leaseDurationSeconds") or self._duration) - self._clock()

    def _run(self, changed: Callable[[], None]) -> None:
        wait, before = 0.0, (False, "", "")
        while not self._ended.wait(wait):
            wait = self.step()
            if before != (state := (self.held(), self.holder, self.why)):
                before = state
                changed()
        if self._lease is not None and self._is_ours(self._lease["spec"]):
            free = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            with suppress(ApiError):  # it expires by itself
                self._api.replace(self._path, {**self._lease, "spec": free})
