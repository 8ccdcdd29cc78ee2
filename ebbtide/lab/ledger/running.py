"""A month that has not ended: its cost to date, and at its end if it goes on like its recorded days. Pure.

The figure of the month's end takes the same hour of the same weekday. Its range has the cheapest and the dearest
recorded workday for each workday to come, and so for weekends; gaps widen it. It knows no holidays and no other change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from rich.console import Group, RenderableType

from ebbtide.lab.ledger.lives import NodeKey, Span
from ebbtide.lab.ledger.month import (
    LEAST_RECORDED,
    ON_DEMAND,
    SPOT,
    Amount,
    Gap,
    Month,
    add_amount,
    bounds_of,
    modelled_usd,
)
from ebbtide.lab.ledger.month_before import MonthBefore, by_group
from ebbtide.lab.ledger.paid import Paid, paid_of
from ebbtide.lab.ledger.pattern import Pattern
from ebbtide.lab.ledger.rates import SPOT_IS_A_RANGE, Rates, basis_of, described, rates_of
from ebbtide.lab.ledger.reading import RecordedNodes
from ebbtide.lab.ledger.sheets import NO_GROUP, UNTYPED, dollars_of, gap_notes, led_by_model, prices_text, span
from ebbtide.lab.report.pages.page import Tile
from ebbtide.lab.report.pages.template import rendered
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.model import StackSettings
from ebbtide.text.money import dollars
from ebbtide.text.sheet import COUNT, DOLLARS, Cell, Sheet, Unit, left, right
from ebbtide.text.terminal import sheet_table

LEAST_DAYS = 7
_COLUMNS = ("to date", "month's end", "expected", "last month")


@dataclass(frozen=True, kw_only=True)
class Running:
    """`last` is the month before, or the reason why it is not known."""

    settings: StackSettings
    month: Month
    until: datetime  # a whole hour
    paid: Paid
    rates: Rates
    last: MonthBefore | str

    @cached_property
    def to_date(self) -> Mapping[str, Amount]:
        """Recorded node-hours and dollars by group."""
        return by_group(self.paid.rows)

    @cached_property
    def at_end(self) -> Mapping[str, Amount]:
        """The same at the month's end; empty without a recorded week, since weekdays differ."""
        if self._pattern.complete_days < LEAST_DAYS:
            return {}
        coming = self._pattern.amounts((self.until.timestamp(), self.month.end.timestamp()))
        sums = {name: replace(amount) for name, amount in self.to_date.items()}
        for group, amount in coming.items():
            add_amount(sums.setdefault(group or NO_GROUP, Amount()), amount)
        return sums

    @cached_property
    def expected(self) -> Mapping[str, Amount]:
        """`costs.expectedNodeHours`, at the month's mean price of a node-hour, or at that of the group's first type."""
        groups = with_node_sets(self.settings).node_groups
        expected: dict[str, Amount] = {}
        for name, hours in self.settings.costs.expected_node_hours.items():
            there, first = self.to_date.get(name, Amount()), groups[name].types[0].name
            if there.hours:
                add_amount(expected.setdefault(name, Amount()), there, hours / there.hours)
            elif first in self.rates.listed:
                capacity_type = SPOT if groups[name].kind is NodeKind.SPOT else ON_DEMAND
                expected[name] = self._new_nodes(NodeKey("", name, "", first, capacity_type), hours)
        return expected

    def _new_nodes(self, key: NodeKey, hours: float) -> Amount:
        at = self.until.timestamp()
        usd, (least, most) = self.rates.usd(key, at), self.rates.usd_bounds(key, at)
        return Amount(hours, usd * hours, (usd - least) * hours, (most - usd) * hours)

    @property
    def to_date_usd(self) -> Span:
        return bounds_of(self.paid.rows, self.paid.gaps)

    @property
    def at_end_usd(self) -> Span | None:
        """None without a recorded week."""
        coming = self._pattern.extremes(self.until.timestamp()) if self.at_end else None
        if coming is None:
            return None
        (low, high), (least, most) = self.to_date_usd, coming
        return low + least, high + most

    @property
    def model_usd(self) -> float | None:
        """The typical dollars of the month's end, with the model's figure of gaps; within the range."""
        if self.at_end_usd is None:
            return None
        low, high = self.at_end_usd
        gaps = sum(gap.model_usd or 0.0 for gap in self.paid.gaps)
        return min(high, max(low, sum(amount.usd for amount in self.at_end.values()) + gaps))

    @property
    def headline(self) -> str:
        until = f"{self.until:%Y-%m-%d %H:%M} UTC"
        prices = prices_text(basis_of(self.settings))
        cost = led_by_model(self.to_date_usd, self.paid.gaps, self.to_date_model_usd)
        return f"{self.settings.customer}, {self.month.name} until {until}: nodes cost {cost} {prices}"

    @property
    def to_date_model_usd(self) -> float | None:
        """Typical dollars of recorded nodes with the model's of gaps; None if less than half was recorded."""
        shares, gaps = self.paid.recorded.values(), modelled_usd(self.paid.gaps)
        if gaps is None or sum(shares) < LEAST_RECORDED * len(shares):
            return None
        return sum(row.usd for row in self.paid.rows) + gaps

    @property
    def outlook(self) -> str:
        if self.at_end_usd is None:
            days = self._pattern.complete_days
            return f"At the month's end: not enough data, wanted {LEAST_DAYS} recorded days, found {days}."
        model = "" if self.model_usd is None else f"; the model's figure is {dollars(self.model_usd)}"
        return f"At the month's end, if it goes on like its recorded days: {span(*self.at_end_usd)}{model}."

    @property
    def sheets(self) -> Mapping[str, Sheet]:
        gaps = self.paid.gaps
        return {
            "dollars": self._sheet("dollars", DOLLARS, dollars_of, span(*bounds_of((), gaps)) if gaps else None),
            "node-hours": self._sheet("node-hours", COUNT, lambda part, _: sum(amount.hours for amount in part)),
        }

    @property
    def notes(self) -> list[str]:
        last = [f"Last month is not known: {self.last}"] if isinstance(self.last, str) else self.last.notes
        on_spot = any(row.capacity_type == SPOT for row in self.paid.rows)
        usage = "Expected: costs.expectedNodeHours, at the month's mean price of a node-hour."
        return [
            "Dollars are without boots and the assumed plan.",
            f"On-demand prices: {described(self.settings)['on-demand']}.",
            "Month's end: the same hours of the same weekdays; holidays are not known.",
            "Its range: each day as the cheapest and as the most expensive recorded workday or weekend day.",
            *([SPOT_IS_A_RANGE] if on_spot else []),
            *([usage] if self.expected else []),
            *last,
            *gap_notes(self.paid.gaps),
            *self.paid.notes,
        ]

    def as_text(self) -> RenderableType:
        tables = (part for sheet in self.sheets.values() for part in ("", sheet_table(sheet)))
        notes = [f"- month: {sentence}" for sentence in self.notes]
        return Group(f"{self.headline}.", self.outlook, *tables, "", "Assumed:", *notes)

    def as_page(self) -> str:
        return rendered(
            "ledger.html.j2",
            title=f"Ebbtide ledger: {self.settings.customer}, {self.month.name}",
            verdict=self.headline,
            lead=self.outlook,
            tiles=[
                Tile(span(*self.to_date_usd), "to date", f"until {self.until:%Y-%m-%d %H:%M} UTC"),
                Tile(span(*(self.at_end_usd or (None, None))), "at the month's end", "if it goes on like this"),
            ],
            figure=None,
            sheets=self.sheets,
            assumptions={"month": self.notes},
        )

    def as_json(self) -> Mapping[str, Any]:
        def amounts(by_group: Mapping[str, Amount]) -> Mapping[str, Any]:
            return {
                name: {field: round(value, 4) for field, value in _fields(amount).items()}
                for name, amount in by_group.items()
            }

        return {
            "stack": self.settings.stack,
            "customer": self.settings.customer,
            "month": self.month.name,
            "until": self.until.isoformat(),
            "to_date": amounts(self.to_date),
            "to_date_usd": _rounded(self.to_date_usd),
            "to_date_model_usd": self.to_date_model_usd and round(self.to_date_model_usd, 4),
            "at_end": amounts(self.at_end),
            "at_end_usd": self.at_end_usd and _rounded(self.at_end_usd),
            "model_usd": self.model_usd and round(self.model_usd, 4),
            "expected": amounts(self.expected),
            "last_month": None if isinstance(self.last, str) else amounts(self.last.amounts),
            "last_month_recorded_share": None if isinstance(self.last, str) else round(self.last.recorded_share, 4),
            "notes": self.notes,
        }

    @cached_property
    def _pattern(self) -> Pattern:
        return Pattern(month=self.month, hourly=self.paid.hourly, recorded=self.paid.recorded)

    def _sheet(
        self, what: str, unit: Unit, cell: Callable[[Iterable[Amount], Sequence[Gap]], Cell], gaps_cell: Cell = None
    ) -> Sheet:
        """Return a table of the groups. This month's gaps are in the totals to date and at its end."""

        def has_figure(group: str) -> bool:
            return unit is not DOLLARS or group != UNTYPED

        gaps = self.paid.gaps
        last: Mapping[str, Amount] = {} if isinstance(self.last, str) else self.last.amounts
        parts = ((self.to_date, gaps), (self.at_end, gaps), (self.expected, ()), (last, ()))
        names = {name for part, _ in parts for name in part}
        return Sheet(
            columns=[*left("group"), *right(*_COLUMNS, unit=unit, fold=True)],
            rows=[
                *(
                    (
                        name,
                        *(cell([part[name]], ()) if name in part and has_figure(name) else None for part, _ in parts),
                    )
                    for name in sorted(names, key=lambda name: (name in (NO_GROUP, UNTYPED), name))
                ),
                *([("gaps", gaps_cell, gaps_cell if self.at_end else None, None, None)] if gaps_cell else []),
            ],
            total=("total", *(cell(part.values(), unsure) if part else None for part, unsure in parts)),
            caption=f"Recorded {what} by group, beside the expected ones.",
        )


def running_of(
    recording: RecordedNodes, settings: StackSettings, month: Month, until: datetime, last: MonthBefore | str
) -> Running:
    """Calculate a running month. Raises `LedgerError` if a node that ran has no price."""
    rates = rates_of(settings, recording)
    paid = paid_of(settings, month, recording, rates, until)
    return Running(settings=settings, month=month, until=until, paid=paid, rates=rates, last=last)


def _fields(amount: Amount) -> Mapping[str, float]:
    low, high = bounds_of([amount])
    return {"node_hours": amount.hours, "usd": amount.usd, "low_usd": low, "high_usd": high}


def _rounded(usd: Span) -> list[float]:
    return [round(value, 4) for value in usd]
