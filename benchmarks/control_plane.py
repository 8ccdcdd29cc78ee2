"""A rendered stack on a real control plane: from a job to its bound pod, and what the controller asks when at rest.

`reaction_control_plane`: a job pushed to a real Redis, until a watch of our own shows a new pod that the scheduler has
bound; the controller has its own account's token and the rendered Role, and each pool grows one by one from zero to
its limit, round after round. Beside it, from the same jobs, until the replicas are written and until the pod exists.
`idle_requests`: by the API server's own count, on a plane where nobody else asks; two workers are busy, it is night.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node
from redis import Redis

from benchmarks.control_plane_process import controller, until
from benchmarks.control_plane_rest import DEPLOYMENTS, PODS, POOL, come_to_rest, night_of_demo, request_counts
from benchmarks.measure import Figures
from controllers.adapters.kube_api import ApiError, Json, KubeApi
from ebbtide.labels import POOL as POOL_LABEL

ROUNDS = int(os.environ.get("EBBTIDE_BENCH_ROUNDS", "7"))
IDLE_SECONDS = float(os.environ.get("EBBTIDE_BENCH_REQUESTS_SECONDS", "180"))
NODES = {"fixed": 3, "flexible": 52}  # a whole one for each worker, wherever the workloads sit: nothing waits for room


def measured() -> dict[str, Figures]:
    return {**_reaction(), **_idle()}


# --- reaction ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chain:
    """Milliseconds after a job was pushed."""

    written: float
    created: float
    bound: float


def _reaction() -> dict[str, Figures]:
    with ControlPlane() as plane, night_of_demo(plane) as scene:
        for group, number in NODES.items():
            for node in range(number):
                add_group_node(plane, scene.stack.settings, group, f"{group}-{node}")
        jobs = next(pool.max_workers for pool in scene.config.pools if pool.name == POOL)
        with controller(plane, scene.config) as process, scene.redis.client() as client:
            until(lambda: process.metric("ebbtide_reconciles_total"), "the first reconcile")
            with _Seen(plane.api) as seen:
                chains = [chain for _ in range(ROUNDS) for chain in _round(client, seen, jobs)]
    return {
        "reaction_control_plane": _figures([chain.bound for chain in chains]),
        "reaction_control_plane_to_written": _figures([chain.written for chain in chains]),
        "reaction_control_plane_to_created": _figures([chain.created for chain in chains]),
    }


def _round(client: Redis, seen: "_Seen", jobs: int) -> Iterator[_Chain]:
    """From zero, one job after another; then jobs and pods go at once, since nothing is measured on the way down."""
    for number in range(1, jobs + 1):
        time.sleep(random.uniform(0.05, 0.15))
        client.ping()
        began = time.monotonic()
        client.rpush(f"rq:queue:{POOL}", f"job-{number}")
        seen.wait(lambda number=number: len(seen.bound) >= number and number in seen.written, f"{number} bound pods")
        moments = (seen.written[number], max(seen.created.values()), max(seen.bound.values()))
        yield _Chain(*((moment - began) * 1000 for moment in moments))
    client.delete(f"rq:queue:{POOL}")
    nobody = {"spec": {"replicas": 0}}
    seen.api.patch(f"{DEPLOYMENTS}/{POOL}/scale", nobody, fieldManager="kubectl")  # as an operator would
    seen.wait(lambda: not seen.alive and not seen.replicas, "an empty pool")
    seen.forget()


@dataclass
class _Seen:
    """When watches of our own first showed so many replicas, a pod, and its node."""

    api: KubeApi
    written: dict[int, float] = field(default_factory=dict[int, float])
    created: dict[str, float] = field(default_factory=dict[str, float])
    bound: dict[str, float] = field(default_factory=dict[str, float])
    alive: set[str] = field(default_factory=set[str])
    replicas: int = 0
    _news: threading.Condition = field(default_factory=threading.Condition)
    _over: bool = False

    def __enter__(self) -> "_Seen":
        for path, take in ((DEPLOYMENTS, self._deployment), (PODS, self._pod)):
            threading.Thread(target=self._follow, args=(path, take), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True

    def wait(self, done: Callable[[], bool], what: str) -> None:
        with self._news:
            if not self._news.wait_for(done, timeout=120):
                raise TimeoutError(f"the watches never showed {what}")

    def forget(self) -> None:
        with self._news:
            for times in (self.written, self.created, self.bound):
                times.clear()

    def _follow(self, path: str, take: Callable[[Json, str, float], None]) -> None:
        try:
            for event in self.api.watch(path, 300, resourceVersion="0"):
                now = time.monotonic()
                with self._news:
                    take(event["object"], event["type"], now)
                    self._news.notify_all()
        except ApiError:
            if not self._over:
                raise

    def _deployment(self, item: Json, _: str, now: float) -> None:
        if item["metadata"]["name"] == POOL:
            self.replicas = item["spec"].get("replicas", 0)
            for number in range(1, self.replicas + 1):
                self.written.setdefault(number, now)

    def _pod(self, item: Json, kind: str, now: float) -> None:
        name = item["metadata"]["name"]
        if item["metadata"]["labels"].get(POOL_LABEL) != POOL:
            return
        if kind == "DELETED":
            self.alive.discard(name)
            return
        self.alive.add(name)
        if "deletionTimestamp" not in item["metadata"]:
            self.created.setdefault(name, now)
            if item["spec"].get("nodeName"):
                self.bound.setdefault(name, now)


def _figures(values: Sequence[float]) -> Figures:
    ordered = sorted(values)
    return {
        "p50_ms": round(median(ordered), 1),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 1),
        "min_ms": round(ordered[0], 1),
        "max_ms": round(ordered[-1], 1),
        "n": len(ordered),
    }


# --- at rest ----------------------------------------------------------------------------------------------------------


def _idle() -> dict[str, Figures]:
    with ControlPlane(with_nodes=False) as plane, night_of_demo(plane) as scene, controller(plane, scene.config):
        come_to_rest(scene)
        before, began = request_counts(plane), time.monotonic()
        time.sleep(IDLE_SECONDS)
        made, minutes = request_counts(plane).since(before), (time.monotonic() - began) / 60
    watches = made.calls("WATCH")
    # A watch counts by its verb when it has ended, and by its client when it begins: each that ends is begun anew.
    leases = made.by_accounts - made.calls("GET", "LIST", "POST", "PUT", "PATCH", "DELETE") - watches
    return {
        "idle_requests": {
            "writes": made.calls("POST", "PUT", "PATCH", "DELETE"),
            "reads_per_min": round(made.calls("GET", "LIST") / minutes, 2),
            "watches_per_min": round(watches / minutes, 2),
            "lease_writes_per_min": round(leases / minutes, 2),
            "minutes": round(minutes, 1),
            "n": 1,
        }
    }
