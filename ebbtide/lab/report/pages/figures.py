"""The charts of the page in their order, each for every width of a page, with its heading, its note and its table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ebbtide.lab.report.charts import by_strategy, hover, over_time
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.panel import Chart, ChartView
from ebbtide.lab.report.charts.scales import busiest_day, stretch_of
from ebbtide.lab.report.charts.services import LoadStep, load_step_chart
from ebbtide.lab.report.pages import sentences
from ebbtide.lab.report.pages.ray import ray_note, ray_sheet
from ebbtide.lab.report.pages.sheets import sheets
from ebbtide.lab.simulator.results import Replay
from ebbtide.text.sheet import Sheet

WIDTHS: Mapping[str, float] = {"wide": 1076.0, "narrow": 704.0, "small": 336.0}
"""Width of the drawings: the text width of a page of 1280, 800 and 400 pixels."""
_DAYS_WITH_A_ZOOM = 2  # a single day is shown closely already


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    heading: str
    note: str
    pictures: Mapping[str, Markup]  # by form: the keys of WIDTHS
    hover: Mapping[str, Any] | None  # None: the chart already shows all values as text
    sheet: Sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class FigurePlan:
    """A figure's heading, note, and its chart for any width."""

    heading: str
    note: str
    chart: Callable[[ChartView], Chart]


def figures(replay: Replay, strategy: str) -> list[Figure]:
    """Return the figures that have something to draw, in reading order."""
    data, tables = hover.documents(replay, strategy), {**sheets(replay, strategy), "ray": ray_sheet(replay)}
    return [figure_of(name, plan, tables[name], data.get(name)) for name, plan in _plans(replay, strategy).items()]


def figure_of(name: str, plan: FigurePlan, sheet: Sheet, values: Mapping[str, Any] | None = None) -> Figure:
    """Draw the plan; `values` are the crosshair's, for a chart that has one."""
    return Figure(
        name=name,
        heading=plan.heading,
        note=plan.note,
        pictures={form: Markup(_drawn(name, form, plan)) for form in WIDTHS},
        hover=values,
        sheet=sheet,
    )


def step_pictures(step: LoadStep) -> dict[str, Markup]:
    """Draw a live run's step of load, by form."""
    plan = FigurePlan(heading="", note="", chart=lambda view: load_step_chart(step, view))
    return {form: Markup(_drawn("step", form, plan)) for form in WIDTHS}


def _drawn(name: str, form: str, plan: FigurePlan) -> str:
    view = ChartView(ident=f"{name}-{form}", width=WIDTHS[form])
    return draw(plan.chart(view), view)


def _plans(replay: Replay, strategy: str) -> dict[str, FigurePlan]:
    plans = {
        "nodes": FigurePlan(
            heading="Nodes by group",
            note=sentences.nodes_line(replay, strategy),
            chart=lambda view: over_time.nodes_chart(replay, strategy, view),
        ),
        "strip": FigurePlan(
            heading="Nodes by strategy",
            note="Total nodes of each strategy, on one scale.",
            chart=lambda view: over_time.strip_chart(replay, view),
        ),
        "cost": FigurePlan(
            heading="Cost of each local day",
            note="What each strategy pays for the nodes of one calendar day.",
            chart=lambda view: by_strategy.cost_chart(replay, view),
        ),
        "waits": FigurePlan(
            heading="Waits of jobs",
            note=sentences.waits_line(replay, strategy),
            chart=lambda view: by_strategy.wait_chart(replay, view),
        ),
        "jobs": FigurePlan(
            heading="Jobs running and waiting",
            note=sentences.jobs_line(replay, strategy),
            chart=lambda view: over_time.jobs_chart(replay, strategy, view),
        ),
        "day": FigurePlan(
            heading="One day in detail",
            note=_day_note(replay, strategy),
            chart=lambda view: over_time.day_chart(replay, strategy, view),
        ),
    }
    if not by_strategy.cost_strategies(replay):
        del plans["cost"]
    if len(stretch_of(replay, strategy).days) < _DAYS_WITH_A_ZOOM:
        del plans["day"]
    return plans | _ray_plan(replay, strategy) | _retained_plan(replay, strategy)


def _ray_plan(replay: Replay, strategy: str) -> dict[str, FigurePlan]:
    if not over_time.ray_groups(replay.strategies[strategy]):
        return {}
    plan = FigurePlan(
        heading="Ray workers by group",
        note=ray_note(strategy),
        chart=lambda view: over_time.ray_chart(replay, strategy, view),
    )
    return {"ray": plan}


def _retained_plan(replay: Replay, strategy: str) -> dict[str, FigurePlan]:
    if not by_strategy.retained_reasons(replay.strategies[strategy]):
        return {}
    plan = FigurePlan(
        heading="Nodes retained in the disruption window",
        note=f"{strategy}: node-hours in the disruption window, when budgets are open, by the reason for retaining "
        "the node.",
        chart=lambda view: by_strategy.retained_chart(replay, strategy, view),
    )
    return {"kept": plan}


def _day_note(replay: Replay, strategy: str) -> str:
    day = busiest_day(stretch_of(replay, strategy))
    return f"{strategy} on {day.weekday} {day.date}, the working day with the highest peak of nodes."
