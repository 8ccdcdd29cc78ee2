"""PromQL queries about the containers and pods of one stack, and their answers by the labels that name them.

In an existing Prometheus, cAdvisor's series carry no customer: a join with the pods and nodes that the exporter names
selects the stack's, as in the recording rules. Those rules sum over entire workloads. Here the busiest pod counts, so
the queries read the containers' own series.

A query about single containers reads every sample: 20 million for 500 pods in two weeks, which takes a core some 12 s,
longer than the connection's timeout. Pieces of two days are fast, and bound the samples that Prometheus holds.

A figure without a recording is None, with the reason in `missing`; it never becomes a zero that was not measured.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from ebbtide.lab.advice.sizes.containers import Container
from ebbtide.lab.advice.sizes.evidence import Evidence
from ebbtide.monitoring.client import Prometheus, UnknownAnswer
from ebbtide.monitoring.gpus import EACH_GPU, gpu_use
from ebbtide.monitoring.history import TimeRange, history
from ebbtide.monitoring.rules import CUSTOMER, Metrics
from ebbtide.text.durations import format_duration

_POD = ("namespace", "pod")
BY = ("namespace", "workload", "container")


@dataclass(frozen=True, slots=True)
class Questions:
    """Queries for one stack; `step` is the span of one value, and has to hold at least two samples."""

    metrics: Metrics
    namespaces: str  # as a regular expression
    step: timedelta

    def cpu(self) -> str:
        """Return cores of the busiest pod."""
        return self._busiest(f"rate({self._series('container_cpu_usage_seconds_total')}[{self._span}])")

    def memory(self) -> str:
        """Return bytes of the pod that uses most."""
        return self._busiest(f"max_over_time({self._series('container_memory_working_set_bytes')}[{self._span}])")

    def throttled(self) -> str:
        """Return the share of throttled periods of the most throttled pod. Without a limit there is no series."""
        slowed, periods = (
            f"rate({self._series(f'container_cpu_cfs_{counter}_total')}[{self._span}])"
            for counter in ("throttled_periods", "periods")
        )
        return self._busiest(f"{slowed} / {periods}")

    def requested(self, resource: str) -> str:
        """Return the largest request of a workload's pods: `cpu_cores` or `memory_bytes`."""
        requests = f"max_over_time({self.metrics(f'pod_requested_{resource}')}[{self._span}])"
        by_pod = f"max by ({CUSTOMER}, namespace, pod) ({requests})"
        return (
            f"max by (namespace, workload) ({by_pod} * on ({CUSTOMER}, namespace, pod) group_left (workload) "
            f"{self._workloads()})"
        )

    def kills(self) -> str:
        """Return a workload's OOM kills within two steps: an increase between two values is in both.

        Replicas of Prometheus that record one exporter twice count once.
        """
        counted = f"increase({self.metrics('container_oom_kills_total')}[{format_duration(2 * self.step)}])"
        return f"sum by (workload) (max by (workload, pod, instance) ({counted}))"

    def gpu_busy(self) -> str:
        """Return percent of the busiest GPU."""
        return self._of_gpus(self._gpu_use("avg_over_time"))

    def gpu_memory(self) -> str:
        """Return MiB of the GPU that holds most."""
        return self._of_gpus(f"max_over_time(DCGM_FI_DEV_FB_USED{{{self._matchers('pod')}}}[{self._span}])")

    def gpus_used(self) -> str:
        """Return how many GPUs, or MIG instances, of one pod were ever busy."""
        busy = self._gpu_use("max_over_time")
        by_pod = f"sum by (namespace, pod) (max by ({EACH_GPU}) ({busy} > bool 0))"
        return (
            f"max by (namespace, workload) ({by_pod} * on (namespace, pod) group_left (workload) {self._workloads()})"
        )

    def placed(self) -> str:
        """Return 1 for each pod that has a node, by the node's group."""
        groups = self.metrics.newest("node_info", ("node",), "group")
        return f"{self._pods()} * on ({CUSTOMER}, node) group_left (group) {groups}"

    def sizes(self, resource: str, window: timedelta) -> str:
        """Return each pod's last request."""
        requests = self.metrics(f"pod_requested_{resource}")
        return f"max by (namespace, pod) (last_over_time({requests}[{format_duration(window)}]))"

    def _busiest(self, series: str) -> str:
        by_container = f"max by (node, namespace, pod, container) ({series})"
        joined = f"{by_container} * on (node, namespace, pod) group_left (workload) {self._pods()}"
        return f"max by ({', '.join(BY)}) ({joined})"

    def _of_gpus(self, series: str) -> str:
        by_pod = f"max by (namespace, pod) ({series})"
        return (
            f"max by (namespace, workload) ({by_pod} * on (namespace, pod) group_left (workload) {self._workloads()})"
        )

    def _pods(self) -> str:
        return self.metrics.highest("pod_info", *_POD, "node", "workload")

    def _workloads(self) -> str:
        """Return the pods' workloads without nodes: a StatefulSet's pod may briefly be on two, which breaks a join."""
        return self.metrics.highest("pod_info", *_POD, "workload")

    def _series(self, metric: str) -> str:
        return f"{metric}{{{self._matchers('container')}}}"

    def _gpu_use(self, function: str) -> str:
        return gpu_use(self._matchers("pod"), f"{function}({{}}[{self._span}])")

    def _matchers(self, label: str) -> str:
        return f'{label}!="",namespace=~"{self.namespaces}"'

    @property
    def _span(self) -> str:
        return format_duration(self.step)


def namespaces(names: Iterable[str]) -> str:
    return "|".join(sorted(set(names)))


PIECE = timedelta(days=2)
"""Longest range of one query."""
Points: TypeAlias = Sequence[tuple[datetime, float]]
"""Ordered from the oldest."""
Key: TypeAlias = tuple[str, ...]
PointsByKey: TypeAlias = Mapping[Key, Points] | None

_METRIC = re.compile(r"\b(?:container|DCGM|ebbtide)_\w+")
_MIB = 2.0**20
_PODS = ("namespace", "workload")


class NothingRecorded(Exception):
    """Raised if Prometheus recorded nothing; each of `lines` is a reason."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageAnswers:
    """Containers by namespace, workload and container; pods by the first two; kills by workload."""

    cpu: PointsByKey  # millicores
    memory: PointsByKey  # MiB
    throttled: PointsByKey  # shares; a container without a limit has no series, which is not a missing recording
    kills: PointsByKey  # each in two steps
    cpu_requests: PointsByKey  # millicores of an entire pod
    memory_requests: PointsByKey  # MiB of an entire pod
    gpu_busy: PointsByKey  # percent
    gpu_memory: PointsByKey  # MiB
    gpus_used: PointsByKey
    missing: Mapping[str, str]


def read_answers(
    prometheus: Prometheus, ask: Questions, containers: Iterable[Container], until: datetime, evidence: Evidence
) -> UsageAnswers:
    """Query all figures. Raises `NothingRecorded` if neither CPU nor memory is known."""
    since = until - evidence.window + evidence.step
    queries = _Queries(prometheus, TimeRange(since=since, until=until, step=evidence.step, piece=PIECE))
    cpu = queries.by("CPU used", ask.cpu(), BY, 1000)
    memory = queries.by("memory used", ask.memory(), BY, 1 / _MIB)
    if cpu is None and memory is None:
        raise NothingRecorded(queries.missing.values())
    gpus = any(container.pod.gpu.count for container in containers)
    return UsageAnswers(
        cpu=cpu,
        memory=memory,
        throttled=queries.by("", ask.throttled(), BY),
        kills=queries.by("kills for lack of memory", ask.kills(), ("workload",)),
        cpu_requests=queries.by("CPU asked for", ask.requested("cpu_cores"), _PODS, 1000),
        memory_requests=queries.by("memory asked for", ask.requested("memory_bytes"), _PODS, 1 / _MIB),
        gpu_busy=queries.by("use of GPUs", ask.gpu_busy(), _PODS) if gpus else None,
        gpu_memory=queries.by("memory of GPUs", ask.gpu_memory(), _PODS) if gpus else None,
        gpus_used=queries.by("number of GPUs used", ask.gpus_used(), _PODS) if gpus else None,
        missing=queries.missing,
    )


@dataclass(slots=True)
class _Queries:
    prometheus: Prometheus
    over: TimeRange
    missing: dict[str, str] = field(default_factory=dict[str, str])

    def by(self, called: str, question: str, labels: Key, unit: float = 1.0) -> PointsByKey:
        """Return points by label values; None if there are none, with a line in `missing` if `called` is given."""
        metric = _METRIC.search(question)
        recorded = f"{metric[0]} of its pods" if metric is not None else ""
        answer = history(self.prometheus, question, self.over, by=labels, called=recorded)
        if isinstance(answer, UnknownAnswer):
            if called:
                self.missing[called] = answer.why
            return None
        return {key: [(at, value * unit) for at, value in points.items()] for key, points in answer.items()}
