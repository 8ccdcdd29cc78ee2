"""Runs of jobs and cron jobs on the modelled cluster: pods are created when a run is due, and complete.

Their budget is closed, so no pod is moved and its node stays. A run ends early at its `longestRun`, when a newer run
replaces it, or when a node is interrupted. A lost pod is created again while the run has retries; otherwise the run
fails and its other pods are stopped.

Pods of one job are equal, so all its runs share one set of pods: the next pod that starts works for the oldest run that
waits for one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ebbtide.lab.simulator.cluster import ClusterModel, Pod
from ebbtide.lab.simulator.timeline import Handle, Timeline
from ebbtide.lab.simulator.world.schedules import JobPlan
from ebbtide.settings.sections.jobs import Concurrency


@dataclass(slots=True, eq=False)
class _Run:
    plan: JobPlan
    unrequested: int  # pods
    retries: int
    pending: int = 0  # requested pods that do not run yet
    running: dict[str, Handle] = field(default_factory=dict[str, Handle])  # the end of each pod
    limit: Handle | None = None


@dataclass(slots=True)
class RunCounts:
    """Outcomes of the runs of all jobs."""

    begun: int = 0
    succeeded: int = 0
    stopped: int = 0  # by longestRun, or by the run that replaced them
    failed: int = 0  # with a lost pod and no more retries
    skipped: int = 0  # that could not start in time


class Runs:
    def __init__(self, timeline: Timeline, cluster: ClusterModel, plans: Sequence[JobPlan]) -> None:
        self._timeline = timeline
        self._cluster = cluster
        self._active: dict[str, list[_Run]] = {plan.workload: [] for plan in plans}  # oldest first
        self._missed: dict[str, float] = {}  # the due time of the latest run that waits for another one
        self.counts = RunCounts()
        for plan in plans:
            self._await(plan, iter(plan.due))

    def __contains__(self, workload: str) -> bool:
        return workload in self._active

    def pod_running(self, pod: Pod) -> None:
        run = next(run for run in self._active[pod.workload] if run.pending)
        run.pending -= 1
        run.running[pod.name] = self._timeline.after(run.plan.pod_s, lambda: self._pod_ended(run, pod))

    def pod_stopping(self, pod: Pod) -> None:
        """A pod stopped by the cluster is lost. Pods of a run that was stopped here are no longer in `running`."""
        run = next((run for run in self._active[pod.workload] if pod.name in run.running), None)
        if run is None:
            return
        self._timeline.cancel(run.running.pop(pod.name))
        if run.retries:
            run.retries -= 1
            run.pending += 1  # the cluster creates another one
        else:
            self._cluster.scale(pod.workload, self._cluster.replicas(pod.workload) - 1)
            self.counts.failed += 1
            self._withdraw(run)

    def _await(self, plan: JobPlan, later: Iterator[float]) -> None:
        at = next(later, None)
        if at is not None:
            self._timeline.at(at, lambda: self._come_due(plan, later))

    def _come_due(self, plan: JobPlan, later: Iterator[float]) -> None:
        active = self._active[plan.workload]
        if active and plan.concurrency is Concurrency.FORBID:
            self.counts.skipped += plan.workload in self._missed
            self._missed[plan.workload] = self._timeline.now
        else:
            if plan.concurrency is Concurrency.REPLACE:
                for run in list(active):
                    self._stop(run)
            self._begin(plan)
        self._await(plan, later)

    def _begin(self, plan: JobPlan) -> None:
        run = _Run(plan, unrequested=plan.completions, retries=plan.retries)
        run.limit = self._timeline.after(plan.most_s, lambda: self._stop(run))
        self._active[plan.workload].append(run)
        self.counts.begun += 1
        self._request(run, plan.parallelism)

    def _request(self, run: _Run, pods: int) -> None:
        more = min(pods, run.unrequested)
        run.unrequested -= more
        run.pending += more
        name = run.plan.workload
        self._cluster.scale(name, self._cluster.replicas(name) + more)

    def _pod_ended(self, run: _Run, pod: Pod) -> None:
        del run.running[pod.name]
        self._cluster.complete(pod)
        self._request(run, 1)
        if not run.running and not run.pending:
            self.counts.succeeded += 1
            self._over(run)

    def _stop(self, run: _Run) -> None:
        self.counts.stopped += 1
        self._withdraw(run)

    def _withdraw(self, run: _Run) -> None:
        """Remove all pods of a run: running, pending and not yet created."""
        name = run.plan.workload
        running, run.running = run.running, {}
        waiting = [pod for pod in self._cluster.pods(name) if pod.running_since is None and not pod.stopping]
        created = waiting[: run.pending]
        self._cluster.scale(name, self._cluster.replicas(name) - (run.pending - len(created)))
        run.pending = 0
        for end in running.values():
            self._timeline.cancel(end)
        for pod in (*created, *(pod for pod in self._cluster.pods(name) if pod.name in running)):
            self._cluster.withdraw(pod)
        self._over(run)

    def _over(self, run: _Run) -> None:
        plan = run.plan
        if run.limit is not None:
            self._timeline.cancel(run.limit)
        self._active[plan.workload].remove(run)
        missed = self._missed.pop(plan.workload, None)
        if missed is None:
            return
        if plan.starts_late(missed, self._timeline.now):
            self._begin(plan)
        else:
            self.counts.skipped += 1
