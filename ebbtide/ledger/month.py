"""A month and its ledger as plain data. Pure.

Units: US dollars before tax, node-hours, instants of UTC; days are local dates of the stack.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any, cast

from ebbtide.vocabulary.windows import wall_to_instant, zone_of

SCHEMA = 1
CLOSED_WITHIN = timedelta(days=10)
"""After a month's end. Prometheus keeps 45 days, so that a later reading may lack the first days."""
SPOT, ON_DEMAND = "spot", "on-demand"
"""Capacity types of nodes, and of rows of a bill."""
_NAME = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    year: int
    month: int
    zone: str

    @property
    def name(self) -> str:
        return f"{self.year}-{self.month:02}"

    @property
    def begin(self) -> datetime:
        return wall_to_instant(self.zone, date(self.year, self.month, 1), 0, last=False)

    @property
    def end(self) -> datetime:
        return self.after.begin

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHours:
    """Nodes of one kind on one local day, recorded hours only: a gap has its own dollars."""

    day: date
    group: str  # "" for nodes without a group
    category: str  # fixed, flexible, gpu or spot; "" if the node lacks the label
    instance_type: str
    capacity_type: str  # SPOT or ON_DEMAND
    hours: float
    usd: float  # without boots
    boots: int
    boot_usd: float  # estimated: from launch until the node joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Nothing is known of the nodes between two instants but the two bounds of their dollars."""

    begin: datetime
    end: datetime
    low_usd: float
    high_usd: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Dollars of the same month with another fleet, from `low_usd` to `high_usd`; None: not enough data, see `why`."""

    name: str
    low_usd: float | None
    high_usd: float | None
    assumptions: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Dollars that a workload or pool caused by its requests. `idle`: nothing requested them."""

    group: str
    category: str
    workload: str
    usd: float
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    stack: str
    customer: str
    region: str
    month: Month
    incomplete: str  # why the month is not closed; "" if it is
    paid: tuple[NodeHours, ...]
    plan_usd: float  # what the assumed plan of the stack file adds; below 0 it saves
    gaps: tuple[Gap, ...]
    alternatives: tuple[Alternative, ...]
    shares: tuple[Share, ...]
    prices: Mapping[str, str]  # source and date of each kind of price
    sources: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def recorded_usd(self) -> float:
        """Recorded hours with the assumed plan, without boots and gaps."""
        return sum(row.usd for row in self.paid) + self.plan_usd

    @property
    def boot_usd(self) -> float:
        return sum(row.boot_usd for row in self.paid)

    @property
    def low_usd(self) -> float:
        """The least that the nodes cost; the boots are the estimate."""
        return self.recorded_usd + self.boot_usd + sum(gap.low_usd for gap in self.gaps)

    @property
    def high_usd(self) -> float:
        return self.recorded_usd + self.boot_usd + sum(gap.high_usd for gap in self.gaps)

    def saved(self, alternative: Alternative) -> tuple[float, float] | None:
        """Return the least and the most that was saved; below 0 the alternative is cheaper."""
        if alternative.low_usd is None or alternative.high_usd is None:
            return None
        return alternative.low_usd - self.high_usd, alternative.high_usd - self.low_usd


def ledger_json(ledger: Ledger) -> dict[str, Any]:
    """Return plain values. Dollars have cents, so that two readings of one month are equal."""
    totals = {
        "recorded_usd": ledger.recorded_usd,
        "boot_usd": ledger.boot_usd,
        "low_usd": ledger.low_usd,
        "high_usd": ledger.high_usd,
    }
    saved = {
        entry.name: {"low_usd": span[0], "high_usd": span[1]}
        for entry in ledger.alternatives
        if (span := ledger.saved(entry)) is not None
    }
    month = {"name": ledger.month.name, "zone": ledger.month.zone, "begin": ledger.month.begin, "end": ledger.month.end}
    document = {"schema": SCHEMA, **asdict(ledger), "month": month, "totals": totals, "saved": saved}
    return cast("dict[str, Any]", plain(document))


def plain(value: object) -> object:
    """Return a value as JSON has it: dollars and hours with four digits, instants and days as text."""
    match value:
        case dict():
            return {str(key): plain(entry) for key, entry in cast("dict[object, object]", value).items()}
        case list() | tuple():
            return [plain(entry) for entry in cast("list[object]", value)]
        case date():
            return value.isoformat()
        case float():
            return round(value, 4)
        case _:
            return value
