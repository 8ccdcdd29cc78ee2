"""The page of a replayed service: its strategies side by side, and a chart of one day under three of them."""

from collections.abc import Sequence
from pathlib import Path

from ebbtide.lab.report.charts.services import ServedDay, days_of, served_day, service_day_chart
from ebbtide.lab.report.pages.figures import Figure, FigurePlan, figure_of
from ebbtide.lab.report.pages.page import Tile
from ebbtide.lab.report.pages.services import day_hover, day_sheet, scope_line, strategies_sheet, verdict
from ebbtide.lab.report.pages.template import rendered
from ebbtide.lab.simulator.services.results import ServiceReplay
from ebbtide.text.counts import count, several
from ebbtide.text.durations import duration, latency
from ebbtide.text.files import write_file
from ebbtide.text.sheet import Sheet

COMPARED = (
    "Beyond the SLO: answered later than its p95, or not at all; those lost and turned away (429) are among them."
)


def write_service_report(
    replay: ServiceReplay, path: Path, command: str, *, day: int | None = None, load: Sheet | None = None
) -> None:
    """Write the page atomically. `command` repeats the replay. Raises: `NoSuchDay`, `Unwritable`."""
    write_file(path, render_service(replay, command, day=day, load=load))


def render_service(replay: ServiceReplay, command: str, *, day: int | None = None, load: Sheet | None = None) -> str:
    """Raises: `NoSuchDay`."""
    shown = served_day(replay, day)
    return rendered(
        "service.html.j2",
        title=f"Ebbtide replay: {replay.service} of {replay.stack} on {replay.trace}",
        verdict=verdict(replay),
        scope=scope_line(replay),
        tiles=_tiles(replay),
        load=load,
        strategies=strategies_sheet(replay),
        compared_note=COMPARED,
        left_out=replay.left_out,
        figures=_figures(shown, chosen=day is not None),
        covers=f"1 of {several(len(days_of(replay.start, replay.begin_s, replay.end_s)), 'local day')}",
        assumptions=replay.assumptions,
        command=command,
        seed=replay.seed,
        seconds=replay.replay_seconds,
    )


def _tiles(replay: ServiceReplay) -> list[Tile]:
    some = next(iter(replay.strategies.values())).result
    return [
        Tile(f"{replay.mean_rate:.3g}", "requests a second", "mean of the trace"),
        Tile(f"{replay.busiest_rate:.3g}", "in the busiest window", "requests a second"),
        Tile(count(some.sent), "requests replayed", duration(replay.end_s - replay.begin_s)),
        Tile(latency(replay.slo_s), "SLO", "95 of 100 requests within"),
    ]


def _figures(day: ServedDay, *, chosen: bool) -> Sequence[Figure]:
    if not day.rate:
        return []

    which = "" if chosen else ", the whole day with the most requests"
    plan = FigurePlan(
        heading="One day, minute by minute",
        note=f"{day.day.weekday} {day.day.date}{which}. Pods by the minute; requests and p95 latency by five. All pods "
        "share one scale; all latencies share a logarithmic one.",
        chart=lambda view: service_day_chart(day, view),
    )
    return [figure_of("day", plan, day_sheet(day), day_hover(day).document())]
