"""`pass`: one turn of the loop over 1,000 pools with 5,000 pods and 200 budgets, from readings to reports.

The ports return prepared values, so this measures only the decisions. Most pools do not change between turns; in one of
twenty the demand changes, and workers are requested or marked.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median

from benchmarks.measure import Figures
from controllers.adapters.clock import SystemClock
from controllers.ports import (
    Action,
    BudgetName,
    Known,
    ObservedBudget,
    ObservedCluster,
    ObservedPod,
    ObservedPool,
    Outcome,
    PodPhase,
    PoolName,
    Ports,
    ReconcileReport,
)
from controllers.scaler.loop import Loop
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval

POOLS, PODS_EACH, BUDGETS, TURNS = 1_000, 5, 200, 60
MOVING = 20  # the demand of every 20th pool changes with each turn
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@dataclass
class _Ports:
    """All ports, with prepared values; actions are only counted."""

    pools: Mapping[PoolName, ObservedPool]
    budgets: Mapping[BudgetName, ObservedBudget]
    readings: list[Mapping[PoolName, Known]]
    actions: int = 0
    report: ReconcileReport | None = field(default=None)

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Known]:  # noqa: ARG002 - the port's signature
        self.readings.append(self.readings.pop(0))
        return self.readings[0]

    def observe(self) -> ObservedCluster:
        return ObservedCluster(self.pools, self.budgets)

    def act(self, action: Action) -> Outcome:  # noqa: ARG002 - the port's signature
        self.actions += 1
        return Outcome.DONE

    def wait(self, timeout: timedelta) -> bool:  # noqa: ARG002 - the port's signature
        return False

    def reconciled(self, report: ReconcileReport) -> None:
        self.report = report

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None: ...

    def noted(self, at: datetime, subject: str, message: str) -> None: ...


def measured() -> dict[str, Figures]:
    ports = _Ports(
        {name: _pool(name) for name in _names()},
        {f"app-{number}": ObservedBudget(max_unavailable=0, version="1") for number in range(BUDGETS)},
        [{name: _reading(name, moving=turn * (n % MOVING == 0)) for n, name in enumerate(_names())} for turn in (0, 1)],
    )
    loop = Loop(_config(), Ports(demand=ports, cluster=ports, clock=SystemClock(), waker=ports, journal=ports))
    loop.reconcile(NOON)
    cpu_ms: list[float] = []
    for turn in range(1, TURNS + 1):
        began = time.process_time()
        loop.reconcile(NOON + timedelta(seconds=turn))
        cpu_ms.append((time.process_time() - began) * 1000)
    if ports.report is None or len(ports.report.pools) != POOLS or not ports.actions:
        raise RuntimeError("the turns decided nothing")
    return {
        "pass": {
            "cpu_ms": round(median(cpu_ms), 1),
            "min_ms": round(min(cpu_ms), 1),
            "max_ms": round(max(cpu_ms), 1),
            "n": len(cpu_ms),
        }
    }


def _names() -> list[PoolName]:
    return [f"pool-{number}" for number in range(POOLS)]


def _pool(name: PoolName) -> ObservedPool:
    pods = tuple(ObservedPod(name=f"{name}-{number}", phase=PodPhase.RUNNING) for number in range(PODS_EACH))
    return ObservedPool(replicas=PODS_EACH, existing=PODS_EACH, pods=pods, version="1")


def _reading(name: PoolName, *, moving: int) -> Known:
    """Three busy workers and two idle ones; a moving pool has one more waiting job than idle workers."""
    idle = frozenset({f"{name}-0", f"{name}-1"})
    return Known(waiting=3 * moving, in_transit=0, running=3, oldest_wait=timedelta(seconds=moving), idle=idle)


def _config() -> ControllerConfig:
    return ControllerConfig(
        customer="bench",
        hours=BusinessHours(timezone="Europe/Berlin", week=tuple(WeeklyInterval(day, 480, 1140) for day in range(5))),
        closing_guard=timedelta(minutes=15),
        node_startup=timedelta(minutes=5),
        resync=timedelta(seconds=2),
        redis=RedisEndpoint(host="127.0.0.1"),
        pools=tuple(
            PoolPolicy(
                name=name,
                namespace="workers",
                deployment=name,
                source="rq",
                queues=(name,),
                jobs_per_worker=1,
                min_workers=0,
                max_workers=20,
                stabilization_window=timedelta(minutes=2),
                longest_job=timedelta(hours=1),
                safe_stop=True,
            )
            for name in _names()
        ),
        budgets=tuple(BudgetPolicy(name=f"app-{number}", namespace="apps") for number in range(BUDGETS)),
    )
