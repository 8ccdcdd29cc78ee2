"""Karpenter's NodePools: their nodes, limits and budgets, and the workload controller's report on each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import find
from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.operate.status import NoStatus, from_pods
from ebbtide.operate.wording import reason_text
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.node_pools import PATH
from ebbtide.vocabulary.workloads import WorkloadsConfig


class NodePoolRow(NamedTuple):
    name: str
    state: str  # open, closed, held, absent or unknown
    nodes: str  # existing ones, and the limits; empty if unknown
    budgets: str  # those in force, which may briefly differ from the state
    reason: str


@dataclass(frozen=True, slots=True)
class NodePoolView:
    rows: Sequence[NodePoolRow] = ()
    unread: str = ""  # why the workload controller's report is not known


def node_pools_of(api: KubeApi, namespace: str, config: WorkloadsConfig | None) -> NodePoolView:
    if config is None or not config.node_pools:
        return NodePoolView()
    names, unread = [pool.name for pool in config.node_pools], ""
    reports: dict[str, Document] = {}
    pools: dict[str, Document] = {}
    try:
        rows = rows_at(from_pods(api, namespace, WORKLOADS), "workloads")
        reports = {str(row.get("name")): row for row in rows if row.get("kind") == "NodePool"}
    except (NoStatus, ApiError) as error:
        unread = collapsed(error)
    try:
        pools = {name: find(api, f"{PATH}/{name}") or {} for name in names}
    except ApiError as error:
        unread = "; ".join(filter(None, (unread, collapsed(error))))
    return NodePoolView([_row(name, reports.get(name, {}), pools.get(name, {})) for name in names], unread)


def _row(name: str, report: Document, pool: Mapping[str, object]) -> NodePoolRow:
    parts = (reason_text(report.get("why")), str(report.get("note") or ""))
    nodes, budgets = (nodes_text(pool), budgets_text(pool)) if pool else ("", "")
    return NodePoolRow(name, str(report.get("state") or "unknown"), nodes, budgets, "; ".join(filter(None, parts)))


def nodes_text(pool: object) -> str:
    """Return `3 of 20`, or the number of nodes with the limits on other resources."""
    existing, limits = at(pool, "status", "resources", "nodes") or 0, dict(at(pool, "spec", "limits") or {})
    most = limits.pop("nodes", None)
    others = ", ".join(f"{resource} {limit}" for resource, limit in sorted(limits.items()))
    return f"{existing}{f' of {most}' if most else ''}{f' ({others} at most)' if others else ''}"


def budgets_text(pool: object) -> str:
    """Return the budgets with their reasons: `Underutilized, Drifted 0; Empty 100%`."""
    budgets = at(pool, "spec", "disruption", "budgets")
    if budgets is None:
        return "all 10%, Karpenter's default"
    return (
        "; ".join(
            f"{', '.join(budget.get('reasons') or ['all'])} {budget.get('nodes')}"
            + (f" ({budget['schedule']} UTC for {budget.get('duration')})" if budget.get("schedule") else "")
            for budget in budgets
        )
        or "none: all nodes may go at once"
    )
