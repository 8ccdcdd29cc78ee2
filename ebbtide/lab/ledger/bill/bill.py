"""The bill of one stack and month as plain data: sums of rows, without identifiers of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated

from pydantic import Field

from ebbtide.lab.ledger.bill.lines import BilledAmounts, Charge, Part, Pricing
from ebbtide.lab.ledger.bill.split import PodShare
from ebbtide.lab.ledger.month import Month


@dataclass(frozen=True, slots=True, kw_only=True)
class BillKey:
    outside: bool  # of the ledger's month
    part: Part
    charge: Charge
    pricing: Pricing
    group: str  # "" for all but nodes of a group of the stack
    instance_type: str
    capacity_type: str
    namespace: str  # of a volume or a load balancer; "" if no tag names it
    workload: str  # the Service of a load balancer; "" if no tag names it
    unit: str
    correction: bool  # of an earlier billing period


@dataclass(slots=True)
class LeftOut:
    """Rows of other clusters, or of none, that cannot be charged: of an unknown type, or in another currency."""

    currency: str
    rows: int = 0
    amount: float = 0.0  # unblended cost in the currency

    def add(self, other: "LeftOut") -> None:
        self.rows += other.rows
        self.amount += other.amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Sums of the rows in effective dollars. Its only text of the report is types of rows, currencies and names of
    namespaces, workloads and Services.
    """

    month: Month
    lines: Annotated[Mapping[BillKey, BilledAmounts], Field(exclude=True)]
    parts: Mapping[Part, float]  # without the charges in `apart`
    apart: Mapping[Charge, float]
    shared_usd: Mapping[Charge, float]  # of rows without a tag of any customer
    elsewhere_usd: float  # of this customer in other regions, clusters or accounts
    unplaced_usd: float  # of this customer, in no region, while another of its clusters is in the account
    left_out: Mapping[str, LeftOut]  # by the reason, such as "of unknown type Prize"
    equal_rows: int  # copies of rows, which count once
    has_discounts: bool  # net costs or rows of discounts of any customer, or nodes below their public price
    committed_usd: float  # of all Savings Plans in the report
    utilisation: float | None  # used share of these commitments
    unused_reservation_usd: float
    shared_capacity_usd: float  # of unused capacity reservations without a tag of any customer, as in `shared_usd`
    coverage: float | None  # share of this stack's nodes that commitments cover, at public prices, spot excluded
    accounts: int  # with rows of this stack
    pods: tuple[PodShare, ...] = ()  # AWS' split cost allocation; a part of the nodes' lines
    unplaced_pods: bool = False  # rows of pods exist, but the stack's cluster has no name to find its own by
    unsplit_pods: bool = False  # rows of pods exist, but the report lacks the columns of their cost
    node_hours: Mapping[date, int] = field(default_factory=dict[date, int])
    """Hours with a row of a node, by day in UTC; days without any are missing."""

    @property
    def nodes_usd(self) -> float:
        return nodes_usd_of(self.parts)

    @property
    def split_pods(self) -> Sequence[PodShare]:
        """Return the pods among which AWS split the cost of nodes: those on Fargate have none."""
        return [pod for pod in self.pods if pod.dollars.on_nodes]

    @property
    def amortised_usd(self) -> float:
        return sum(self.parts.values())


def nodes_usd_of(parts: Mapping[Part, float] | Mapping[str, float]) -> float:
    """Return the dollars of nodes among a bill's parts: effective, without the charges that are listed apart."""
    return parts.get(Part.NODES, 0.0)
