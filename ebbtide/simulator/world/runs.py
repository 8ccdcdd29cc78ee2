"""Jobs and cron jobs on the modelled cluster: their pods come when a run is due, run to their end and go.

Nobody moves them: their budget is closed as long as they run, so the node under them stays. What can end a run before
its time is its `longestRun`, a newer run that replaces it, and a node that is taken back; a pod lost that way is made
anew while the run has retries, and otherwise the run has failed and its other pods are stopped.

Pods of one job are alike, so all its runs share one set of pods: whichever pod starts next works for the oldest run
that waits for one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ebbtide.settings.sections.jobs import Concurrency
from ebbtide.simulator.cluster import ClusterModel, Pod
from ebbtide.simulator.timeline import Handle, Timeline
from ebbtide.simulator.world.schedules import JobPlan


@dataclass(slots=True, eq=False)
class _Run:
    plan: JobPlan
    left: int  # pods that nobody was asked for yet
    retries: int
    to_come: int = 0  # pods that were asked for and do not run yet
    running: dict[str, Handle] = field(default_factory=dict[str, Handle])  # by pod: when it ends
    limit: Handle | None = None


@dataclass(slots=True)
class RunCounts:
    """What became of the runs of all jobs."""

    begun: int = 0
    succeeded: int = 0
    stopped: int = 0  # by their longestRun, or by the run that replaced them
    failed: int = 0  # with a lost pod, and no retries left
    left_out: int = 0  # that could not start in time


class Runs:
    def __init__(self, timeline: Timeline, cluster: ClusterModel, plans: Sequence[JobPlan]) -> None:
        self._timeline = timeline
        self._cluster = cluster
        self._under_way: dict[str, list[_Run]] = {plan.workload: [] for plan in plans}  # oldest first
        self._missed: dict[str, float] = {}  # when the latest run was due that had to wait for another one
        self.counts = RunCounts()
        for plan in plans:
            self._await(plan, iter(plan.due))

    def __contains__(self, workload: str) -> bool:
        return workload in self._under_way

    def pod_running(self, pod: Pod) -> None:
        run = next(run for run in self._under_way[pod.workload] if run.to_come)
        run.to_come -= 1
        run.running[pod.name] = self._timeline.after(run.plan.pod_s, lambda: self._pod_ended(run, pod))

    def pod_stopping(self, pod: Pod) -> None:
        """A pod that is stopped from outside is lost; those of a run that was stopped here are no longer known."""
        run = next((run for run in self._under_way[pod.workload] if pod.name in run.running), None)
        if run is None:
            return
        self._timeline.cancel(run.running.pop(pod.name))
        if run.retries:
            run.retries -= 1
            run.to_come += 1  # the cluster makes another one
        else:
            self._cluster.scale(pod.workload, self._cluster.replicas(pod.workload) - 1)
            self.counts.failed += 1
            self._withdraw(run)

    def _await(self, plan: JobPlan, later: Iterator[float]) -> None:
        at = next(later, None)
        if at is not None:
            self._timeline.at(at, lambda: self._come_due(plan, later))

    def _come_due(self, plan: JobPlan, later: Iterator[float]) -> None:
        under_way = self._under_way[plan.workload]
        if under_way and plan.concurrency is Concurrency.FORBID:
            self.counts.left_out += plan.workload in self._missed
            self._missed[plan.workload] = self._timeline.now
        else:
            if plan.concurrency is Concurrency.REPLACE:
                for run in list(under_way):
                    self._stop(run)
            self._begin(plan)
        self._await(plan, later)

    def _begin(self, plan: JobPlan) -> None:
        run = _Run(plan, left=plan.completions, retries=plan.retries)
        run.limit = self._timeline.after(plan.most_s, lambda: self._stop(run))
        self._under_way[plan.workload].append(run)
        self.counts.begun += 1
        self._ask_for(run, plan.parallelism)

    def _ask_for(self, run: _Run, pods: int) -> None:
        more = min(pods, run.left)
        run.left -= more
        run.to_come += more
        name = run.plan.workload
        self._cluster.scale(name, self._cluster.replicas(name) + more)

    def _pod_ended(self, run: _Run, pod: Pod) -> None:
        del run.running[pod.name]
        self._cluster.complete(pod)
        self._ask_for(run, 1)
        if not run.running and not run.to_come:
            self.counts.succeeded += 1
            self._over(run)

    def _stop(self, run: _Run) -> None:
        self.counts.stopped += 1
        self._withdraw(run)

    def _withdraw(self, run: _Run) -> None:
        """All its pods go, those that still wait and those that nobody has made yet too."""
        name = run.plan.workload
        running, run.running = run.running, {}
        waiting = [pod for pod in self._cluster.pods(name) if pod.running_since is None and not pod.stopping]
        mine = waiting[: run.to_come]
        self._cluster.scale(name, self._cluster.replicas(name) - (run.to_come - len(mine)))
        run.to_come = 0
        for end in running.values():
            self._timeline.cancel(end)
        for pod in (*mine, *(pod for pod in self._cluster.pods(name) if pod.name in running)):
            self._cluster.withdraw(pod)
        self._over(run)

    def _over(self, run: _Run) -> None:
        plan = run.plan
        if run.limit is not None:
            self._timeline.cancel(run.limit)
        self._under_way[plan.workload].remove(run)
        missed = self._missed.pop(plan.workload, None)
        if missed is None:
            return
        if plan.starts_late(missed, self._timeline.now):
            self._begin(plan)
        else:
            self.counts.left_out += 1
