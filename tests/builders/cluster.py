"""Small modelled clusters with defaults, so that a test shows only what matters to it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ebbtide.lab.simulator.cluster import (
    AutoscalerFlags,
    ClusterModel,
    GroupModel,
    Node,
    Pod,
    StopReason,
    WorkloadModel,
)
from ebbtide.lab.simulator.cluster.karpenter import DisruptionBudget, NodePoolModel, TypeModel
from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.lab.simulator.timeline import Timeline

QUICK = AutoscalerFlags(
    scan_interval_s=1,
    scale_down_unneeded_s=10,
    scale_down_delay_after_add_s=10,
    scale_down_delay_after_delete_s=1,
    unremovable_recheck_s=5,
    skip_nodes_with_local_storage=False,
)


def quick(**changes: Any) -> AutoscalerFlags:
    return replace(QUICK, **changes)


def group(name: str = "flexible", **changes: Any) -> GroupModel:
    """Room for two pods of `workload()`."""
    values: dict[str, Any] = {"min": 0, "max": 10, "cpu_m": 4000, "memory_mib": 16384, "labels": {"group": name}}
    return GroupModel(name=name, **(values | changes))


def workload(name: str = "api", **changes: Any) -> WorkloadModel:
    values: dict[str, Any] = {"category": "flexible", "cpu_m": 2000, "memory_mib": 4096}
    return WorkloadModel(name=name, **(values | changes))


SIZES = {"large": (2, 0.1), "xlarge": (4, 0.2), "2xlarge": (8, 0.4), "4xlarge": (16, 0.8)}


def node_pool(
    name: str = "general", sizes: Sequence[str] = tuple(SIZES), boot_s: float = 1.0, **changes: Any
) -> NodePoolModel:
    """Types by size, with 4 GiB for each CPU, of which a node offers all. Budgets are open."""

    def kind(size: str) -> TypeModel:
        cpu, usd = SIZES[size]
        shape = group(
            f"{name}/{size}", max=1000, cpu_m=cpu * 1000, memory_mib=cpu * 4096, labels={"group": name}, boot_s=boot_s
        )
        return TypeModel(shape=shape, usd=usd, capacity={"cpu_m": cpu * 1000})

    values: dict[str, Any] = {"budgets": (DisruptionBudget(percent=100),)}
    return NodePoolModel(name=name, types=tuple(map(kind, sizes)), **(values | changes))


class Witness:
    """A listener that writes down what it was told. `lasts`: how long a process takes to stop; None: it will say."""

    def __init__(self, lasts: float | None = 0.0) -> None:
        self.lasts = lasts
        self.told: list[tuple[str, str]] = []
        self.stops: list[tuple[str, StopReason]] = []
        self.killed: list[str] = []

    def pod_running(self, pod: Pod) -> None:
        self.told.append(("running", pod.name))

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:
        self.told.append(("stopping", pod.name))
        self.stops.append((pod.name, why))
        return self.lasts

    def pod_gone(self, pod: Pod, killed: bool) -> None:
        self.told.append(("gone", pod.name))
        if killed:
            self.killed.append(pod.name)

    def nodes_changed(self) -> None:
        self.told.append(("nodes", ""))


class Played:
    """A cluster with its timeline: `at(t)` moves on to `t` and returns the cluster."""

    def __init__(
        self,
        groups: Sequence[GroupModel],
        flags: AutoscalerFlags | None = None,
        seed: int = 0,
        listener: Witness | None = None,
        cache_lag_s: float = 0.0,
        node_pools: Sequence[NodePoolModel] = (),
        accidents: Accidents | None = None,
    ) -> None:
        self.timeline = Timeline()
        self.cluster = ClusterModel(
            self.timeline,
            groups,
            flags,
            seed=seed,
            listener=listener,
            cache_lag_s=cache_lag_s,
            accidents=accidents,
            node_pools=node_pools,
            first_pass_s=5.0,
        )

    def at(self, t: float) -> ClusterModel:
        self.timeline.run_until(t)
        return self.cluster


def running(cluster: ClusterModel, name: str) -> list[Pod]:
    return [pod for pod in cluster.pods(name) if pod.running_since is not None and not pod.stopping]


def waiting(cluster: ClusterModel, name: str) -> list[Pod]:
    return [pod for pod in cluster.pods(name) if pod.node is None]


def homes(cluster: ClusterModel, name: str) -> list[Node]:
    return [pod.node for pod in cluster.pods(name) if pod.node is not None]
