"""NodePools as plain values. Units: seconds, millicores, MiB, dollars an hour."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ebbtide.lab.simulator.cluster.model import GroupModel


class DisruptionReason(StrEnum):
    EMPTY = "Empty"
    UNDERUTILIZED = "Underutilized"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """The nodes that may go at a time: a number, or a percentage of the NodePool's initialised nodes, rounded up."""

    nodes: int = 0
    percent: float | None = None
    reasons: frozenset[DisruptionReason] = frozenset(DisruptionReason)
    until_s: float = math.inf  # the end of its schedule; an inactive budget limits nothing

    def allows(self, nodes: int) -> int:
        return self.nodes if self.percent is None else math.ceil(self.percent * nodes / 100 - 1e-9)


DEFAULT_BUDGETS = (DisruptionBudget(percent=10),)


def allowed(budgets: Sequence[DisruptionBudget], reason: DisruptionReason, nodes: int, now: float) -> float:
    """The lowest of the active budgets for this reason."""
    active = (budget.allows(nodes) for budget in budgets if reason in budget.reasons and now < budget.until_s)
    return min(active, default=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeModel:
    """An instance type of a NodePool. `shape`: its nodes, named POOL/TYPE; allocatable sizes, DaemonSets subtracted.

    `capacity`: of the machine, by resource, for limits (`cpu_m`, `memory_mib`, `gpu`; `nodes` is always 1).
    """

    shape: GroupModel
    usd: float
    capacity: Mapping[str, int] = field(default_factory=dict[str, int])

    def counts(self, resource: str) -> int:
        return 1 if resource == "nodes" else self.capacity.get(resource, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolModel:
    name: str
    types: tuple[TypeModel, ...]
    weight: int = 0
    limits: Mapping[str, int] = field(default_factory=dict[str, int])  # `nodes`, `cpu_m`, `memory_mib`, `gpu`
    consolidate_after_s: float = 0.0
    only_empty: bool = False  # consolidation policy WhenEmpty
    budgets: tuple[DisruptionBudget, ...] = DEFAULT_BUDGETS
    spot: bool = False  # a spot node is never replaced by a cheaper spot node
