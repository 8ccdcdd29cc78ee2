"""The autoscaler's drain rules, in order: the first rule that applies decides whether a pod may be moved."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.lab.simulator.cluster.model import AutoscalerFlags
from ebbtide.lab.simulator.cluster.state import Deployment, Pod

SYSTEM_CATEGORY = "system"
"""Pods of this category are treated as pods of kube-system."""
SYSTEM_PODS_HOLD_S = 3600.0


class DrainBlock(StrEnum):
    SYSTEM = "non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present"
    NOT_SAFE = "pod annotated as not safe to evict present"
    LOCAL_STORAGE = "pod with local storage present"
    BUDGET = "not enough pod disruption budget to move"

    def about(self, workload: str) -> str:
        return f"{self} {workload}" if self is DrainBlock.BUDGET else f"{self}: {workload}"


@dataclass(frozen=True, slots=True)
class Blocked:
    pod: Pod
    why: DrainBlock


class BudgetsLeft:
    """The evictions that budgets still allow within one scan: every removable node takes its pods' share."""

    def __init__(self, deployments: Mapping[str, Deployment]) -> None:
        self._deployments = deployments
        self._taken: dict[str, int] = {}

    def of(self, workload: str) -> int | None:
        allowed = self._deployments[workload].disruptions_allowed
        return None if allowed is None else allowed - self._taken.get(workload, 0)

    def in_parallel(self, pods: Iterable[Pod]) -> bool:
        """True if all pods can be evicted at once. Otherwise they leave one after the other, which may fail."""
        counts: dict[str, int] = {}
        for pod in pods:
            counts[pod.workload] = counts.get(pod.workload, 0) + 1
        return all((allowed := self.of(name)) is None or allowed >= count for name, count in counts.items())

    def take(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._taken[pod.workload] = self._taken.get(pod.workload, 0) + 1


def blocker(pods: Iterable[Pod], flags: AutoscalerFlags, budgets: BudgetsLeft, now: float) -> Blocked | None:
    """The first pod that retains its node, with the reason; None if all may be moved."""
    for pod in pods:
        if why := _verdict(pod, flags, budgets, now):
            return Blocked(pod, why)
    return None


def _verdict(pod: Pod, flags: AutoscalerFlags, budgets: BudgetsLeft, now: float) -> DrainBlock | None:
    spec = pod.spec
    if spec.safe_to_evict:
        return None
    allowed = budgets.of(spec.name)
    system = spec.category == SYSTEM_CATEGORY and flags.skip_nodes_with_system_pods and allowed is None
    if system:
        return DrainBlock.SYSTEM if now <= pod.created_at + SYSTEM_PODS_HOLD_S else None
    if spec.safe_to_evict is False:
        return DrainBlock.NOT_SAFE
    if spec.empty_dir and flags.skip_nodes_with_local_storage:
        return DrainBlock.LOCAL_STORAGE
    return DrainBlock.BUDGET if allowed is not None and allowed < 1 else None
