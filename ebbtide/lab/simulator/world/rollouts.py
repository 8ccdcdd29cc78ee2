"""Rollouts of services: by day their new pods go to any node with capacity, and the night consolidates them.

Each flexible workload is rolled out on every working day, each fixed one once a week, one pod after the other: flexible
workloads with one pod extra, fixed ones with one pod fewer, as the product declares them. Workloads with `perPod` disks
also have one fewer, since a disk has one pod at a time. A rollout starts in business hours and is cancelled at
their end. Its instant depends only on seed and calendar, so every strategy has the same rollouts, and a longer replay
includes the rollouts of a shorter one. A pod that a rollout deletes is not an eviction.

In a real cluster the extra pod also counts towards the budget, which allows one eviction until an old pod is deleted.
The autoscaler cannot use that eviction, since a node must be unneeded for minutes. Here the budget grows with the extra
pod.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random

from ebbtide.lab.simulator.cluster import ClusterModel, Pod
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import BusinessHours, Span, wall_to_instant

USED_SHARE = 0.9
"""The share of a day's business hours in which rollouts start; the remaining time lets them end."""

_FIRST_TO_GO = -1  # no other pod of a service has a deletion cost
_BETWEEN_PODS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The replacement of all pods of a workload. Seconds from the start of the replay."""

    workload: str
    at: float
    until: float  # when business hours end
    surge: int  # pods above the replicas while a new one starts: 1, or 0 if an old one stops first


def planned_rollouts(
    workloads: Mapping[str, WorkloadSettings], hours: BusinessHours, start: datetime, end_s: float, seed: int
) -> tuple[Rollout, ...]:
    """The rollouts that start within `end_s` of `start`, in order."""
    begin = start.astimezone(UTC)
    first = hours.local(start).date()
    planned: list[Rollout] = []
    for offset in range(int(end_s // 86_400) + 2):
        day = first + timedelta(days=offset)
        for workload, at, until in _rollouts_of_day(workloads, hours, day, seed):
            since = (at - begin).total_seconds()
            if 0 <= since < end_s:
                spec = workloads[workload]
                surge = 0 if spec.category is Category.FIXED or spec.has_disks else 1
                ends = (until - begin).total_seconds()
                planned.append(Rollout(workload=workload, at=since, until=ends, surge=surge))
    return tuple(sorted(planned, key=lambda rollout: rollout.at))


def _rollouts_of_day(
    workloads: Mapping[str, WorkloadSettings], hours: BusinessHours, day: date, seed: int
) -> list[tuple[str, datetime, datetime]]:
    """One part of the day for each workload, in a drawn order, and an instant drawn within the part."""
    open_time = _open_time(hours, day)
    if not open_time:
        return []
    due = [name for name in sorted(workloads) if _is_due(name, workloads[name].category, hours, day, seed)]
    rng = Random(f"{seed} {day}")
    rng.shuffle(due)
    return [(name, *_instant(open_time, (i + rng.random()) / len(due) * USED_SHARE)) for i, name in enumerate(due)]


def _is_due(name: str, category: Category, hours: BusinessHours, day: date, seed: int) -> bool:
    if category is not Category.FIXED:
        return True
    monday = day - timedelta(days=day.weekday())
    week = [monday + timedelta(days=i) for i in range(7)]
    return day == Random(f"{seed} {monday} {name}").choice([workday for workday in week if _open_time(hours, workday)])


def _open_time(hours: BusinessHours, day: date) -> list[tuple[Span, datetime]]:
    """Business hours within a local date, each with the real end of its span."""
    midnight, next_midnight = (
        wall_to_instant(hours.timezone, day + timedelta(days=i), 0, last=False) for i in range(2)
    )
    return [
        (Span(max(span.start, midnight), min(span.end, next_midnight)), span.end)
        for span in hours.open_spans(midnight, next_midnight)
    ]


def _instant(open_time: Sequence[tuple[Span, datetime]], share: float) -> tuple[datetime, datetime]:
    """The instant at which `share` of the open time has passed, and the end of business hours after it."""
    remaining = share * sum((span.end - span.start for span, _ in open_time), timedelta())
    for span, closing in open_time:
        if remaining < span.end - span.start:
            return span.start + remaining, closing
        remaining -= span.end - span.start
    raise AssertionError("a share below 1 lies within the open time")


@dataclass(slots=True, eq=False)
class _Active:
    rollout: Rollout
    replicas: int
    old: frozenset[str]
    waits: bool = False  # for all pods to run


class Rollouts:
    """Carries out the planned rollouts, one at a time for each workload: an overlapping rollout is dropped.

    `cost_lag_s`: the longest time until a deletion cost reaches the ReplicaSet controller.
    """

    def __init__(
        self, timeline: Timeline, cluster: ClusterModel, planned: Sequence[Rollout], *, cost_lag_s: float
    ) -> None:
        self._timeline = timeline
        self._cluster = cluster
        self._cost_lag_s = cost_lag_s
        self._active: dict[str, _Active] = {}
        for rollout in planned:
            timeline.at(rollout.at, lambda rollout=rollout: self._begin(rollout))

    def pod_running(self, workload: str) -> None:
        """Continue a rollout that waits for a pod of this workload."""
        active = self._active.get(workload)
        if active is None or not active.waits:
            return
        staying = self._staying(workload)
        most = active.replicas + active.rollout.surge
        if len(staying) < most or any(pod.running_since is None for pod in staying):
            return
        active.waits = False
        old = self._old_pods(active)
        if not old:  # evicted meanwhile: their replacements are new
            self._end(active)
            return
        self._cluster.annotate(old[0].name, _FIRST_TO_GO)
        self._timeline.after(self._cost_lag_s, lambda: self._retire(active))

    def _begin(self, rollout: Rollout) -> None:
        name = rollout.workload
        if name in self._active:
            return
        old = frozenset(pod.name for pod in self._staying(name))
        active = self._active[name] = _Active(rollout, self._cluster.replicas(name), old)
        self._timeline.at(rollout.until, lambda: self._end(active))
        self._next(active)

    def _next(self, active: _Active) -> None:
        if not self._goes_on(active):
            return
        if not self._old_pods(active):
            self._end(active)
            return
        name = active.rollout.workload
        active.waits = True
        self._cluster.scale(name, active.replicas + active.rollout.surge)
        self.pod_running(name)  # without an extra pod all pods may run already

    def _retire(self, active: _Active) -> None:
        if self._goes_on(active):
            self._cluster.scale(active.rollout.workload, active.replicas + active.rollout.surge - 1)
            self._timeline.after(_BETWEEN_PODS_S, lambda: self._next(active))

    def _end(self, active: _Active) -> None:
        if self._goes_on(active):
            del self._active[active.rollout.workload]
            self._cluster.scale(active.rollout.workload, active.replicas)

    def _goes_on(self, active: _Active) -> bool:
        return self._active.get(active.rollout.workload) is active

    def _old_pods(self, active: _Active) -> list[Pod]:
        return [pod for pod in self._staying(active.rollout.workload) if pod.name in active.old]

    def _staying(self, workload: str) -> list[Pod]:
        return [pod for pod in self._cluster.pods(workload) if not pod.stopping]
