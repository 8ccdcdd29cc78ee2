"""Bugs to seed into the imported controller: a harness that cannot find them proves nothing.

Each is a mistake that a controller of this kind could make: in what it reads, in what it decides, or in how it writes.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from controllers.ports import (
    Action,
    Known,
    ObservedPod,
    ObservedPool,
    PodPhase,
    PoolName,
    Reading,
    Scale,
    SetBudget,
    Unknown,
)
from controllers.scaler.workers import reconcile as pool_turn
from controllers.scaler.workers.victims import VictimPlan
from ebbtide.vocabulary.controller_config import ControllerConfig
from tests.harness.habits import Habits


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    name: str
    what: str
    habits: Callable[[], Habits] = Habits
    config: Callable[[ControllerConfig], ControllerConfig] = lambda config: config
    patched: Callable[[], AbstractContextManager[Any]] = nullcontext


def _without_transit(_pool: PoolName, reading: Reading) -> Reading:
    return replace(reading, in_transit=0) if isinstance(reading, Known) else reading


def _blind() -> Habits:
    idle: dict[PoolName, frozenset[str]] = {}

    def read(pool: PoolName, reading: Reading) -> Reading:
        if isinstance(reading, Known):
            idle[pool] = reading.idle
        if isinstance(reading, Unknown):
            return Known(waiting=0, in_transit=0, running=0, idle=idle.get(pool, frozenset()))
        return reading

    return Habits(reading=read)


def _without_version(action: Action) -> Action:
    return replace(action, version=None) if isinstance(action, Scale) else action


def _without_marks() -> AbstractContextManager[Any]:
    def plan(pods: Any, excess: int, spare: Any) -> VictimPlan:
        return VictimPlan(ready=max(0, min(excess, spare.total)))

    return patch.object(pool_turn, "plan_victims", plan)


def _hasty(config: ControllerConfig) -> ControllerConfig:
    return replace(config, pools=tuple(replace(pool, stabilization_window=timedelta()) for pool in config.pools))


def _forgets_to_close(action: Action) -> bool:
    return isinstance(action, SetBudget) and action.max_unavailable == 0


def _by_the_cache_alone(seen: ObservedPool) -> ObservedPool:
    return replace(seen, existing=sum(pod.phase is not PodPhase.TERMINATING for pod in seen.pods))


def _by_phase_alone(seen: ObservedPool) -> ObservedPool:
    def phase(pod: ObservedPod) -> PodPhase:
        return PodPhase.RUNNING if pod.phase is PodPhase.UNREACHABLE else pod.phase

    return replace(seen, pods=tuple(replace(pod, phase=phase(pod)) for pod in seen.pods))


NO_BUG = Bug(name="none", what="the controller as it is")
BUGS = {
    bug.name: bug
    for bug in (
        Bug(
            name="transit-not-counted",
            what="jobs between pop and registration are not read",
            habits=lambda: Habits(reading=_without_transit),
        ),
        Bug(name="unknown-is-empty", what="a reading that failed counts as an empty queue", habits=_blind),
        Bug(
            name="no-version",
            what="replicas are written without the version they were decided on",
            habits=lambda: Habits(action=_without_version),
        ),
        Bug(
            name="no-marks",
            what="replicas fall by the number of idle pods, which were not marked",
            patched=_without_marks,
        ),
        Bug(name="no-calm-window", what="one quiet reading is enough to shrink", config=_hasty),
        Bug(
            name="no-closing-guard",
            what="budgets stay open until the day begins",
            config=lambda config: replace(config, closing_guard=timedelta()),
        ),
        Bug(
            name="left-open",
            what="a budget is believed closed without a write",
            habits=lambda: Habits(forgets=_forgets_to_close),
        ),
        Bug(
            name="replayed-after-crash",
            what="a restart sends the lowering that was decided before the crash",
            habits=lambda: Habits(replays=True),
        ),
        Bug(
            name="count-ignored",
            what="the cache of pods is believed though the cluster counts more of them",
            habits=lambda: Habits(pool=_by_the_cache_alone, lists_again=False),
        ),
        Bug(
            name="silence-ignored",
            what="a pod on a silent node counts as any other",
            habits=lambda: Habits(pool=_by_phase_alone, lists_again=False),
        ),
        Bug(name="doubt-ignored", what="a clock known to be wrong opens budgets", habits=lambda: Habits(doubts=False)),
    )
}
