"""The real loop and the real adapter among faults of the API: a proxy before the real server answers badly."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import KubeApi
from controllers.doubt import Doubt
from controllers.ports import PodPhase, Ports
from controllers.scaler.loop import Loop
from controllers.scaler.workers import refusals
from tests.builders.control_plane import Fresh, eventually
from tests.control_plane.support.kube import Pool, config_of, watching
from tests.fakes import FakeDemand, FakeQueue, ListJournal, ManualClock, ScriptedWaker
from tests.harness.api_proxy import ApiFault, ApiProxy

pytestmark = pytest.mark.control_plane
RESYNC = timedelta(seconds=15)  # so that two of them are long enough on a busy machine
TWO_SWEEPS = 2 * RESYNC.total_seconds()
FAULT_LASTS = 1.5  # seconds
UNSEEN, REFUSED = 2, 2  # pods that a silent watch hides, and that a quota refuses
FAULTS = [fault for fault in ApiFault if fault is not ApiFault.NONE]


class Stage(NamedTuple):
    """A pool with two busy workers, a budget that is open, and the loop that looks after them through the proxy."""

    pool: Pool
    proxy: ApiProxy
    queue: FakeQueue
    doubts: list[str]
    turn: Callable[[], object]


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane) -> Iterator[Stage]:
    fresh = Fresh(control_plane)
    try:
        fresh.node()
        configuration = control_plane.configuration()
        with ApiProxy(control_plane.url, str(configuration.ssl_ca_cert)) as proxy:
            configuration.host = proxy.url
            with watching(control_plane, fresh.namespace(), api=KubeApi(configuration)) as pool:
                yield _staged(pool, proxy)
    finally:
        fresh.clean()


def _staged(pool: Pool, proxy: ApiProxy) -> Stage:
    queue = FakeQueue()
    doubts: list[str] = []
    clock = ManualClock(datetime.now(UTC))
    ports = Ports(
        demand=FakeDemand({"train": queue}),
        cluster=pool.cluster,
        clock=clock,
        waker=ScriptedWaker(clock, ()),
        journal=ListJournal(),
        doubt=lambda: Doubt("; ".join(doubts)),
    )
    config = config_of(["train"], ["api"], pool.namespace)
    pools = tuple(replace(policy, max_workers=2 + len(FAULTS) + UNSEEN + REFUSED) for policy in config.pools)
    loop = Loop(replace(config, resync=RESYNC, pools=pools), ports)
    started = time.monotonic()

    def turn() -> None:
        clock.advance(timedelta(seconds=time.monotonic() - started) - (clock.now() - begun))
        loop.reconcile(clock.now())

    begun = clock.now()
    stage = Stage(pool, proxy, queue, doubts, turn)
    queue.enqueue(2)
    workers = until(stage, lambda: running(stage, 2), "two workers")
    for pod in workers:
        queue.join(pod)
        queue.pop(pod)
        queue.start(pod)
    until(stage, lambda: is_budget(stage, 1), "the budget to open")
    return stage


def until(stage: Stage, holds: Callable[[], list[str] | bool], what: str, patience: float = 30.0) -> list[str]:
    """Turn until it holds."""

    def look() -> list[str] | bool:
        stage.turn()
        return holds()

    seen = eventually(look, what=what, patience=patience)
    return seen if isinstance(seen, list) else []


def running(stage: Stage, number: int) -> list[str]:
    """The names of the pool's pods, once so many of them run; asked of the real server, not through the proxy."""
    pods = stage.pool.api.get(stage.pool.pods_path)["items"]
    names = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"].lower() == PodPhase.RUNNING]
    return names if len(names) == number else []


def is_budget(stage: Stage, value: int) -> bool:
    return stage.pool.api.get(stage.pool.budget_path)["spec"]["maxUnavailable"] == value


@pytest.mark.parametrize("fault", FAULTS)
def test_the_loop_recovers_within_two_sweeps_and_no_busy_worker_goes(stage: Stage, fault: ApiFault) -> None:
    busy, before = set(stage.queue.running), len(running_names(stage))
    stage.proxy.begin(fault)
    stage.queue.enqueue()  # one more worker is wanted, and the budget has to close
    stage.doubts.append("clock skew")
    ends = time.monotonic() + FAULT_LASTS
    while time.monotonic() < ends:
        stage.turn()
        time.sleep(0.1)
    stage.proxy.end()

    until(stage, lambda: is_budget(stage, 0), "the budget to close", TWO_SWEEPS)
    until(stage, lambda: running(stage, before + 1), "the new worker", TWO_SWEEPS)

    assert stage.proxy.hits[fault] > 0
    assert busy <= running_names(stage)
    stage.doubts.clear()
    until(stage, lambda: is_budget(stage, 1), "the budget to open again", TWO_SWEEPS)


def test_a_refused_pool_keeps_the_busy_pods_that_a_silent_watch_hides(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "PATIENCE", timedelta(seconds=1))
    quotas = f"/api/v1/namespaces/{stage.pool.namespace}/resourcequotas"
    before = running_names(stage)
    few = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(len(before) + UNSEEN)}}}
    stage.pool.api.create(quotas, {"apiVersion": "v1", "kind": "ResourceQuota", **few})
    eventually(lambda: stage.pool.api.get(f"{quotas}/few").get("status", {}).get("hard"), what="the quota to hold")
    stage.proxy.begin(ApiFault.PODS_SILENT)
    try:
        stage.queue.enqueue(UNSEEN + REFUSED)
        until(stage, lambda: len(running_names(stage)) == len(before) + UNSEEN, "as many pods as the quota grants")
        unseen = running_names(stage) - before
        for pod in unseen:
            stage.queue.join(pod)
            stage.queue.pop(pod)
            stage.queue.start(pod)
        ends = time.monotonic() + 4
        while time.monotonic() < ends:  # far longer than a refusal is borne
            stage.turn()
            time.sleep(0.1)

        assert running_names(stage) == before | unseen
        seen = stage.pool.seen()
        assert seen is not None
        assert unseen.isdisjoint(pod.name for pod in seen.pods), "the watch was not silent"
    finally:
        stage.proxy.end()
        stage.pool.api.delete(f"{quotas}/few")


def running_names(stage: Stage) -> set[str]:
    return {pod["metadata"]["name"] for pod in stage.pool.api.get(stage.pool.pods_path)["items"]}
