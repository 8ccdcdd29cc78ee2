"""Leader election on a Lease that exists already: whoever holds it acts, and nobody else.

Clocks of two machines are never compared. Our own hold ends by our monotonic clock, counted from *before* the renewal
was sent; another's ends when we have seen it unchanged for its whole duration. So a process that was frozen wakes up
without the Lease, whatever it still believes, and `held` is asked before every write.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread
from time import monotonic as _monotonic

from controllers.adapters.kube_api import ApiError, Json, KubeApi

_utc_now = partial(datetime.now, UTC)


class Lease:
    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        name: str,
        identity: str,
        *,
        monotonic: Callable[[], float] = _monotonic,
        now: Callable[[], datetime] = _utc_now,  # for people to read in the Lease, never compared
        duration: timedelta = timedelta(seconds=15),
        renew: timedelta = timedelta(seconds=5),
        retry: timedelta = timedelta(seconds=2),
    ) -> None:
        self._api, self._path = api, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        self._identity, self._monotonic, self._now = identity, monotonic, now
        self._duration, self._renew, self._retry = (each.total_seconds() for each in (duration, renew, retry))
        self._margin = self._duration / 5  # a write that `held` allowed may take a while to arrive
        self._deadline = float("-inf")
        self._acquired = ""  # when we took it: tells us from an earlier process of the same name
        self._lease: Json | None = None  # as we last wrote it, so that a renewal is one request
        self._theirs: tuple[Json, float] = ({}, float("-inf"))  # another's hold, and since when it has not changed
        self._holder, self._told = "", (False, "")
        self._ended = Event()
        self._thread: Thread | None = None

    def start(self, changed: Callable[[], None]) -> None:
        """Try for it until `release`; `changed` is called when it is won or lost, or goes to somebody else."""
        self._thread = Thread(target=self._run, args=(changed,), name="lease", daemon=True)
        self._thread.start()

    def held(self) -> bool:
        return not self._ended.is_set() and self._monotonic() < self._deadline

    def holder(self) -> str:
        """Who has it, as last seen; empty: nobody."""
        return self._holder

    def release(self) -> None:
        """Give it back, so that a successor need not wait; a server that does not answer is not waited for."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(self._retry)

    def step(self) -> float:
        """Take it, renew it or look who has it; returns after how many seconds to do so again."""
        try:
            lease = self._lease or self._api.get(self._path)
            spec: Json = lease.get("spec") or {}
            if not self._is_ours(spec) and (wait := self._theirs_for(spec)) > 0:
                return min(wait, self._retry)
            self._write(lease)
        except ApiError:
            self._lease = None
            return self._retry
        return self._renew

    def _write(self, lease: Json) -> None:
        began, stamp = self._monotonic(), self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: Json = lease.get("spec") or {}
        transitions: int = spec.get("leaseTransitions", 0)
        if not self._is_ours(spec):
            self._acquired, transitions = stamp, transitions + 1
        ours = {
            "holderIdentity": self._identity,
            "acquireTime": self._acquired,
            "renewTime": stamp,
            "leaseDurationSeconds": math.ceil(self._duration),
            "leaseTransitions": transitions,
        }
        self._lease = self._api.replace(self._path, {**lease, "spec": ours})
        self._deadline = began + self._duration - self._margin
        self._holder = self._identity

    def _is_ours(self, spec: Json) -> bool:
        return spec.get("holderIdentity") == self._identity and spec.get("acquireTime") == self._acquired

    def _theirs_for(self, spec: Json) -> float:
        """For how many seconds more another's hold must be respected."""
        self._holder = spec.get("holderIdentity") or ""
        if not self._holder:
            return 0
        if spec != self._theirs[0]:
            self._theirs = (spec, self._monotonic())
        lasts = spec.get("leaseDurationSeconds") or self._duration
        return self._theirs[1] + lasts - self._monotonic()

    def _run(self, changed: Callable[[], None]) -> None:
        wait = 0.0
        while not self._ended.wait(wait):
            wait = self.step()
            if self._told != (state := (self.held(), self._holder)):
                self._told = state
                changed()
        if self._lease is not None and self._is_ours(self._lease["spec"]):
            free = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            with suppress(ApiError):  # it will run out by itself
                self._api.replace(self._path, {**self._lease, "spec": free})
