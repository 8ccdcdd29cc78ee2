"""A bill without a ledger: what AWS' report shows by itself, when Prometheus has no recording of the month."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

from rich.console import Group, RenderableType

from ebbtide.lab.ledger.allocation import placed_sheets, split_notes, split_sheets
from ebbtide.lab.ledger.bill.bill import Bill
from ebbtide.lab.ledger.bill.difference import reductions_of
from ebbtide.lab.ledger.month import plain
from ebbtide.lab.ledger.sheets import bill_notes, bill_sheet, billed_text
from ebbtide.lab.report.pages.page import Tile
from ebbtide.lab.report.pages.template import rendered
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import count, percent
from ebbtide.text.money import cents
from ebbtide.text.sheet import CENTS, Sheet, left, right
from ebbtide.text.terminal import sheet_table

_MISSING = ("nodes by group and day", "what was saved", "who caused the cost", "the bill beside the ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class BillAlone:
    settings: StackSettings
    bill: Bill
    why: str  # why there is no recording

    @property
    def headline(self) -> str:
        text = billed_text(self.bill.nodes_usd, self.bill.amortised_usd)
        return f"{self.settings.customer}, {self.bill.month.name}: {text}"

    @property
    def missing(self) -> str:
        return f"Not shown: {', '.join(_MISSING)}. They need the month's recording in Prometheus: {self.why}"

    @property
    def without_rows(self) -> str:
        """Return which hours and days have no row of a node, since a file may be missing; "" if all have one."""
        period, found = self.bill.month.billed, self.bill.node_hours
        hours = sum(found.values())
        if hours >= period.hours:
            return ""
        days = ((period.begin + timedelta(days=day)).date() for day in range(round(period.hours / 24)))
        empty = [day for day in days if day not in found]
        stretches = ", ".join(_stretches(empty))
        return (
            f"Rows of nodes exist for {count(hours)} of the {count(period.hours)} hours of {period.name} in UTC"
            f"{f', and for none of {stretches}' if stretches else ''}: no node ran, or rows are missing."
        )

    @property
    def sheets(self) -> Mapping[str, Sheet]:
        sheets = {"bill": bill_sheet(self.bill), "nodes": _nodes(self.bill)}
        return {**sheets, **placed_sheets(self.bill), **split_sheets(self.bill)}

    @property
    def notes(self) -> Sequence[str]:
        return [*bill_notes(self.bill), *split_notes(self.bill)]

    def as_text(self) -> RenderableType:
        tables = (part for sheet in self.sheets.values() for part in ("", sheet_table(sheet)))
        notes = [f"- bill: {sentence}" for sentence in self.notes]
        lines = filter(None, (f"{self.headline}.", self.without_rows, self.missing))
        return Group(*lines, *tables, "", "Assumed:", *notes)

    def as_page(self) -> str:
        month = self.bill.month
        return rendered(
            "ledger.html.j2",
            title=f"Ebbtide bill: {self.settings.customer}, {month.name}",
            verdict=self.headline,
            lead=" ".join(filter(None, (self.without_rows, self.missing))),
            tiles=[*self._tiles()],
            figure=None,
            sheets=self.sheets,
            assumptions={"bill": self.notes},
        )

    def as_json(self) -> Mapping[str, Any]:
        return {
            "stack": self.settings.stack,
            "customer": self.settings.customer,
            "region": self.settings.stated_region,
            "bill": plain(self.bill),
            "nodes": {name or _LISTED: round(usd, 4) for name, usd in reductions_of(self.bill).items()},
            "missing": {"figures": [*_MISSING], "why": self.why},
        }

    def _tiles(self) -> Iterator[Tile]:
        yield Tile(cents(self.bill.nodes_usd), "nodes on AWS' bill", f"{cents(self.bill.amortised_usd)} for all lines")
        if self.bill.coverage is not None:
            yield Tile(percent(self.bill.coverage), "covered", "by commitments: nodes at public prices, spot excluded")


def _stretches(days: Sequence[date]) -> Iterator[str]:
    """Yield runs of days, such as `2026-10-07 to 2026-10-31`."""
    begins = [day for place, day in enumerate(days) if not place or days[place - 1] != day - timedelta(days=1)]
    for first, after in pairwise((*begins, date.max)):
        last = max(day for day in days if first <= day < after)
        yield f"{first}" if first == last else f"{first} to {last}"


_LISTED = "public on-demand prices"


def _nodes(bill: Bill) -> Sheet:
    sums = reductions_of(bill)
    return Sheet(
        caption="From the report's public on-demand prices to what the nodes cost.",
        columns=[*left("cause", fold=True), *right("dollars", unit=CENTS)],
        rows=[(name or _LISTED, usd) for name, usd in sums.items() if not name or abs(usd) >= 0.005],
        total=("the bill's nodes", sum(sums.values())),
    )
