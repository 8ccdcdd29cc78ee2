"""Choose the floor of a service by its history: the backtest's verdict, and the line for the stack file.

In this order: the forecast, if it beats both others; the calendar's floor, if it keeps enough and costs less than
constant headroom; constant headroom, as lower targets, if it keeps enough; else none, with the requests missed.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ebbtide.report.words import DASH, count, dollars, duration, several
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.services.backtest import AIMED, KEPT, Backtest, Judged, TooLittle, Way
from ebbtide.simulator.services.replay import ServiceOptions, service_course
from ebbtide.simulator.setup import ReplayError
from ebbtide.simulator.trace.counted import RequestTrace
from ebbtide.units.money import HOURS_PER_MONTH

SCHEMA = 1


class FloorChoice(StrEnum):
    FORECAST = "forecast"
    CALENDAR = "calendar"
    HEADROOM = "headroom"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFloorAdvice:
    stack: str
    service: str
    trace: str
    start: str  # ISO: the instant of the trace's second 0
    lead_s: float
    pod_rate: float
    usd_per_pod_hour: float | None
    most: int
    tested: Backtest

    @property
    def choice(self) -> FloorChoice:
        tuned = self.tested.tuned
        calendar, headroom = tuned[Way.CALENDAR], tuned[Way.HEADROOM]
        if self.tested.offered:
            return FloorChoice.FORECAST
        if calendar.keeps and not (headroom.keeps and headroom.pod_hours <= calendar.pod_hours):
            return FloorChoice.CALENDAR
        return FloorChoice.HEADROOM if headroom.keeps else FloorChoice.NONE

    @property
    def line(self) -> str:
        """Line for the service's `scale`, or what to do instead."""
        tuned = self.tested.tuned
        match self.choice:
            case FloorChoice.FORECAST:
                return f"floor: forecast, margin: {tuned[Way.FORECAST].number:g}"
            case FloorChoice.CALENDAR:
                return f"floor: calendar, open: {tuned[Way.CALENDAR].number:.0f}"
            case FloorChoice.HEADROOM:
                share = tuned[Way.HEADROOM].number
                return f"no floor, but targets divided by {1 + share:.2f}: constant headroom of {share:.0%}"
            case FloorChoice.NONE:
                return "no floor: none of them keeps enough on this load; a higher min or max may"


def service_floor_advice(
    settings: StackSettings, name: str, trace: RequestTrace, options: ServiceOptions
) -> ServiceFloorAdvice:
    """Run the backtest. Raises `ReplayError`."""
    course = service_course(settings, name, trace, options)
    service = course.service
    if not service.metrics:
        raise ReplayError(
            f"{settings.stack}, services.{name}: wanted a service that grows, found {service.most} pods always "
            "(for example scale: { metrics: { inFlight: 3 }, min: 1, max: 12 })"
        )
    try:
        tested = course.backtest()
    except TooLittle as error:
        raise ReplayError(str(error)) from error
    return ServiceFloorAdvice(
        stack=settings.stack,
        service=service.name,
        trace=trace.name,
        start=course.start.isoformat(),
        lead_s=service.lead_s,
        pod_rate=service.pod_rate,
        usd_per_pod_hour=service.usd_per_pod_hour,
        most=service.most,
        tested=tested,
    )


def as_json(advice: ServiceFloorAdvice) -> dict[str, Any]:
    """Return plain values; `equal` are the rivals with hindsight, null if no number keeps enough."""
    tested = advice.tested
    return {
        "schema": SCHEMA,
        "stack": advice.stack,
        "service": advice.service,
        "trace": advice.trace,
        "start": advice.start,
        "lead_s": advice.lead_s,
        "pod_rate": advice.pod_rate,
        "usd_per_pod_hour": advice.usd_per_pod_hour,
        "days": {"tuned": tested.days[0], "judged": tested.days[1]},
        "choice": advice.choice.value,
        "line": advice.line,
        "offered": tested.offered,
        "reason": tested.reason,
        "tuned": {way.value: asdict(judged) for way, judged in tested.tuned.items()},
        "equal": {way.value: None if judged is None else asdict(judged) for way, judged in tested.equal.items()},
    }


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
    for way, result in tested.tuned.items():
        yield _row(advice, way.value, way, result)
    yield ""
    yield f"{f'for {KEPT:.1%}, in hindsight':<28}"
    for way, result in tested.equal.items():
        yield f"{way.value:<20}{'none does':>16}" if result is None else _row(advice, way.value, way, result)
    yield ""
    yield (
        f"Requests, minutes: the share within capacity, at {advice.pod_rate:.3g} requests a second for each pod and at "
        f"most {advice.most} pods."
    )
    yield "Minutes are interpolated where the trace counts by longer windows, which flatters all of them."
    yield "In all of them the autoscaler adds pods as usual. Dollars are the pods' shares of their nodes, on demand."


def _row(advice: ServiceFloorAdvice, name: str, way: Way, result: Judged) -> str:
    usd = advice.usd_per_pod_hour
    month = DASH if usd is None else dollars(result.pod_hours / (24 * advice.tested.days[1]) * HOURS_PER_MONTH * usd)
    return (
        f"{name:<20}{_number(way, result.number):>16}{result.kept_requests:>10.2%}{result.kept_minutes:>9.2%}"
        f"{count(result.pod_hours):>11}{month:>10}"
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
