"""The content of a preview as plain values, for the renderers of text, Markdown and JSON."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from ebbtide.findings import Finding
from ebbtide.policies.rule import PolicyResult

_NUMBER = r" \((\d+)\)$"


def line_key(name: str) -> str:
    """Return a cost line's name without its number, so that "NAT gateway" and "NAT gateway (2)" are one line."""
    return re.sub(_NUMBER, "", name)


def line_number(name: str) -> str:
    match = re.search(_NUMBER, name)
    return match[1] if match else "1"


class StackVerdict(StrEnum):
    SAFE = "safe"
    ATTENTION = "needs attention"
    BLOCKED = "blocked"


class ChangeKind(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """Displayed values: short, secrets masked; "" for a missing one."""

    path: str  # as the provider writes it, with names for indices: spec.template.spec.containers[api].image
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    kind: ChangeKind
    type: str  # "Deployment", "NodeGroup"
    name: str  # as Pulumi names it
    component: str  # the outermost component that it belongs to; "" for none
    fields: tuple[FieldChange, ...] = ()
    reasons: tuple[str, ...] = ()  # of a replacement: the paths that force it
    lowers: bool = False  # of a replacement: the old one is deleted before the new one is created
    urn: str = ""  # on the later side, or on the earlier one if the resource is deleted
    protected: bool = False  # Pulumi refuses to delete it


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger(Finding):
    """A danger for reviewers, such as "replaces node group flexible-a: instanceTypes changes"."""

    impact: str = ""  # "up to 20 nodes; 4 services, 2 pools, 3 closed budgets"; "" if nothing runs on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """US dollars a month; None if unknown.

    `always`: all pods at their minimum, by the calendar, on the nodes that they need. `at_min`: all groups at their
    `min`, whatever their pods need; deprecated, and the next release removes it.
    """

    always: float | None
    at_min: float | None
    at_max: float | None
    at_usage: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """A side without this line is None."""

    name: str
    before: Amounts | None
    after: Amounts | None
    assumption: str
    note: str = ""
    estimated: bool = False  # the on-demand price of one of its node types is an estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCostLine:
    """The share of the nodes that the pods of a service or a variant use; a side without them is None.

    Pods are the minimum and the maximum. Amounts have no value at usage, since a service's usage is not stated.
    """

    name: str
    pods_before: tuple[int, int] | None
    pods_after: tuple[int, int] | None
    before: Amounts | None
    after: Amounts | None


def _added(sides: Sequence[Amounts | None]) -> Amounts:
    """Add up lines. A line that a side does not have counts as 0; a sum with an unknown amount is unknown."""
    present = [amounts for amounts in sides if amounts is not None]
    columns = zip(
        *((amounts.always, amounts.at_min, amounts.at_max, amounts.at_usage) for amounts in present), strict=True
    )
    sums = [None if None in column else sum(filter(None, column)) for column in columns] or [0.0, 0.0, 0.0, 0.0]
    return Amounts(always=sums[0], at_min=sums[1], at_max=sums[2], at_usage=sums[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class CostComparison:
    """For a new customer all values before are None. Hours are per mean month."""

    lines: tuple[CostLine, ...]
    before: Amounts | None
    after: Amounts | None
    open_hours: tuple[float, float]  # business hours a month, before and after
    closed_hours: tuple[float, float]
    open_usd: tuple[float | None, float | None]  # the part of the stated usage in business hours
    closed_usd: tuple[float | None, float | None]
    prices_of: tuple[date, ...]
    confidence: str  # "list prices", "derived from another plan's discount", …
    without: tuple[tuple[str, ...], tuple[str, ...]] = (
        (),
        (),
    )  # lines without a price, before and after: sums lack them
    services: tuple[ServiceCostLine, ...] = ()  # included in the lines of nodes
    cheaper: tuple[str, ...] = ()  # a sentence for each cheaper place of pods after the change, with the line to write

    @property
    def compared(self) -> tuple[Amounts | None, Amounts | None]:
        """Sums before and after without lines that lack a price on a side, so that only the change counts."""
        if self.before is None or self.after is None or set(self.without[0]) == set(self.without[1]):
            return self.before, self.after
        pairs = [(line.before, line.after) for line in self.lines]
        priced = [pair for pair in pairs if all(side is None or side.at_min is not None for side in pair)]
        return _added([before for before, _ in priced]), _added([after for _, after in priced])


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """One disruption window of the coming nights: budgets are open from `opens` to `closes` (both UTC)."""

    opens: datetime
    closes: datetime
    local: str  # "Fri 20 Nov 17:00 → Mon 23 Nov 07:45 (America/New_York)"
    note: str = ""  # a clock change, a holiday, planned work


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingNights:
    rows: tuple[WindowRow, ...]  # after the change
    changes: tuple[str, ...] = ()  # a sentence for each difference
    warnings: tuple[str, ...] = ()
    sleep: tuple[str, ...] = ()  # a sentence for each workload that sleeps, and one about their savings


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedRow:
    object: str
    field: str
    owner: str
    initial: str


class Unreplayable(ValueError):
    """The trace cannot be replayed on this stack; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A replay on each side: node-hours, dollars and the p95 wait of jobs in seconds.

    The first of each pair is before; None if that side was not replayed. `coverage` is the fraction of the jobs that
    the pools can run; the figures cover only those.
    """

    trace: str
    node_hours: tuple[float | None, float]
    usd: tuple[float | None, float | None]  # None also if a node has no price
    p95_wait: tuple[float | None, float]
    days: int = 0
    trace_days: int = 0
    interrupted: tuple[int | None, int] = (None, 0)
    unfinished: tuple[int | None, int] = (None, 0)  # still waiting or running when the last day ends
    coverage: tuple[float | None, float] = (None, 1.0)
    note: str = ""  # why the side before was not replayed, overloads, jobs that no pool takes, the other provisioner


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedService:
    """The pods of a service or a variant, scaled by the stack file; the first of each pair is before.

    A side without them is None, and so is one that cannot be replayed; then `note` says why.
    """

    name: str
    strategy: tuple[str | None, str | None]  # hpa-only, calendar-floor, forecast-floor or fixed-replicas
    pod_hours: tuple[float | None, float | None]
    usd: tuple[float | None, float | None]  # None also if a node has no price
    p95_s: tuple[float | None, float | None]
    beyond_slo: tuple[float | None, float | None]  # share of requests answered later than the SLO's p95, or not at all
    lost: tuple[int | None, int | None]  # or turned away
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedServices:
    """The last days of a trace, with the same requests on both sides."""

    trace: str
    days: float
    trace_days: float
    services: tuple[SimulatedService, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerPreview:
    stack: str
    verdict: StackVerdict
    counts: Mapping[ChangeKind, int]
    dangers: tuple[Danger, ...] = ()
    cost: CostComparison | None = None
    nights: ComingNights | None = None
    ownership: tuple[OwnedRow, ...] = ()
    policies: tuple[PolicyResult, ...] = ()
    simulated: Simulated | None = None
    simulated_services: SimulatedServices | None = None
    changes: tuple[ResourceChange, ...] = ()
    problems: tuple[str, ...] = ()  # an unreadable side, a missing price: one line each
    incomplete: bool = False  # a problem hides a part of this preview
    new: bool = False  # the stack did not exist before


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeGroup:
    """At least two customers with equal changes, none of them blocked. The URNs of the changes are empty."""

    stacks: tuple[str, ...]
    verdict: StackVerdict
    changes: tuple[ResourceChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal:
    """US dollars a month of all customers with a known cost; lines with a price on one side only are left out."""

    stacks: int
    before: Amounts | None  # None if all of them are new
    after: Amounts
    not_counted: tuple[str, ...] = ()  # customers whose cost is not known
    incomplete: tuple[str, ...] = ()  # customers of which a line lacks a price, so the total is "at least"
    estimated: tuple[str, ...] = ()  # customers with an estimated price


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewDocument:
    against: str  # the git ref; "" for nothing to compare with
    customers: tuple[CustomerPreview, ...]
    notes: tuple[str, ...] = field(default=())
    problems: tuple[str, ...] = field(default=())  # of no single customer; each hides a requested part
    groups: tuple[ChangeGroup, ...] = field(default=())  # the largest first
    total: CostTotal | None = None  # of several customers
