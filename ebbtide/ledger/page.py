"""The ledger as one page, in the style of the other reports."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from ebbtide.files import write_file
from ebbtide.ledger.bill.text import Billed, bill_notes, bill_rows, cause_rows
from ebbtide.ledger.month import SPOT, Ledger
from ebbtide.ledger.text import by_group, gap_lines, headline, saved_text, share_text, span
from ebbtide.report.live.charts import LiveChart, Panel, draw, height_of, stacked
from ebbtide.report.live.record import Band
from ebbtide.report.pages.figures import Figure, FigurePlan, figure_of, high
from ebbtide.report.pages.page import Tile
from ebbtide.report.pages.sheets import Sheet, SheetRow
from ebbtide.report.pages.template import rendered
from ebbtide.report.words import count, dollars, percent, several
from ebbtide.units.durations import DAY_S, ONE_DAY
from ebbtide.vocabulary.windows import zone_of


def write_page(ledger: Ledger, path: Path, billed: Billed | None = None) -> None:
    """Write the page, whole or not at all. Raises: `Unwritable`."""
    write_file(path, render_page(ledger, billed))


def render_page(ledger: Ledger, billed: Billed | None = None) -> str:
    return rendered(
        "ledger.html.j2",
        title=f"Ebbtide ledger: {ledger.customer}, {ledger.month.name}",
        verdict=headline(ledger),
        ledger=ledger,
        sources=", ".join(ledger.sources),
        tiles=_tiles(ledger),
        figure=_days(ledger) if ledger.paid else None,
        gaps=[*gap_lines(ledger)],
        sheets={
            "paid": _paid(ledger),
            "instead": _instead(ledger),
            "caused": _caused(ledger),
            **(_bill(billed) if billed else {}),
        },
        bill_notes=[*bill_notes(billed)] if billed else [],
    )


def _bill(billed: Billed) -> dict[str, Sheet]:
    lines = [SheetRow(name, [usd]) for name, usd in bill_rows(billed)]
    causes = [SheetRow(name, [usd]) for name, usd in cause_rows(billed)]
    return {
        "bill": Sheet(caption="Lines of AWS' bill", over="line", columns=["dollars"], rows=lines),
        "difference": Sheet(
            caption="The bill's nodes against the ledger", over="cause", columns=["dollars"], rows=causes
        ),
    }


def _tiles(ledger: Ledger) -> list[Tile]:
    hours = sum(row.hours for row in ledger.paid)
    idle = sum(share.usd for share in ledger.shares if share.idle)
    gap_hours = sum((gap.end - gap.begin) / timedelta(hours=1) for gap in ledger.gaps)
    known = [entry for entry in ledger.alternatives if ledger.saved(entry) is not None]
    tiles = [
        Tile(dollars(ledger.recorded_usd), "recorded", f"{count(hours)} node-hours"),
        Tile(dollars(ledger.boot_usd), "boots, estimated", several(sum(row.boots for row in ledger.paid), "boot")),
        Tile(percent(1 - gap_hours / ledger.month.hours), "of the month recorded", several(len(ledger.gaps), "gap")),
        Tile(share_text(ledger, idle), "of the dollars idle", f"{dollars(idle)}: requested by no pod"),
    ]
    return tiles + [Tile(saved_text(ledger, entry), "saved", f"against: {entry.name}") for entry in known[:1]]


def _days(ledger: Ledger) -> Figure:
    first = ledger.month.begin.astimezone(zone_of(ledger.month.zone))
    days = [first.date() + number * ONE_DAY for number in range((ledger.month.end - ledger.month.begin).days + 1)]
    days = [day for day in days if day.month == ledger.month.month]
    paid: dict[str, dict[date, float]] = {}
    for row in ledger.paid:
        by_day = paid.setdefault(row.group or "no group", {})
        if row.hours:  # a node that joined in a gap has a row for its boot
            by_day[row.day] = by_day.get(row.day, 0.0) + row.usd
    recorded = tuple(any(day in by_day for by_day in paid.values()) for day in days)
    band = Band(
        values={
            group: tuple(by_day.get(day, 0.0) if there else None for day, there in zip(days, recorded, strict=True))
            for group, by_day in paid.items()
        },
        recorded=recorded,
    )
    painted, shown = stacked(band)
    chart = LiveChart(
        title="Dollars of each day by group",
        start=datetime.combine(days[0], datetime.min.time(), tzinfo=first.tzinfo),
        step=DAY_S,
        open_spans=(),
        recorded=recorded,
        panels=[Panel(unit="US dollars a day", curves=painted, money=True, integers=False)],
        shown=shown,
    )
    plan = FigurePlan(
        heading="Dollars of each day",
        note="By group, as recorded: without boots, and without what may have run in a gap.",
        draw=partial(draw, chart),
        height=high(height_of(chart)),
    )
    return figure_of("days", plan, _day_sheet(paid, days))


def _day_sheet(paid: Mapping[str, Mapping[date, float]], days: list[date]) -> Sheet:
    def row(name: str, *some: date) -> SheetRow:
        usd = [sum(by_day.get(day, 0.0) for day in some) for by_day in paid.values()]
        return SheetRow(name, [*map(dollars, usd), dollars(sum(usd))])

    return Sheet(
        caption="Dollars of each day by group",
        over="day",
        columns=[*paid, "total"],
        rows=[row(f"{day:%a} {day}", day) for day in days],
        total=row("total", *days),
    )


def _paid(ledger: Ledger) -> Sheet:
    groups = by_group(ledger.paid)
    spot = {
        group: sum(row.hours for row in ledger.paid if row.group == group and row.capacity_type == SPOT)
        for group in groups
    }
    lines = {"assumed plan": dollars(ledger.plan_usd)} if ledger.plan_usd else {}
    for gap in ledger.gaps:
        lines[f"gap {gap.begin:%m-%d %H:%M} to {gap.end:%m-%d %H:%M} UTC"] = span(gap.low_usd, gap.high_usd)
    return Sheet(
        caption="By group, at the prices below",
        over="group",
        columns=["node-hours", "on spot", "dollars", "boots", "boots, estimated"],
        rows=[
            *(
                SheetRow(
                    group or "no group",
                    [count(row.hours), count(spot[group]), dollars(row.usd), count(row.boots), dollars(row.boot_usd)],
                )
                for group, row in groups.items()
            ),
            *(SheetRow(name, ["", "", usd, "", ""]) for name, usd in lines.items()),
        ],
        total=SheetRow(
            "total",
            [
                count(sum(row.hours for row in ledger.paid)),
                count(sum(spot.values())),
                span(ledger.low_usd - ledger.boot_usd, ledger.high_usd - ledger.boot_usd),
                count(sum(row.boots for row in ledger.paid)),
                dollars(ledger.boot_usd),
            ],
        ),
    )


def _instead(ledger: Ledger) -> Sheet:
    return Sheet(
        caption="The same month with another fleet",
        over="fleet",
        columns=["dollars", "saved"],
        rows=[
            SheetRow(entry.name, [span(entry.low_usd, entry.high_usd), saved_text(ledger, entry)])
            for entry in ledger.alternatives
        ],
    )


def _caused(ledger: Ledger) -> Sheet:
    return Sheet(
        caption="Recorded dollars by requests",
        over="caused by",
        columns=["group", "category", "dollars", "share"],
        rows=[
            SheetRow(
                share.workload,
                [share.group or "no group", share.category, dollars(share.usd), share_text(ledger, share.usd)],
            )
            for share in ledger.shares
        ],
    )
