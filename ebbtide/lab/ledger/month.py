"""A month and its ledger as plain data. Pure.

Units: US dollars before tax, node-hours, UTC instants; days are local dates of the stack.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter, computed_field

from ebbtide.prices import PricingAssumption
from ebbtide.vocabulary.windows import wall_to_instant, zone_of

CLOSED_WITHIN = timedelta(days=10)
"""Time after a month's end in which to close it. Prometheus keeps 45 days: a later reading may lack the first days."""
SPOT, ON_DEMAND = "spot", "on-demand"
"""Capacity types of nodes, and of rows of a bill."""
BEFORE = "fixed fleet before"
"""The alternative of `costs.before`: the only fleet that a headline compares with, since it existed."""
LIST_PRICES = "list prices"
LEAST_RECORDED = 0.5
"""Share of a month that must be recorded; below it nothing is concluded from the month."""
NOISE = 0.02
"""Differences up to this share of the month are the noise of a replay. Source: docs/evidence/ledger.md."""
OTHER_PODS, NO_POD = "other pods", "requested by no pod"
UNKNOWN_REQUESTS, NOT_RECORDED = "requests not recorded", "not recorded"
"""Shares of pods without Ebbtide's label, of no pod, and of hours without recorded requests or labels. No workload and
no value of a label can have these names, which contain blanks."""
_NAME = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")


class LedgerError(Exception):
    """No ledger can be made. The message has a line for each reason, without text of a bill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    year: int
    month: int
    zone: str

    @computed_field
    @property
    def name(self) -> str:
        return f"{self.year}-{self.month:02}"

    @computed_field
    @property
    def begin(self) -> datetime:
        return wall_to_instant(self.zone, date(self.year, self.month, 1), 0, last=False)

    @computed_field
    @property
    def end(self) -> datetime:
        return self.after.begin

    @property
    def billed(self) -> "Month":
        """Return AWS' billing period, a month in UTC."""
        return replace(self, zone="UTC")

    @property
    def hours(self) -> float:
        return (self.end - self.begin) / timedelta(hours=1)

    @property
    def after(self) -> "Month":
        year, month = divmod(self.year * 12 + self.month, 12)
        return Month(year=year, month=month + 1, zone=self.zone)

    def day_of(self, instant: datetime) -> date:
        return instant.astimezone(zone_of(self.zone)).date()


def month_named(name: str, zone: str) -> Month | None:
    """Return the month of a name such as 2026-11; None for other text."""
    match = _NAME.fullmatch(name)
    return None if match is None else Month(year=int(match[1]), month=int(match[2]), zone=zone)


def last_month(now: datetime, zone: str) -> Month:
    """Return the last month that has ended."""
    first = now.astimezone(zone_of(zone)).date().replace(day=1)
    day = first - timedelta(days=1)
    return Month(year=day.year, month=day.month, zone=zone)


@dataclass(slots=True)
class NodeHours:
    """Nodes of one kind on one local day, recorded hours only: a gap has its own dollars."""

    day: date
    group: str  # "" for nodes without a group
    category: str  # fixed, flexible, gpu or spot; "" if the node lacks the label
    instance_type: str  # "" for nodes without one; then they have dollars only if their group states a price
    capacity_type: str  # SPOT or ON_DEMAND
    hours: float = 0.0
    usd: float = 0.0  # without boots
    boots: int = 0
    boot_usd: float = 0.0  # estimated: from launch until the node joined
    less_usd: float = 0.0  # by which spot nodes may have been cheaper than `usd`, their typical price
    more_usd: float = 0.0  # or more expensive

    @property
    def is_priced(self) -> bool:
        return bool(self.instance_type or self.usd or self.boot_usd)


@dataclass(slots=True)
class Amount:
    """Node-hours and their dollars without boots. `less_usd` and `more_usd` are those of `NodeHours`."""

    hours: float = 0.0
    usd: float = 0.0
    less_usd: float = 0.0
    more_usd: float = 0.0


def add_amount(total: Amount | NodeHours, more: Amount | NodeHours, share: float = 1.0) -> None:
    total.hours += more.hours * share
    total.usd += more.usd * share
    total.less_usd += more.less_usd * share
    total.more_usd += more.more_usd * share


Hourly: TypeAlias = Mapping[tuple[str, int], Amount]
"""Node-hours and dollars for each group and hour of the month, at list or spot prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A span without recorded nodes: only the bounds of their dollars are known."""

    begin: datetime
    end: datetime
    low_usd: float
    high_usd: float
    why: str
    model_usd: float | None = None  # a model's figure between the bounds; None in months of a former release


class FleetUsd(NamedTuple):
    """Dollars of a fleet, or of a difference of two, which may be negative."""

    on_demand: float
    at_low_spot: float  # of spot nodes, at the lowest price
    at_high_spot: float


def modelled_usd(gaps: Iterable[Gap]) -> float | None:
    """Return the model's dollars of all gaps together; None if one has none."""
    models = [gap.model_usd for gap in gaps]
    known = [usd for usd in models if usd is not None]
    return sum(known) if len(known) == len(models) else None


def bounds_of(amounts: Iterable[Amount | NodeHours], gaps: Iterable[Gap] = ()) -> tuple[float, float]:
    """Return the bounds of the dollars of recorded nodes and of gaps together, without boots."""
    low = high = 0.0
    for amount in amounts:
        low, high = low + amount.usd - amount.less_usd, high + amount.usd + amount.more_usd
    for gap in gaps:
        low, high = low + gap.low_usd, high + gap.high_usd
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Dollars of the same month with another fleet, from `low_usd` to `high_usd`; None: not enough data, see `why`.

    `paired`: it differs from the month only in recorded hours; in gaps it costs at least as much as the month.
    `variants`: the fleets that it may have, without errors of the model; of a paired one, differences to the month.
    `noise_usd`: by how much the bounds of a replay would differ from the month on each side if nothing had changed.
    """

    name: str
    low_usd: float | None
    high_usd: float | None
    assumptions: tuple[str, ...]
    why: str = ""
    paired: bool = False
    variants: tuple[FleetUsd, ...] = ()
    noise_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostShare:
    """Dollars that a workload or pool caused by its requests. `idle`: nothing requested them."""

    group: str
    category: str
    workload: str
    usd: float
    idle: bool = False
    namespace: str = ""  # of a workload of the stack; ledgers of earlier releases have none


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelShare:
    """Dollars that pods with one value of a label caused by their requests. `pods`: False for what is no pod's."""

    value: str
    usd: float
    pods: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    stack: str
    customer: str
    region: str
    month: Month
    incomplete: str  # why the month is not closed; "" if it is
    paid: tuple[NodeHours, ...]
    plan_usd: float  # dollars that the stack file's assumed plan adds; negative if it saves
    gaps: tuple[Gap, ...]
    alternatives: tuple[Alternative, ...]
    shares: tuple[CostShare, ...]
    prices: Mapping[str, str]  # source and date of each kind of price
    source: str
    notes: tuple[str, ...]
    basis: str = LIST_PRICES  # the prices of `paid`
    beyond_min_usd: float | None = None  # idle dollars of nodes above each group's min; None in months before it
    plan_assumed: bool | None = None  # by costs.pricingAssumption; None in months of former releases
    labels: Mapping[str, tuple[LabelShare, ...]] = field(default_factory=dict[str, tuple[LabelShare, ...]])
    """Shares by label of `costs.labels`. The shares of one label add up to the recorded dollars of all nodes, without
    the plan."""

    @property
    def recorded_share(self) -> float:
        """Share of the month's hours."""
        return 1 - sum((gap.end - gap.begin) / timedelta(hours=1) for gap in self.gaps) / self.month.hours

    @property
    def has_plan(self) -> bool:
        """Return True if the stack file assumes a plan. Former releases have it in the source of prices only."""
        if self.plan_assumed is None:
            return not self.prices.get("plan", PricingAssumption.ON_DEMAND).startswith(PricingAssumption.ON_DEMAND)
        return self.plan_assumed

    @computed_field
    @property
    def recorded_usd(self) -> float:
        """Dollars of recorded hours with the assumed plan, without boots and gaps."""
        return sum(row.usd for row in self.paid) + self.plan_usd

    @computed_field
    @property
    def boot_usd(self) -> float:
        return sum(row.boot_usd for row in self.paid)

    @computed_field
    @property
    def low_usd(self) -> float:
        """Lower bound of the nodes' cost, including the estimate for boots."""
        return bounds_of(self.paid, self.gaps)[0] + self.plan_usd + self.boot_usd

    @computed_field
    @property
    def high_usd(self) -> float:
        return bounds_of(self.paid, self.gaps)[1] + self.plan_usd + self.boot_usd

    @computed_field
    @property
    def model_usd(self) -> float | None:
        """Typical dollars of recorded nodes with the model's of gaps; None if less than half was recorded."""
        gaps = modelled_usd(self.gaps)
        if gaps is None or self.recorded_share < LEAST_RECORDED:
            return None
        return self.recorded_usd + self.boot_usd + gaps

    @computed_field
    @property
    def idle_usd(self) -> float:
        """Dollars of nodes that no pod requested."""
        return sum(share.usd for share in self.shares if share.idle)

    @computed_field
    @property
    def could_save_usd(self) -> float | None:
        """About what fewer nodes could have saved: idle dollars without those of each group's `min` nodes.

        Hours without recorded requests count as requested; None if they have more than half of the dollars.
        """
        total = sum(share.usd for share in self.shares)
        if sum(share.usd for share in self.shares if share.workload == UNKNOWN_REQUESTS) > total / 2:
            return None
        return self.idle_usd if self.beyond_min_usd is None else self.beyond_min_usd

    @computed_field
    @property
    def saved(self) -> Mapping[str, tuple[float, float] | None]:
        """Bounds of the saving, by alternative; negative if the alternative is cheaper."""
        return {entry.name: self._saved(entry) for entry in self.alternatives}

    def _saved(self, entry: Alternative) -> tuple[float, float] | None:
        if entry.low_usd is None or entry.high_usd is None:
            return None
        if not entry.paired:
            return entry.low_usd - self.high_usd, entry.high_usd - self.low_usd
        low, high = bounds_of((), self.gaps)
        return entry.low_usd - self.low_usd, entry.high_usd - self.high_usd + high - low

    def measurable(self, name: str, saved: Sequence[float], billed_usd: float | None = None) -> bool:
        """Return False if the saving of an alternative is within the noise of the model: it may be none.

        `billed_usd`: of the nodes. The range of a replay has the noise on each side, so a range with 0 in it is only
        measurable if it reaches twice as far. A replay that misses the month itself by more has that as its noise.
        """
        low, high = saved
        middle = (self.low_usd + self.high_usd) / 2
        missed = max((entry.noise_usd for entry in self.alternatives if entry.name == name), default=0.0)
        noise = max(NOISE * middle, missed) * (1.0 if billed_usd is None or not middle else billed_usd / middle)
        most = max(abs(low), abs(high))
        return most >= noise and not (low <= 0 <= high and most < 2 * noise)


def plain(value: object) -> dict[str, Any]:
    """Return a dataclass as a JSON object, rounded to four decimals so that two readings of one month are equal."""
    return json.loads(TypeAdapter(type(value)).dump_json(value), parse_float=lambda text: round(float(text), 4))
