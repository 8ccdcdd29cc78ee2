"""AWS' split cost allocation: each hour's cost of a node, divided among the pods that ran on it. Pure.

A pod has a row for each hour and kind of resource. Its split cost is the share of the node's amortised cost by the
larger of request and use; the cost of what no pod requested or used is divided in the same proportion as its unused
cost. Both are parts of the node's rows, which the report has too: rows of pods are never added to a bill. Pods on
Fargate have no node, so their rows are charges.
Source: AWS Data Exports User Guide, "Split line item columns" and "Understanding split cost allocation data".
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ebbtide.lab.ledger.bill.report import LineItem

_ON_A_NODE = "EKSPod-EC2"
_SPLIT, _UNUSED = (
    ("split_line_item_net_split_cost", "split_line_item_split_cost"),
    ("split_line_item_net_unused_cost", "split_line_item_unused_cost"),
)
"""Columns of which a report with split cost allocation has at least one each."""


@dataclass(slots=True, kw_only=True)
class PodDollars:
    """US dollars of a workload's pods: amortised, and net of discounts if the report has net costs."""

    usd: float = 0.0  # by the larger of request and use
    listed_usd: float | None = 0.0  # the same share at public on-demand prices; None if the report lacks it
    unused_usd: float = 0.0  # share of what no pod requested or used
    unused_listed_usd: float | None = 0.0
    fargate_usd: float = 0.0  # charges of pods that run on no node

    @property
    def on_nodes(self) -> bool:
        """Return True for pods that have a part of a node's cost."""
        return bool(self.usd or self.unused_usd)

    def add(self, other: "PodDollars") -> None:
        self.usd += other.usd
        self.listed_usd = sum_of_known((self.listed_usd, other.listed_usd))
        self.unused_usd += other.unused_usd
        self.unused_listed_usd = sum_of_known((self.unused_listed_usd, other.unused_listed_usd))
        self.fargate_usd += other.fargate_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShare:
    """AWS' dollars of the pods of a namespace and workload, within the ledger's month."""

    namespace: str
    workload: str  # "" if no tag names it
    dollars: PodDollars


def is_split(row: LineItem) -> bool:
    """Return True for a part of a node's cost, which the node's own rows have already."""
    return bool(row.split_line_item_parent_resource_id) or row.line_item_operation == _ON_A_NODE


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if a value is not known."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def has_split_costs(row: LineItem) -> bool:
    """Return False if the export selects no column of what a pod cost, or none of its share of the unused."""
    return all(row.model_fields_set.intersection(columns) for columns in (_SPLIT, _UNUSED))


def split_dollars(row: LineItem) -> PodDollars:
    """Return the dollars of a pod's row. Raises `BadRow` if the report lacks a column that it needs."""
    usd, unused_usd = row.first(*_SPLIT), row.first(*_UNUSED)
    return PodDollars(
        usd=usd,
        listed_usd=_listed(row.split_line_item_public_on_demand_split_cost, usd),
        unused_usd=unused_usd,
        unused_listed_usd=_listed(row.split_line_item_public_on_demand_unused_cost, unused_usd),
    )


def _listed(listed: float | None, usd: float) -> float | None:
    """Return the public price. An empty cell beside dollars is unknown: the dollars may be reduced."""
    return listed if listed is not None or usd else 0.0
