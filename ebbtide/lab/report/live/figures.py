"""The charts of the page in their order, each with its table; or the reason that it is missing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ebbtide.lab.report.charts.panel import Panel
from ebbtide.lab.report.charts.scales import local_days, local_label
from ebbtide.lab.report.live.charts import LiveChart, Series, chart_of, hover, live_chart, panel_of, stacked, value_text
from ebbtide.lab.report.live.record import Band, Part, Record, ResourceSeries, mean
from ebbtide.lab.report.pages.figures import Figure, FigurePlan, figure_of
from ebbtide.monitoring.client import UnknownAnswer
from ebbtide.text.counts import percent
from ebbtide.text.durations import HOUR_S
from ebbtide.text.sheet import Sheet, Unit, left, right

_HOURS = 49  # rows of a table by the hour; longer tables are by the day


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFigure:
    """A figure, or in `why` the reasons that it is missing."""

    name: str
    heading: str
    figure: Figure | None
    why: Sequence[str] = ()
    covers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    name: str
    heading: str
    note: str


def live_figures(record: Record) -> Iterator[LiveFigure]:
    yield _stack(
        record, Plan(name="nodes", heading="Nodes by group", note="The number of nodes."), record.nodes, "nodes"
    )
    yield _workers(record)
    for name, heading, unit, resource in (
        ("cpu", "CPU", "cores", record.cpu),
        ("memory", "Memory", "GiB", record.memory),
        ("gpus", "GPUs", "GPUs", record.gpus),
    ):
        if resource is not None:
            yield _resource(record, name, heading, unit, resource)
    money = Plan(name="dollars", heading="Dollars an hour", note="List prices of the existing nodes, by group.")
    yield _stack(record, money, record.dollars, "US dollars an hour", money=True)
    waits = Plan(
        name="waits",
        heading="Waits",
        note="By pool: how long the head of its queue had waited, the 95th percentile of the hour before.",
    )
    yield _lines(record, waits, record.waits, "minutes", scale=1 / 60)
    budgets = Plan(name="budgets", heading="Budgets open", note="Workloads whose pods may be moved, by reason.")
    yield _stack(record, budgets, record.budgets, "budgets")
    evictions = Plan(name="evictions", heading="Evictions", note="In the hour before each instant, by workload.")
    yield _stack(record, evictions, record.evictions, "evictions in an hour")
    unremovable = Plan(
        name="unremovable",
        heading="Nodes that cannot be removed",
        note="As the cluster autoscaler counts them, by its reason.",
    )
    yield _stack(record, unremovable, record.unremovable, "nodes")


def _missing(plan: Plan, why: str) -> LiveFigure:
    return LiveFigure(name=plan.name, heading=plan.heading, figure=None, why=[why])


def drawn(plan: Plan, chart: LiveChart, why: Sequence[str] = ()) -> LiveFigure:
    figure_plan = FigurePlan(
        heading=plan.heading,
        note=f"{plan.note} Not recorded: {'; '.join(why)}." if why else plan.note,
        chart=lambda view: live_chart(chart, view),
    )
    figure = figure_of(plan.name, figure_plan, _sheet(plan.heading, chart), hover(chart).document())
    share = sum(chart.recorded) / len(chart.recorded)
    recorded = "all of it recorded" if share == 1 else f"{percent(share)} of it recorded"
    return LiveFigure(
        name=plan.name, heading=plan.heading, figure=figure, covers=f"{length(chart.horizon)}, {recorded}"
    )


def length(seconds: float) -> str:
    hours = seconds / HOUR_S
    return f"{hours:.0f} h" if hours >= 2 else f"{seconds / 60:.0f} min"


def _stack(record: Record, plan: Plan, part: Part, unit: str, *, money: bool = False) -> LiveFigure:
    if isinstance(part, UnknownAnswer):
        return _missing(plan, part.why)
    painted, shown = stacked(part)
    panel = panel_of(unit, painted, record.step, money=money, integers=not money)
    return drawn(plan, replace(chart_of(record, plan.heading, part.recorded, [panel], shown), money=money))


def _lines(record: Record, plan: Plan, part: Part, unit: str, *, scale: float) -> LiveFigure:
    if isinstance(part, UnknownAnswer):
        return _missing(plan, part.why)
    scaled = Band(
        values={
            name: tuple(None if value is None else value * scale for value in values)
            for name, values in part.values.items()
        },
        recorded=part.recorded,
    )
    _, shown = stacked(scaled)
    lines = [Series(curve.name, curve.ink, curve.values, is_line=True) for curve in shown]
    panel = panel_of(unit, lines, record.step, integers=False)
    return drawn(plan, chart_of(record, plan.heading, part.recorded, [panel], shown))


def _workers(record: Record) -> LiveFigure:
    """Workers above, their queue below."""
    plan = Plan(
        name="workers",
        heading="Workers and queue",
        note="Running and wanted workers, and the jobs of all pools.",
    )
    why = [
        f"{name}: {part.why}"
        for name, part in (("workers", record.workers), ("jobs", record.jobs))
        if isinstance(part, UnknownAnswer)
    ]
    panels: list[Panel] = []
    shown: list[Series] = []
    bands = [part for part in (record.workers, record.jobs) if isinstance(part, Band)]
    if not bands:
        return LiveFigure(name=plan.name, heading=plan.heading, figure=None, why=why)
    if isinstance(record.workers, Band):
        running = Series("workers running", "g1", record.workers.values.get("running", ()))
        desired = Series("workers wanted", "g3", record.workers.values.get("wanted", ()), is_line=True)
        panels.append(panel_of("workers", [running, desired], record.step))
        shown += [running, desired]
    if isinstance(record.jobs, Band):
        jobs = [
            Series(f"jobs {part.replace('_', ' ')}", ink, record.jobs.values[part])
            for part, ink in (("running", "g5"), ("waiting", "g6"))
            if part in record.jobs.values
        ]
        both = Band(values={curve.name: curve.values for curve in jobs}, recorded=record.jobs.recorded).total
        painted = [Series(jobs[-1].name, jobs[-1].ink, both), *jobs[:1]] if len(jobs) > 1 else jobs
        panels.append(panel_of("jobs", painted, record.step))
        shown += jobs
    recorded = tuple(any(in_step) for in_step in zip(*(band.recorded for band in bands), strict=True))
    chart = chart_of(record, plan.heading, recorded, panels, shown)
    return drawn(plan, chart, why)


_OF_A_RESOURCE: Mapping[str, tuple[str, bool]] = {
    "paid for": ("k0", False),
    "requested": ("g1", False),
    "used": ("g2", True),
}


def _resource(record: Record, name: str, heading: str, unit: str, resource: ResourceSeries) -> LiveFigure:
    plan = Plan(
        name=name,
        heading=f"{heading}: used, requested, paid for",
        note=f"Paid for: {unit} of all nodes. Requested: by the pods on them; requests keep nodes. Used: by those "
        "pods.",
    )
    parts: Mapping[str, Part] = {
        "paid for": resource.paid,
        "requested": resource.requested,
        "used": resource.used,
    }
    why = [f"{kind}: {part.why}" for kind, part in parts.items() if isinstance(part, UnknownAnswer)]
    bands = {kind: part for kind, part in parts.items() if isinstance(part, Band)}
    if not bands:
        return LiveFigure(name=plan.name, heading=plan.heading, figure=None, why=why)
    curves = [
        Series(kind, ink, bands[kind].total, is_line=is_line)
        for kind, (ink, is_line) in _OF_A_RESOURCE.items()
        if kind in bands
    ]
    recorded = tuple(any(in_step) for in_step in zip(*(band.recorded for band in bands.values()), strict=True))
    panel = panel_of(unit, curves, record.step, integers=False)
    return drawn(plan, chart_of(record, plan.heading, recorded, [panel], curves), why)


def _sheet(heading: str, chart: LiveChart) -> Sheet:
    """Means of each hour, or of each local day of a longer time."""
    by_hour = chart.horizon <= _HOURS * HOUR_S
    if by_hour:
        spans = [(place * HOUR_S, (place + 1) * HOUR_S) for place in range(-int(-chart.horizon // HOUR_S))]
        names = [local_label(chart.start, begin) for begin, _ in spans]
    else:
        days = local_days(chart.start, chart.horizon)
        spans, names = [(day.begin, day.end) for day in days], [f"{day.weekday} {day.date}" for day in days]
    amount = Unit("", partial(value_text, money=chart.money))
    columns = [curve.values for curve in chart.shown]

    def means(begin: float, end: float) -> list[float | None]:
        first, last = round(begin / chart.step), max(round(begin / chart.step) + 1, round(end / chart.step))
        return [mean(values[first:last]) for values in columns]

    return Sheet(
        caption=f"{heading}: the mean of each {'hour' if by_hour else 'local day'}",
        columns=[*left("from" if by_hour else "day"), *right(*(curve.name for curve in chart.shown), unit=amount)],
        rows=[(name, *means(*span)) for name, span in zip(names, spans, strict=True)],
    )
