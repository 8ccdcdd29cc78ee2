"""`python -m controllers.workloads --config FILE`: write Ray clusters, floors, replicas and NodePools while holding the
Lease.

When the process stops, nothing changes: awake clusters stay awake, sleeping clusters stay asleep. The closer closes
NodePools before business hours.
"""

import sys
from datetime import timedelta
from functools import partial
from typing import TextIO

from controllers.process import ConfigFile, ElectedProcess, start
from controllers.workloads.floors.autoscalers import floors
from controllers.workloads.loop import LoopCounters, WorkloadsLoop, metrics, status
from controllers.workloads.nodes.node_pools import node_pools
from controllers.workloads.ray.clusters import ray_clusters
from controllers.workloads.sleep.scales import sleepers
from ebbtide.vocabulary.documents import encoded, load
from ebbtide.vocabulary.workloads import WorkloadsConfig

_PATIENCE = 120.0  # seconds without a reconcile after which the process is unhealthy: a head may be slow to answer


def main(arguments: list[str]) -> int:
    description = "Writes Ray clusters, floors of services, sleep of workloads, and disruption budgets of NodePools."
    read = partial(load, WorkloadsConfig)
    return start(
        "controllers.workloads", description, "the workload controller's document", read, WorkloadProcess, arguments
    )


class WorkloadsTerm:
    """The workloads of one leadership under one config. Each kind of workload has an entry in `_kinds`."""

    def __init__(self, process: "WorkloadProcess", config: WorkloadsConfig, stream: TextIO = sys.stdout) -> None:
        api, notify = process.api, process.waker.notify
        self._clock, self._doubt = process.clock, process.doubt
        self._kinds = tuple(make(api, config, notify) for make in (ray_clusters, floors, sleepers, node_pools))
        workloads = [workload for kind in self._kinds for workload in kind.workloads]
        self.loop = WorkloadsLoop(api, workloads, may_write=process.lease.held, tally=process.tally, stream=stream)

    def start(self) -> None:
        for kind in self._kinds:
            kind.start()

    def trouble(self) -> str:
        return next(filter(None, (kind.trouble() for kind in self._kinds)), "")

    def reconcile(self) -> timedelta:
        return self.loop.reconcile(self._clock.now(), self._doubt())

    def close(self) -> None:
        self.loop.close()
        for kind in self._kinds:
            kind.close()


class WorkloadProcess(ElectedProcess[WorkloadsConfig, WorkloadsTerm]):
    metric_prefix = "workloads_"

    def __init__(self, file: ConfigFile[WorkloadsConfig], kubeconfig: str | None) -> None:
        super().__init__(file, kubeconfig, namespace=file.config.namespace, lease=file.config.lease)
        self.tally = LoopCounters()

    def new_term(self) -> WorkloadsTerm:
        return WorkloadsTerm(self, self.file.config)

    def silence_limit(self) -> float:
        return _PATIENCE

    def status(self) -> dict[str, object]:
        term, hours, clocks = self.term, self.file.config.hours, self.doubt().instants(self.clock.now())
        now = next(filter(hours.is_open, clocks), clocks[0])
        return {
            **super().status(),
            "hours": {"open": hours.is_open(now), "until": encoded(hours.next_change(now))},
            "workloads": status(term.loop.reports) if term is not None else [],
        }

    def metrics(self) -> str:
        term = self.term
        return super().metrics() + metrics(term.loop.reports if term is not None else (), self.tally)
