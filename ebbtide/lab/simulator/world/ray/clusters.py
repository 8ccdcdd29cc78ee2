"""The Ray clusters of a world: heads, groups, Ray's autoscaler and sleep, on the modelled cluster.

Ray's autoscaler scans every `LOOK_S`. It adds the workers that waiting tasks lack, up to the group's `max`, and removes
a worker without tasks after `idleAfter`, down to `min`, but never while a task of its group waits. Nothing else removes
a worker, since its budget is closed. A lost pod is created again, as by KubeRay, and removed if it is idle.

The workload controller's code (`controllers.workloads.ray.sleep`) decides about sleep after each relevant change. A
sleeping cluster has no pods; after a wake-up its workers start once its head runs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from controllers.workloads.ray.sleep import RayClusterState, decide_sleep
from ebbtide.lab.simulator.cluster import ClusterModel, Pod
from ebbtide.lab.simulator.results import RayClusterResult
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.ray.drives import Drive, DriveEdges
from ebbtide.lab.simulator.world.ray.lines import GroupMeter, Line, workers_lacking
from ebbtide.lab.simulator.world.ray.work import RayPlan, RayWork, key_of_group
from ebbtide.vocabulary.workloads import Purpose, SleepWhen

LOOK_S = 5.0
"""Ray's AUTOSCALER_UPDATE_INTERVAL_S."""
HEAD_EXIT_S = 1.0
_ROUNDING_S = 1e-6
AFTER_ALL = 10
"""The priority of a scan: all other events of the instant have run."""


class _Group:
    """One group on the modelled cluster."""

    def __init__(self, timeline: Timeline, cluster: ClusterModel, line: Line, name: str) -> None:
        self._timeline = timeline
        self._cluster = cluster
        self._name = name
        self._next_scan = math.inf
        self.line = line
        self.awake = False  # the head and Ray's autoscaler run

    def wake(self) -> None:
        self.awake = True
        self._cluster.scale(self._name, self.line.plan.min)
        self.scan_soon()

    def sleep(self) -> None:
        self.awake = False
        self._cluster.scale(self._name, 0)

    def scan_soon(self) -> None:
        """Plan the next scan that could change something."""
        now = self._timeline.now
        if self.line.waiting:
            self._scan_at(now)
        elif idle := [worker.idle_since for worker in self.line.ready if worker.idle_since is not None]:
            self._scan_at(max(now, min(idle) + self.line.plan.idle_after_s))

    def _scan_at(self, at: float) -> None:
        beat = math.ceil((at - _ROUNDING_S) / LOOK_S) * LOOK_S
        if self.awake and beat < self._next_scan:
            self._next_scan = beat
            self._timeline.at(max(beat, self._timeline.now), lambda: self._scan(beat), AFTER_ALL)

    def _scan(self, beat: float) -> None:
        if beat != self._next_scan:
            return  # an earlier scan was planned meanwhile
        self._next_scan = math.inf
        if not self.awake:
            return
        if self.line.waiting:
            self._grow()
        else:
            self._shrink()

    def _grow(self) -> None:
        replicas = self._cluster.replicas(self._name)
        lacking = workers_lacking(self.line, coming=replicas - len(self.line.ready))
        target = min(replicas + lacking, self.line.plan.max)
        if target > replicas:
            self._cluster.scale(self._name, target)

    def _shrink(self) -> None:
        """Remove the longest idle workers first. Workers within the minimum are scanned again after a change."""
        now, plan = self._timeline.now, self.line.plan
        spare = self._cluster.replicas(self._name) - plan.min
        since = now - plan.idle_after_s + _ROUNDING_S  # as in `_scan_at`, or the scan would be planned for now again
        idle = [worker for worker in self.line.ready if worker.idle_since is not None and worker.idle_since <= since]
        idle.sort(key=lambda worker: worker.idle_since or 0.0)
        for worker in idle[: max(0, spare)]:
            if (pod := self._cluster.pod(self._name, worker.pod)) is not None:
                self._cluster.withdraw(pod)
        if len(idle) <= spare:
            self.scan_soon()


@dataclass(slots=True)
class _Head:
    name: str
    runs: bool = False
    awake_s: float = 0.0  # up to `since`
    since: float | None = None  # None: asleep


class _Cluster:
    def __init__(self, timeline: Timeline, model: ClusterModel, plan: RayPlan) -> None:
        self._timeline = timeline
        self._model = model
        self.plan = plan
        self.head = _Head(plan.head.name)
        self.groups: dict[str, _Group] = {}
        self.meters: dict[str, GroupMeter] = {}
        for group in plan.groups:
            name = group.worker.name
            line = Line(timeline, group, changed=self._changed(name), exited=self._exited(name))
            self.groups[name] = _Group(timeline, model, line, name)
            self.meters[name] = GroupMeter(line)
        self.drives = 0
        self.hours_open = False
        self._idle_since = timeline.now
        self._deciding = False

    def begin(self) -> None:
        self._wake()

    def attached(self, drivers: int) -> None:
        self.drives += drivers
        self._idle_since = self._timeline.now
        self.decide_soon()

    def decide_soon(self) -> None:
        if self.plan.sleep.when is not SleepWhen.NEVER and not self._deciding:
            self._deciding = True
            self._timeline.after(0.0, self._decide, AFTER_ALL)

    def _decide(self) -> None:
        self._deciding = False
        idle_s = self._timeline.now - self._idle_since
        asleep = self.head.since is None
        state = RayClusterState(
            suspended=asleep,
            purpose=Purpose.REST if asleep else None,
            hours_open=self.hours_open,
            idle_for=None if self.drives or not self.head.runs else timedelta(seconds=idle_s),
            drivers=any(self._model.replicas(pool) for pool in self.plan.drivers),
        )
        decision = decide_sleep(state, self.plan.sleep)
        if decision.suspend and not asleep:
            self._sleep()
        elif asleep and not decision.suspend:
            self._wake()
        remaining_s = self.plan.sleep.after.total_seconds() - idle_s
        if not asleep and not self.drives and remaining_s > 0:
            self._timeline.after(remaining_s, self.decide_soon)

    def _wake(self) -> None:
        self.head.since = self._timeline.now
        self._model.scale(self.head.name, 1)

    def _sleep(self) -> None:
        self.head.awake_s += self._timeline.now - (self.head.since or 0.0)
        self.head.since = None
        self._model.scale(self.head.name, 0)
        for group in self.groups.values():
            group.sleep()

    def head_running(self) -> None:
        self.head.runs = True
        self._idle_since = self._timeline.now
        for group in self.groups.values():
            if not group.awake:
                group.wake()
        self.decide_soon()

    def head_gone(self) -> None:
        self.head.runs = False

    def _changed(self, group: str) -> Callable[[], None]:
        def changed() -> None:
            self.meters[group].note()
            self.groups[group].scan_soon()

        return changed

    def _exited(self, group: str) -> Callable[[str], None]:
        def exited(name: str) -> None:
            pod = self._model.pod(group, name)
            if pod is not None:
                self._model.pod_exited(pod)

        return exited

    def result(self, end_s: float) -> RayClusterResult:
        awake_s = 0.0 if self.head.since is None else end_s - self.head.since
        return RayClusterResult(
            head_hours=(self.head.awake_s + awake_s) / 3600,
            groups={key_of_group(self.plan.name, name): meter.result(end_s) for name, meter in self.meters.items()},
        )


class RayClusters:
    """All Ray clusters of a world; passes pod events of the modelled cluster on to them."""

    def __init__(self, timeline: Timeline, model: ClusterModel, plans: Sequence[RayPlan]) -> None:
        self._timeline = timeline
        self._clusters = {plan.name: _Cluster(timeline, model, plan) for plan in plans}
        self._heads = {cluster.head.name: cluster for cluster in self._clusters.values()}
        self._of_group = {name: cluster for cluster in self._clusters.values() for name in cluster.groups}
        self._of_driver = {pool: cluster for cluster in self._clusters.values() for pool in cluster.plan.drivers}
        for plan in plans:
            for pod in plan.pods:
                model.deploy(pod, 0)

    def begin(self, open_spans: Sequence[tuple[float, float]]) -> None:
        """Wake all clusters at second 0. `open_spans`: business hours."""
        for cluster in self._clusters.values():
            cluster.begin()
        for span in open_spans:
            for at, is_open in zip(span, (True, False), strict=True):
                self._timeline.at(at, self._turn(is_open))

    def drive(self, pool: str, work: RayWork, tasks_done: int, edges: DriveEdges) -> Drive:
        """Return the drive of a job; the caller starts it."""
        cluster = self._of_driver[pool]
        return Drive(self._timeline, self.line(work.group), work, edges, cluster.attached, tasks_done)

    def pool_scaled(self, pool: str) -> None:
        if pool in self._of_driver:
            self._of_driver[pool].decide_soon()

    def __contains__(self, workload: str) -> bool:
        return workload in self._heads or workload in self._of_group

    def pod_running(self, pod: Pod) -> None:
        if pod.workload in self._heads:
            self._heads[pod.workload].head_running()
        else:
            self.line(pod.workload).started(pod.name)

    def pod_stopping(self, pod: Pod) -> float | None:
        return HEAD_EXIT_S if pod.workload in self._heads else self.line(pod.workload).stop(pod.name)

    def pod_gone(self, pod: Pod) -> None:
        if pod.workload in self._heads:
            self._heads[pod.workload].head_gone()
        else:
            self.line(pod.workload).gone(pod.name)

    def results(self, end_s: float) -> Mapping[str, RayClusterResult]:
        return {name: cluster.result(end_s) for name, cluster in self._clusters.items()}

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self._of_group)

    def line(self, group: str) -> Line:
        """The line of a group, by `workload_of_group`."""
        return self._of_group[group].groups[group].line

    def _turn(self, is_open: bool) -> Callable[[], None]:  # noqa: FBT001 - the new state of business hours
        def turn() -> None:
            for cluster in self._clusters.values():
                cluster.hours_open = is_open
                cluster.decide_soon()

        return turn
