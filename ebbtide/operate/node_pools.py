"""NodePools whose disruption budgets the workload controller writes: its report of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import one_line
from ebbtide.operate.objects import Document, rows_at
from ebbtide.operate.status import NoStatus, from_pods
from ebbtide.operate.wording import reason_text
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.workloads import WorkloadsConfig


class NodePoolRow(NamedTuple):
    name: str
    state: str  # open, closed, held, absent or unknown
    reason: str


@dataclass(frozen=True, slots=True)
class NodePools:
    rows: Sequence[NodePoolRow] = ()
    unread: str = ""  # why the workload controller's report is not known


def node_pools_of(api: KubeApi, namespace: str, config: WorkloadsConfig | None) -> NodePools:
    if config is None or not config.node_pools:
        return NodePools()
    names, unread = [pool.name for pool in config.node_pools], ""
    reports = {}
    try:
        rows = rows_at(from_pods(api, namespace, WORKLOADS), "workloads")
        reports = {str(row.get("name")): row for row in rows if row.get("kind") == "NodePool"}
    except (NoStatus, ApiError) as error:
        unread = one_line(error)
    return NodePools([_row(name, reports.get(name, {})) for name in names], unread)


def _row(name: str, report: Document) -> NodePoolRow:
    parts = (reason_text(report.get("why")), str(report.get("note") or ""))
    return NodePoolRow(name, str(report.get("state") or "unknown"), "; ".join(filter(None, parts)))
