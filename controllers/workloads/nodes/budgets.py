"""The disruption budgets of a NodePool: their owners, and when each value is written. Pure.

The trap: if Karpenter finds candidates but no possible move, it pauses for five minutes. A change of a
PodDisruptionBudget or its status does not end the pause, but a change of the NodePool does. So a NodePool opens only
after the pods' budgets are observed as open.

The other trap: without `budgets` the API server stores the CRD's default as a field of the manager that created the
object, unless that manager uses server-side apply. So the controller may take over a default, but no other value of
another manager.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from controllers.adapters.kube_api import Json
from controllers.ports import ObservedBudget
from ebbtide.vocabulary.holds import Hold, hold_of
from ebbtide.vocabulary.labels import PREFIX, WORKLOADS
from ebbtide.vocabulary.node_pools import API, FIELD, Budgets, budgets_for

PATH = f"/apis/{API}/nodepools"

DEFAULT: Budgets = [{"nodes": "10%"}]
"""Source: karpenter.sh_nodepools.yaml of 1.14.1, spec.disruption.budgets."""


class NodeBudgetReason(StrEnum):
    NIGHT = "disruption-window-open"
    BUSINESS_HOURS = "business-hours"
    GUARD = "drain-guard-before-opening"
    PODS = "pods-budgets-not-open"
    HELD = "held-by-an-operator"
    PAUSED = "paused-by-an-operator"
    DOUBT = "clock-or-config-in-doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldManager:
    """A manager of the budgets other than the workload controller."""

    name: str
    applies: bool  # by server-side apply, so the manager itself set the value


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNodePool:
    budgets: Budgets
    owners: tuple[FieldManager, ...]
    hold: Hold | None
    version: str

    @property
    def is_default(self) -> bool:
        """Return True if the value may be the CRD's default that no manager set."""
        return self.budgets == DEFAULT and not any(owner.applies for owner in self.owners)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    open: bool  # True if the NodePools' window is open by every clock
    hours_open: bool  # True in business hours by any clock
    waits_for: str = ""  # a pods' budget that is not open, and why; empty if all are open
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class NodePoolDecision:
    """`drains` is None if the NodePool is left unchanged."""

    drains: int | None
    reason: NodeBudgetReason


def decide(state: WindowState, hold: Hold | None, drains: int) -> NodePoolDecision:
    """Return the number of nodes that may be disrupted at a time. `hold` is active now."""
    if hold is not None and hold.pause:
        return NodePoolDecision(None, NodeBudgetReason.PAUSED)
    if not state.open:
        return NodePoolDecision(0, NodeBudgetReason.BUSINESS_HOURS if state.hours_open else NodeBudgetReason.GUARD)
    for obstacle, reason in (
        (state.doubt, NodeBudgetReason.DOUBT),
        (hold, NodeBudgetReason.HELD),
        (state.waits_for, NodeBudgetReason.PODS),
    ):
        if obstacle:
            return NodePoolDecision(0, reason)
    return NodePoolDecision(drains, NodeBudgetReason.NIGHT)


def observed(item: Mapping[str, Any]) -> ObservedNodePool:
    metadata: Mapping[str, Any] = item["metadata"]
    spec: Json = item.get("spec") or {}
    disruption: Json = spec.get("disruption") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    return ObservedNodePool(
        budgets=disruption.get("budgets") or (),
        owners=tuple(_owners(metadata)),
        hold=hold_of({key: value for key, value in annotations.items() if key.startswith(PREFIX)}),
        version=metadata["resourceVersion"],
    )


def _owners(metadata: Mapping[str, Any]) -> list[FieldManager]:
    owners: list[FieldManager] = []
    for entry in metadata.get("managedFields") or ():
        fields: Json = entry.get("fieldsV1") or {}
        spec: Json = fields.get("f:spec") or {}
        owner = FieldManager(name=entry.get("manager", "unknown"), applies=entry.get("operation") == "Apply")
        if "f:budgets" in (spec.get("f:disruption") or {}) and owner != FieldManager(name=WORKLOADS, applies=True):
            owners.append(owner)
    return owners


def applied(name: str, drains: int, version: str | None = None) -> dict[str, Any]:
    """Return the body of a server-side apply."""
    metadata = {"name": name, **({"resourceVersion": version} if version else {})}
    spec = {"disruption": {"budgets": budgets_for(drains)}}
    return {"apiVersion": API, "kind": "NodePool", "metadata": metadata, "spec": spec}


def obstacle(budget: ObservedBudget | None, now: datetime, *, opened: bool) -> str:
    """Return why pods of this budget cannot move; empty if they can.

    A budget with an operator's hold is ignored. While the NodePool is open, a lagging status does not close it.
    """
    if budget is None:
        return "missing"
    if budget.hold is not None and budget.hold.holds_at(now):
        return ""
    if not budget.max_unavailable:
        return "closed"
    return "" if budget.settled or opened else "its status has not caught up"


def conflict(seen: ObservedNodePool) -> str:
    """Return the condition that another manager's value causes."""
    names = ", ".join(sorted({owner.name for owner in seen.owners}))
    value = json.dumps(seen.budgets)
    return (
        f"holding: {names} manages {FIELD} with another value, {value}; remove these lines from the NodePool's source"
    )
