"""Advice about the floor of a service, for a terminal."""

from collections.abc import Iterator

from ebbtide.advice.services.floors import ServiceFloorAdvice
from ebbtide.report.words import DASH, count, dollars, duration, several
from ebbtide.simulator.services.backtest import AIMED, KEPT, Judged, Way
from ebbtide.units.money import HOURS_PER_MONTH


def as_text(advice: ServiceFloorAdvice) -> str:
    return "\n".join(_lines(advice))


def _lines(advice: ServiceFloorAdvice) -> Iterator[str]:
    tested = advice.tested
    tuned, judged = tested.days
    yield f"{advice.service} of {advice.stack} on {advice.trace}"
    yield (
        f"Tuned on {several(tuned, 'day')} so that {AIMED:.1%} of the requests find capacity, judged on the {judged} "
        f"after; a pod is there {duration(advice.lead_s)} after it is asked for."
    )
    yield ""
    yield tested.reason
    yield f"# {advice.service}, scale:"
    yield f"  {advice.line}"
    yield ""
    yield f"{'on the last week':<20}{'tuned to':>16}{'requests':>10}{'minutes':>9}{'pod-hours':>11}{'a month':>10}"
    for way, it in tested.tuned.items():
        yield _row(advice, way.value, way, it)
    yield ""
    yield f"{f'for {KEPT:.1%}, in hindsight':<28}"
    for way, it in tested.equal.items():
        yield f"{way.value:<20}{'none does':>16}" if it is None else _row(advice, way.value, way, it)
    yield ""
    yield (
        f"Requests, minutes: the share within capacity, at {advice.pod_rate:.3g} requests a second for each pod and at "
        f"most {advice.most} pods."
    )
    yield "Minutes are interpolated where the trace counts by longer windows, which flatters all of them."
    yield "All stand on what the autoscaler does anyway. Dollars are the pods' shares of their nodes, on demand."


def _row(advice: ServiceFloorAdvice, name: str, way: Way, it: Judged) -> str:
    usd = advice.usd_per_pod_hour
    month = DASH if usd is None else dollars(it.pod_hours / (24 * advice.tested.days[1]) * HOURS_PER_MONTH * usd)
    return (
        f"{name:<20}{_number(way, it.number):>16}{it.kept_requests:>10.2%}{it.kept_minutes:>9.2%}"
        f"{count(it.pod_hours):>11}{month:>10}"
    )


def _number(way: Way, number: float) -> str:
    match way:
        case Way.FORECAST:
            return f"margin {number:.2f}"
        case Way.CALENDAR:
            return f"{number:.0f} when open"
        case Way.HEADROOM:
            return f"{number:.0%} more"
        case Way.REACTIVE:
            return DASH
