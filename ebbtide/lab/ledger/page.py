"""The ledger as one page, in the style of the other reports."""

from calendar import monthrange
from collections.abc import Iterator
from datetime import date
from operator import attrgetter

from ebbtide.lab.ledger.month import BEFORE, Ledger
from ebbtide.lab.ledger.sheets import (
    NO_GROUP,
    LedgerView,
    about,
    about_saved,
    basis,
    could_save_text,
    headline,
    recorded_text,
    saved_by,
    saved_text,
    share_text,
    span,
)
from ebbtide.lab.report.live.charts import LiveChart, panel_of, stacked
from ebbtide.lab.report.live.figures import LiveFigure, Plan, drawn
from ebbtide.lab.report.live.record import Band
from ebbtide.lab.report.pages.page import Tile
from ebbtide.lab.report.pages.template import rendered
from ebbtide.text.counts import count, percent, several
from ebbtide.text.durations import HOUR_S
from ebbtide.text.money import cents, dollars
from ebbtide.vocabulary.windows import zone_of


def render_page(view: LedgerView) -> str:
    ledger = view.ledger
    incomplete = f" Incomplete: {ledger.incomplete}." if ledger.incomplete else ""
    return rendered(
        "ledger.html.j2",
        title=f"Ebbtide ledger: {ledger.customer}, {ledger.month.name}",
        verdict=headline(view),
        lead=f"{ledger.month.name} in {ledger.month.zone}, as {ledger.source} recorded it.{incomplete}",
        month=ledger.month.name,
        tiles=[*_tiles(view)],
        figure=_days(ledger) if ledger.paid else None,
        sheets=view.sheets,
        assumptions=view.assumptions,
    )


def _tiles(view: LedgerView) -> Iterator[Tile]:
    ledger, billed = view.ledger, view.difference
    hours = sum(row.hours for row in ledger.paid)
    if billed is not None:
        yield Tile(cents(billed.nodes_usd), "nodes on AWS' bill", f"{cents(billed.all_usd)} for all lines")
    if figure := about(ledger.gaps, ledger.model_usd):
        yield Tile(figure, "nodes, by a model of the gaps", f"range: {span(ledger.low_usd, ledger.high_usd)}")
    yield Tile(recorded_text(ledger), "recorded nodes", f"{basis(ledger)}; {count(hours)} node-hours")
    yield Tile(dollars(ledger.boot_usd), "boots, estimated", several(sum(row.boots for row in ledger.paid), "boot"))
    yield Tile(percent(ledger.recorded_share), "of the month recorded", several(len(ledger.gaps), "gap"))
    could = f"fewer nodes save {could_save_text(ledger)}"
    yield Tile(share_text(ledger, ledger.idle_usd), "of the dollars idle", f"requested by no pod; {could}")
    saved, billed_usd = saved_by(ledger, billed)
    if saved is not None:
        rates = basis(ledger) if billed_usd is None else "at the bill's rates"
        text, against = saved_text(ledger, BEFORE, saved, billed_usd), f"against: {BEFORE}, {rates}"
        before = next(entry for entry in ledger.alternatives if entry.name == BEFORE)
        if billed_usd is None and (figure := about_saved(ledger, before)):
            yield Tile(figure, "saved, by a model of the gaps", f"range: {text}; {against}")
        else:
            yield Tile(text, "saved", against)


def _days(ledger: Ledger) -> LiveFigure:
    year, month = ledger.month.year, ledger.month.month
    days = [date(year, month, day + 1) for day in range(monthrange(year, month)[1])]
    paid: dict[str, dict[date, float]] = {}
    for row in filter(attrgetter("is_priced"), ledger.paid):
        by_day = paid.setdefault(row.group or NO_GROUP, {})
        if row.hours:  # a node that joined in a gap has a row for its boot
            by_day[row.day] = by_day.get(row.day, 0.0) + row.usd
    recorded = tuple(any(day in by_day for by_day in paid.values()) for day in days)
    values = {
        group: tuple(by_day.get(day, 0.0) if there else None for day, there in zip(days, recorded, strict=True))
        for group, by_day in paid.items()
    }
    step = ledger.month.hours * HOUR_S / len(days)  # a mean: days on which clocks change are longer or shorter
    painted, shown = stacked(Band(values=values, recorded=recorded))
    chart = LiveChart(
        title="Dollars of each day by group",
        start=ledger.month.begin.astimezone(zone_of(ledger.month.zone)),
        step=step,
        open_spans=(),
        recorded=recorded,
        panels=[panel_of("US dollars a day", painted, step, money=True, integers=False)],
        shown=shown,
        money=True,
    )
    note = (
        "Recorded dollars by group, spot at typical prices, without boots and without nodes that may have run in a gap."
    )
    return drawn(Plan(name="days", heading="Dollars of each day", note=note), chart)
