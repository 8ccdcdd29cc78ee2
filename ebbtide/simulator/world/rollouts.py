"""Services are deployed: by day new pods land wherever there is room, and that is what the night has to tidy up.

Each flexible workload is rolled out once on every working day, each fixed one once a week, one pod after the other:
flexible ones with one pod extra, fixed ones with one pod fewer, as the product declares them; with one fewer, too,
where each pod has a disk, since a disk has one pod at a time. A rollout starts in business hours and is given up where
they end. Which instant is drawn from the seed and the calendar alone, so every strategy has the same ones, and a
longer replay has those of a shorter one. A pod that a rollout deletes is no eviction.

In a real cluster the extra pod also counts for the budget, so in the moment until an old pod is deleted one eviction
is allowed. The autoscaler wants minutes of "unneeded" and cannot use it: here the budget grows with the extra pod.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random

from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.simulator.cluster import ClusterModel, Pod
from ebbtide.simulator.timeline import Timeline
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import BusinessHours, Span, wall_to_instant

USED_SHARE = 0.9
"""Of a day's business hours; in the rest nobody deploys, and what was begun has time to end."""

_FIRST_TO_GO = -1  # no other pod of a service has a deletion cost
_BETWEEN_PODS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """All pods of a workload are replaced. Seconds from the start of the replay."""

    workload: str
    at: float
    until: float  # when business hours end
    surge: int  # pods beyond the replicas while a new one starts: 1, or 0 if an old one goes first


def planned_rollouts(
    workloads: Mapping[str, WorkloadSettings], hours: BusinessHours, start: datetime, end_s: float, seed: int
) -> tuple[Rollout, ...]:
    """Those that start within `end_s` of `start`, in order."""
    begin = start.astimezone(UTC)
    first = hours.local(start).date()
    planned: list[Rollout] = []
    for offset in range(int(end_s // 86_400) + 2):
        day = first + timedelta(days=offset)
        for workload, at, until in _of_day(workloads, hours, day, seed):
            since = (at - begin).total_seconds()
            if 0 <= since < end_s:
                of = workloads[workload]
                surge = 0 if of.category is Category.FIXED or of.has_disks else 1
                ends = (until - begin).total_seconds()
                planned.append(Rollout(workload=workload, at=since, until=ends, surge=surge))
    return tuple(sorted(planned, key=lambda rollout: rollout.at))


def _of_day(
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
    return day == Random(f"{seed} {monday} {name}").choice([each for each in week if _open_time(hours, each)])


def _open_time(hours: BusinessHours, day: date) -> list[tuple[Span, datetime]]:
    """Business hours within a local date, each with the moment at which people really go."""
    midnight, next_midnight = (
        wall_to_instant(hours.timezone, day + timedelta(days=i), 0, last=False) for i in range(2)
    )
    return [
        (Span(max(span.start, midnight), min(span.end, next_midnight)), span.end)
        for span in hours.open_spans(midnight, next_midnight)
    ]


def _instant(open_time: Sequence[tuple[Span, datetime]], share: float) -> tuple[datetime, datetime]:
    """The instant at which `share` of the open time has passed, and the end of business hours after it."""
    left = share * sum((span.end - span.start for span, _ in open_time), timedelta())
    for span, closing in open_time:
        if left < span.end - span.start:
            return span.start + left, closing
        left -= span.end - span.start
    raise AssertionError("a share below 1 lies within the open time")


@dataclass(slots=True, eq=False)
class _UnderWay:
    rollout: Rollout
    replicas: int
    old: frozenset[str]
    waits: bool = False  # for all its pods to run


class Rollouts:
    """Carries the planned rollouts out. One at a time for each workload: a second one that comes too soon is dropped.

    `cost_lag_s`: how long a deletion cost may take to reach the ReplicaSet controller.
    """

    def __init__(
        self, timeline: Timeline, cluster: ClusterModel, planned: Sequence[Rollout], *, cost_lag_s: float
    ) -> None:
        self._timeline = timeline
        self._cluster = cluster
        self._cost_lag_s = cost_lag_s
        self._under_way: dict[str, _UnderWay] = {}
        for rollout in planned:
            timeline.at(rollout.at, lambda rollout=rollout: self._begin(rollout))

    def pod_running(self, workload: str) -> None:
        """A pod of this workload runs: perhaps the one that a rollout waits for."""
        found = self._under_way.get(workload)
        if found is None or not found.waits:
            return
        staying = self._staying(workload)
        most = found.replicas + found.rollout.surge
        if len(staying) < most or any(pod.running_since is None for pod in staying):
            return
        found.waits = False
        old = self._old_pods(found)
        if not old:  # evicted meanwhile: what replaced them is new
            self._end(found)
            return
        self._cluster.annotate(old[0].name, _FIRST_TO_GO)
        self._timeline.after(self._cost_lag_s, lambda: self._retire(found))

    def _begin(self, rollout: Rollout) -> None:
        name = rollout.workload
        if name in self._under_way:
            return
        old = frozenset(pod.name for pod in self._staying(name))
        found = self._under_way[name] = _UnderWay(rollout, self._cluster.replicas(name), old)
        self._timeline.at(rollout.until, lambda: self._end(found))
        self._next(found)

    def _next(self, found: _UnderWay) -> None:
        if not self._goes_on(found):
            return
        if not self._old_pods(found):
            self._end(found)
            return
        name = found.rollout.workload
        found.waits = True
        self._cluster.scale(name, found.replicas + found.rollout.surge)
        self.pod_running(name)  # without an extra pod there may be nothing to wait for

    def _retire(self, found: _UnderWay) -> None:
        if self._goes_on(found):
            self._cluster.scale(found.rollout.workload, found.replicas + found.rollout.surge - 1)
            self._timeline.after(_BETWEEN_PODS_S, lambda: self._next(found))

    def _end(self, found: _UnderWay) -> None:
        if self._goes_on(found):
            del self._under_way[found.rollout.workload]
            self._cluster.scale(found.rollout.workload, found.replicas)

    def _goes_on(self, found: _UnderWay) -> bool:
        return self._under_way.get(found.rollout.workload) is found

    def _old_pods(self, found: _UnderWay) -> list[Pod]:
        return [pod for pod in self._staying(found.rollout.workload) if pod.name in found.old]

    def _staying(self, workload: str) -> list[Pod]:
        return [pod for pod in self._cluster.pods(workload) if not pod.stopping]
