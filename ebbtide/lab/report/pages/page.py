"""One self-contained HTML file: text, charts, tables, style and a few lines of script; nothing is fetched.

Each chart is drawn for several widths of a page, and the style shows one: letters keep their size, which a scaled
picture would not give.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ebbtide.lab.report.charts.palette import FLEET
from ebbtide.lab.report.charts.services import LoadStep
from ebbtide.lab.report.measure import measure_of
from ebbtide.lab.report.pages import ceiling, sentences
from ebbtide.lab.report.pages.figures import figures, step_pictures
from ebbtide.lab.report.pages.table import comparison_sheets, strategy_rows
from ebbtide.lab.report.pages.template import rendered
from ebbtide.lab.report.words import glued
from ebbtide.lab.simulator.results import Replay, StrategyResult
from ebbtide.text.counts import count, percent, several
from ebbtide.text.durations import duration
from ebbtide.text.files import write_file


@dataclass(frozen=True, slots=True)
class Tile:
    figure: str
    label: str
    note: str


def write_report(
    replay: Replay,
    path: Path,
    *,
    live: Mapping[str, str] | None = None,
    step: LoadStep | None = None,
    title: str = "Ebbtide replay",
) -> None:
    """Write the page atomically; `live` and `step` are a live run's results. Raises: `Unwritable`."""
    write_file(path, render(replay, live=live or {}, step=step, title=title))


def render(replay: Replay, *, live: Mapping[str, str], title: str, step: LoadStep | None = None) -> str:
    strategy = sentences.main_strategy(replay)
    return rendered(
        "page.html.j2",
        title=f"{title}: {sentences.subject(replay)}",
        replay=replay,
        live=live,
        step=step_pictures(step) if step else {},
        verdict=sentences.headline(replay),
        scope=sentences.scope_line(replay),
        coverage=sentences.coverage_line(replay),
        queues=sentences.queue_line(replay),
        attainable=sentences.attainable_line(replay),
        remains=ceiling.ceiling_lines(replay),
        tiles=_tiles(replay, strategy) if strategy else [],
        figures=figures(replay, strategy) if strategy else [],
        comparisons=comparison_sheets(replay),
        marks={row.strategy: row for row in strategy_rows(replay)},
        savings=sentences.savings_line(replay),
        command=sentences.command(replay),
    )


def _tiles(replay: Replay, strategy: str) -> list[Tile]:
    result, fleet = replay.strategies[strategy], replay.strategies.get(FLEET)
    if strategy == FLEET:
        fleet = None  # nothing to compare it with but itself

    measure = measure_of([result, fleet] if fleet else [result])

    def against_fleet(figure: Callable[[StrategyResult], str]) -> str:
        return f"fixed fleet: {glued(figure(fleet))}" if fleet else ""

    return [
        Tile(
            measure.text(measure.of(result)),
            f"{strategy}, {several(replay.days, 'day')}",
            against_fleet(lambda compared: measure.text(measure.of(compared))),
        ),
        *_saving_tile(replay, strategy),
        Tile(duration(result.wait_p95_s), "p95 wait", against_fleet(lambda compared: duration(compared.wait_p95_s))),
        Tile(duration(result.wait_p50_s), "p50 wait", against_fleet(lambda compared: duration(compared.wait_p50_s))),
        Tile(count(result.jobs_interrupted), "jobs interrupted", f"of {count(result.jobs_done)} done"),
        Tile(
            count(result.evictions_in_business_hours),
            "evictions in business hours",
            f"{count(result.evictions_in_window)} in the disruption window",
        ),
    ]


def _saving_tile(replay: Replay, strategy: str) -> list[Tile]:
    saving = replay.strategies[strategy].saving_vs_fixed_fleet
    if saving is None:
        return []
    reached = sentences.reached_of(replay, strategy)
    note = "against the fixed fleet" if reached is None or reached < 0 else f"{percent(reached)} of attainable"
    return [Tile(percent(abs(saving)), "saved" if saving >= 0 else "extra cost", note)]
