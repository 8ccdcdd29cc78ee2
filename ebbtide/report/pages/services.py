"""The ways to have pods for a service side by side, for a terminal of 80 columns."""

from collections.abc import Iterator

from ebbtide.report.words import DASH, count, dollars, latency
from ebbtide.simulator.services.results import ServiceReplay, ServiceResult
from ebbtide.units.durations import DAY_S

_HEADINGS = ("strategy", "pod-hours", "dollars", "p50", "p95", "p99", "beyond", "lost", "pods")
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
    yield _row(_HEADINGS)
    for name, played in replay.strategies.items():
        yield _row(_cells(name, played.result))
    yield ""
    yield "Beyond the SLO: answered later than its p95, or not at all; those turned away (429) are among them."
    for name, why in replay.left_out.items():
        yield f"{name} is left out: {why}."


def _cells(name: str, its: ServiceResult) -> tuple[str, ...]:
    return (
        name,
        count(its.pod_hours),
        DASH if its.usd is None else dollars(its.usd),
        latency(its.p50_s),
        latency(its.p95_s),
        latency(its.p99_s),
        f"{its.beyond_slo:.3%}",
        count(its.lost),
        f"{its.least_pods}{DASH}{its.most_pods}",
    )


def _row(cells: tuple[str, ...]) -> str:
    first, *others = cells
    return first.ljust(_WIDTHS[0]) + "".join(cell.rjust(wide) for cell, wide in zip(others, _WIDTHS[1:], strict=True))
