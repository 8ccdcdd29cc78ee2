"""The figures of a replayed service as rows of words, and what the crosshair over its day says."""

from collections.abc import Iterator, Sequence

from ebbtide.report.charts.hover import Hover, HoverRow
from ebbtide.report.charts.scales import local_label
from ebbtide.report.charts.served_day import MINUTE_S, STEP_S, PodsOfDay, ServedDay
from ebbtide.report.pages.sheets import Sheet, SheetRow
from ebbtide.report.words import DASH, count, dollars, latency
from ebbtide.simulator.services.results import STEP_MINUTES, ServiceReplay, ServiceResult
from ebbtide.units.durations import HOUR_S

_FINE = 10_000  # places of the crosshair are whole ten-thousandths of the plot's width
_HOUR_STEPS = round(HOUR_S / STEP_S)
_HOUR_MINUTES = round(HOUR_S / MINUTE_S)


def strategies_sheet(replay: ServiceReplay) -> Sheet:
    return Sheet(
        caption="Pods, latency and losses",
        over="strategy",
        columns=["pod-hours", "dollars", "p50", "p95", "p99", "beyond the SLO", "lost", "turned away", "pods"],
        rows=[SheetRow(name, _cells(played.result)) for name, played in replay.strategies.items()],
    )


def _cells(its: ServiceResult) -> list[str]:
    return [
        count(its.pod_hours),
        DASH if its.usd is None else dollars(its.usd),
        *(latency(value) for value in (its.p50_s, its.p95_s, its.p99_s)),
        f"{its.beyond_slo:.3%}",
        count(its.lost),
        count(its.turned_away),
        f"{its.least_pods}{DASH}{its.most_pods}",
    ]


def day_sheet(day: ServedDay) -> Sheet:
    """Each hour: the highest of floor, pods and p95, sums of the others."""
    columns = ["requests a second"]
    for name in day.strategies:
        columns += [f"{name}: {what}" for what in ("floor", "pods asked for", "pod-hours", "highest p95", "lost")]
    steps = range(0, len(day.rate), _HOUR_STEPS)
    hours = [(step, min(len(day.rate), step + _HOUR_STEPS)) for step in steps]
    total = [_mean(day.rate)]
    for its in day.strategies.values():
        total += [str(max(its.floor)), str(max(its.asked)), count(sum(its.pod_hours)), _highest(its.p95_s)]
        total.append(count(sum(its.unanswered)))
    return Sheet(
        caption=f"Each hour of {day.day.weekday} {day.day.date}: requests a second, and for each strategy its highest "
        "floor, most pods asked for, pod-hours, highest p95 of five minutes, and requests lost or turned away",
        over="hour from",
        columns=columns,
        rows=[
            SheetRow(local_label(day.start, begin * STEP_S).rpartition(" ")[2], [*_hour(day, begin, end)])
            for begin, end in hours
        ],
        total=SheetRow("whole day", total),
    )


def _hour(day: ServedDay, begin: int, end: int) -> Iterator[str]:
    minutes = slice(begin * STEP_MINUTES, end * STEP_MINUTES)
    yield _mean(day.rate[begin:end])
    for its in day.strategies.values():
        yield str(max(its.floor[minutes]))
        yield str(max(its.asked[minutes]))
        yield f"{sum(its.pod_hours[minutes]):.1f}"
        yield _highest(its.p95_s[begin:end])
        yield count(sum(its.unanswered[begin:end]))


def _mean(rates: Sequence[float | None]) -> str:
    known = [rate for rate in rates if rate is not None]
    return f"{sum(known) / len(known):.3g}" if known else DASH


def _highest(p95s: Sequence[float | None]) -> str:
    return latency(max(known)) if (known := [p95 for p95 in p95s if p95 is not None]) else DASH


def day_hover(day: ServedDay) -> Hover:
    """At each five minutes, as they end."""
    places = [round((place + 0.5) / len(day.rate) * _FINE) for place in range(len(day.rate))]
    rows = [HoverRow("requests a second", "g1", [DASH if rate is None else f"{rate:.3g}" for rate in day.rate])]
    for name, its in day.strategies.items():
        rows += _hover_rows(name, its)
    return Hover(places, [local_label(day.start, place * STEP_S) for place in range(len(day.rate))], rows)


def _hover_rows(name: str, its: PodsOfDay) -> Iterator[HoverRow]:
    ends = slice(STEP_MINUTES - 1, None, STEP_MINUTES)
    both = zip(its.ready[ends], its.asked[ends], strict=True)
    yield HoverRow(f"{name}: floor", "g2", list(its.floor[ends]))
    yield HoverRow(f"{name}: pods ready", "g5", [f"{ready} of {asked}" for ready, asked in both])
    yield HoverRow(f"{name}: p95", "g6", [DASH if p95 is None else latency(p95) for p95 in its.p95_s])
