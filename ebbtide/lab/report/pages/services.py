"""A replayed service as a terminal table of 80 columns, sentences, sheets of figures and values for the crosshair."""

from collections.abc import Iterator, Sequence

from ebbtide.lab.report.charts.hover import Hover, HoverRow, middles
from ebbtide.lab.report.charts.scales import local_label
from ebbtide.lab.report.charts.services import STEP_S, PodsOfDay, ServedDay, pictured
from ebbtide.lab.simulator.services.results import STEP_MINUTES, ServiceReplay, ServiceResult
from ebbtide.text.counts import DASH, count, known
from ebbtide.text.durations import DAY_S, HOUR_S, latency
from ebbtide.text.money import dollars
from ebbtide.text.sheet import DOLLARS, LATENCY, Cell, Sheet, left, right

_TABLE_HEADINGS = ("strategy", "pod-hours", "dollars", "p50", "p95", "p99", "beyond", "lost", "pods")
_WIDTHS = (18, 10, 8, 7, 7, 7, 8, 8, 7)  # 80 in all


def service_table(replay: ServiceReplay, *, assumptions: bool) -> str:
    return "\n".join((*_lines(replay), *(("", *replay.assumptions) if assumptions else ())))


def _lines(replay: ServiceReplay) -> Iterator[str]:
    days = (replay.end_s - replay.begin_s) / DAY_S
    yield f"{replay.service} of {replay.stack} on {replay.trace}: {days:.3g} days, seed {replay.seed}"
    yield (
        f"{replay.mean_rate:.3g} requests a second on average, {replay.busiest_rate:.3g} in the busiest window; "
        f"SLO: p95 within {latency(replay.slo_s)}"
    )
    yield ""
    yield _table_row(_TABLE_HEADINGS)
    for name, played in replay.strategies.items():
        yield _table_row(_table_cells(name, played.result))
    yield ""
    yield "Beyond the SLO: answered later than its p95, or not at all; those turned away (429) are among them."
    for name, why in replay.left_out.items():
        yield f"{name} is left out: {why}."


def _table_cells(name: str, result: ServiceResult) -> tuple[str, ...]:
    return (
        name,
        count(result.pod_hours),
        known(result.usd, dollars),
        latency(result.p50_s),
        latency(result.p95_s),
        latency(result.p99_s),
        f"{result.beyond_slo:.3%}",
        count(result.lost),
        f"{result.least_pods}{DASH}{result.most_pods}",
    )


def _table_row(cells: tuple[str, ...]) -> str:
    first, *others = cells
    return first.ljust(_WIDTHS[0]) + "".join(cell.rjust(wide) for cell, wide in zip(others, _WIDTHS[1:], strict=True))


def verdict(replay: ServiceReplay) -> str:
    """One sentence: what the strategies that are drawn cost, and what they leave beyond the SLO."""
    clauses: list[str] = []
    for name in pictured(replay):
        result = replay.strategies[name].result
        hours, beyond = count(result.pod_hours), f"{100 * result.beyond_slo:.2f} %"
        if not clauses:
            hours, beyond = f"{hours} pod-hours", f"{beyond} of its requests beyond the SLO"
        clauses.append(f"{hours} with {beyond} under {name}")
    return f"{replay.service} takes {', '.join(clauses)}"


def scope_line(replay: ServiceReplay) -> str:
    days = (replay.end_s - replay.begin_s) / DAY_S
    return (
        f"{days:.3g} days of {replay.trace}, whose second 0 is {replay.start:%a} {replay.start.day} "
        f"{replay.start:%b %H:%M}, seed {replay.seed}"
    )


_HOUR_STEPS = round(HOUR_S / STEP_S)


def strategies_sheet(replay: ServiceReplay) -> Sheet:
    return Sheet(
        caption="Pods, latency and losses",
        columns=[
            *left("strategy"),
            *right("pod-hours"),
            *right("dollars", unit=DOLLARS),
            *right("p50", "p95", "p99", unit=LATENCY),
            *right("beyond the SLO", "lost", "turned away", "pods"),
        ],
        rows=[(name, *_cells(played.result)) for name, played in replay.strategies.items()],
    )


def _cells(result: ServiceResult) -> list[Cell]:
    return [
        result.pod_hours,
        result.usd,
        result.p50_s,
        result.p95_s,
        result.p99_s,
        f"{result.beyond_slo:.3%}",
        result.lost,
        result.turned_away,
        f"{result.least_pods}{DASH}{result.most_pods}",
    ]


def day_sheet(day: ServedDay) -> Sheet:
    """Each hour: the highest floor, pods and p95, and sums of the others."""
    columns = [*left("hour from"), *right("requests a second")]
    for name in day.strategies:
        figures = ("floor", "pods asked for", "pod-hours", "highest p95", "lost")
        columns += right(*(f"{name}: {figure}" for figure in figures))
    steps = range(0, len(day.rate), _HOUR_STEPS)
    hours = [(step, min(len(day.rate), step + _HOUR_STEPS)) for step in steps]
    total = [_mean(day.rate)]
    for pods in day.strategies.values():
        total += [str(max(pods.floor)), str(max(pods.asked)), count(sum(pods.pod_hours)), _highest(pods.p95_s)]
        total.append(count(sum(pods.unanswered)))
    return Sheet(
        caption=f"Each hour of {day.day.weekday} {day.day.date}: requests a second, and for each strategy its highest "
        "floor, most pods asked for, pod-hours, highest p95 of five minutes, and requests lost or turned away",
        columns=columns,
        rows=[
            (local_label(day.start, begin * STEP_S).rpartition(" ")[2], *_hour(day, begin, end)) for begin, end in hours
        ],
        total=("whole day", *total),
    )


def _hour(day: ServedDay, begin: int, end: int) -> Iterator[str]:
    minutes = slice(begin * STEP_MINUTES, end * STEP_MINUTES)
    yield _mean(day.rate[begin:end])
    for pods in day.strategies.values():
        yield str(max(pods.floor[minutes]))
        yield str(max(pods.asked[minutes]))
        yield f"{sum(pods.pod_hours[minutes]):.1f}"
        yield _highest(pods.p95_s[begin:end])
        yield count(sum(pods.unanswered[begin:end]))


def _mean(rates: Sequence[float | None]) -> str:
    measured = [rate for rate in rates if rate is not None]
    return f"{sum(measured) / len(measured):.3g}" if measured else DASH


def _highest(p95s: Sequence[float | None]) -> str:
    return latency(max(measured)) if (measured := [p95 for p95 in p95s if p95 is not None]) else DASH


def day_hover(day: ServedDay) -> Hover:
    """Values at the end of each five minutes."""
    rows = [HoverRow("requests a second", "g1", [DASH if rate is None else f"{rate:.3g}" for rate in day.rate])]
    for name, pods in day.strategies.items():
        rows += _hover_rows(name, pods)
    steps = len(day.rate)
    return Hover(middles(steps), [local_label(day.start, place * STEP_S) for place in range(steps)], rows)


def _hover_rows(name: str, pods: PodsOfDay) -> Iterator[HoverRow]:
    ends = slice(STEP_MINUTES - 1, None, STEP_MINUTES)
    both = zip(pods.ready[ends], pods.asked[ends], strict=True)
    yield HoverRow(f"{name}: floor", "g2", list(pods.floor[ends]))
    yield HoverRow(f"{name}: pods ready", "g5", [f"{ready} of {requested}" for ready, requested in both])
    yield HoverRow(f"{name}: p95", "g6", [DASH if p95 is None else latency(p95) for p95 in pods.p95_s])
