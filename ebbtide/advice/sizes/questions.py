"""What Prometheus is asked about containers and pods of one stack.

cAdvisor's series carry no customer in a Prometheus that is there already: they become ours by the pods and nodes that
the exporter names, as in the recording rules. Those rules add up whole workloads; here the busiest pod counts, so the
containers' own series are asked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from ebbtide.monitoring.rules import CUSTOMER, Metrics
from ebbtide.units.durations import format_duration

_POD = ("namespace", "pod")
BY = ("namespace", "workload", "container")


@dataclass(frozen=True, slots=True)
class Questions:
    """`step` is what one value stands for; it has to hold two samples at least."""

    of: Metrics
    namespaces: str  # as a regular expression
    step: timedelta

    def cpu(self) -> str:
        """Cores of the busiest pod."""
        return self._busiest(f"rate({self._series('container_cpu_usage_seconds_total')}[{self._span}])")

    def memory(self) -> str:
        """Bytes of the pod that uses most."""
        return self._busiest(f"max_over_time({self._series('container_memory_working_set_bytes')}[{self._span}])")

    def throttled(self) -> str:
        """The share of periods, of the pod that was held back most. Without a limit there is no series."""
        slowed, periods = (
            f"rate({self._series(f'container_cpu_cfs_{what}_total')}[{self._span}])"
            for what in ("throttled_periods", "periods")
        )
        return self._busiest(f"{slowed} / {periods}")

    def requested(self, what: str) -> str:
        """Of the pod that asks for most: `cpu_cores` or `memory_bytes`."""
        asked = f"max_over_time({self.of(f'pod_requested_{what}')}[{self._span}])"
        each = f"max by ({CUSTOMER}, namespace, pod) ({asked})"
        return (
            f"max by (namespace, workload) ({each} * on ({CUSTOMER}, namespace, pod) group_left (workload) "
            f"{self._workloads()})"
        )

    def kills(self) -> str:
        """Containers of a workload that ended for lack of memory, in two steps: a jump between two is in both."""
        counted = self.of("container_oom_kills_total")
        return f"sum by (workload) (increase({counted}[{format_duration(2 * self.step)}]))"

    def gpu_busy(self) -> str:
        """Percent of the busiest GPU."""
        return self._of_gpus(f"avg_over_time(DCGM_FI_DEV_GPU_UTIL{self._chosen('pod')}[{self._span}])")

    def gpu_memory(self) -> str:
        """MiB of the GPU that holds most."""
        return self._of_gpus(f"max_over_time(DCGM_FI_DEV_FB_USED{self._chosen('pod')}[{self._span}])")

    def gpus_used(self) -> str:
        """How many GPUs of one pod were busy at all."""
        busy = f"max_over_time(DCGM_FI_DEV_GPU_UTIL{self._chosen('pod')}[{self._span}])"
        each = f"sum by (namespace, pod) (max by (namespace, pod, gpu, UUID) ({busy} > bool 0))"
        return f"max by (namespace, workload) ({each} * on (namespace, pod) group_left (workload) {self._workloads()})"

    def placed(self) -> str:
        """1 for each pod that has a node, by the node's group."""
        groups = self.of.highest("node_info", "node", "group")
        return f"{self._pods()} * on ({CUSTOMER}, node) group_left (group) {groups}"

    def sizes(self, what: str, window: timedelta) -> str:
        """What each pod that was there asked for last."""
        asked = self.of(f"pod_requested_{what}")
        return f"max by (namespace, pod) (last_over_time({asked}[{format_duration(window)}]))"

    def _busiest(self, series: str) -> str:
        each = f"max by (node, namespace, pod, container) ({series})"
        joined = f"{each} * on (node, namespace, pod) group_left (workload) {self._pods()}"
        return f"max by ({', '.join(BY)}) ({joined})"

    def _of_gpus(self, series: str) -> str:
        each = f"max by (namespace, pod) ({series})"
        return f"max by (namespace, workload) ({each} * on (namespace, pod) group_left (workload) {self._workloads()})"

    def _pods(self) -> str:
        return self.of.highest("pod_info", *_POD, "node", "workload")

    def _workloads(self) -> str:
        """Without the node: a pod with a name of its own may be on two for a moment, which a join would refuse."""
        return self.of.highest("pod_info", *_POD, "workload")

    def _series(self, metric: str) -> str:
        return f"{metric}{self._chosen('container')}"

    def _chosen(self, told: str) -> str:
        return f'{{{told}!="",namespace=~"{self.namespaces}"}}'

    @property
    def _span(self) -> str:
        return format_duration(self.step)


def namespaces(names: Iterable[str]) -> str:
    return "|".join(sorted(set(names)))
