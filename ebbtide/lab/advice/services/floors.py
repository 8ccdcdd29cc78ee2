"""Choose the floor of a service by its history: the backtest's verdict, and the line for the stack file.

In this order: the forecast, if it beats both others; the calendar's floor, if it keeps enough and costs less than
constant headroom; constant headroom, as lower targets, if it keeps enough; else none, with the requests missed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rich.console import Group

from ebbtide.lab.simulator.services.backtest import AIMED, KEPT, Backtest, Judged, TooLittle, Way
from ebbtide.lab.simulator.services.replay import ServiceOptions, service_course
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import DASH, several
from ebbtide.text.durations import duration
from ebbtide.text.money import HOURS_PER_MONTH
from ebbtide.text.records import plain_values
from ebbtide.text.sheet import DOLLARS, Cell, Sheet, exact_share, left, right
from ebbtide.text.terminal import laid_out

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
                return "no floor: none keeps enough requests within capacity on this load; a higher min or max may"


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
    """Return plain values; `equal` are the other ways, tuned in hindsight; null if no number keeps enough."""
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
        "tuned": plain_values(tested.tuned),
        "equal": plain_values(tested.equal),
    }


def as_text(advice: ServiceFloorAdvice) -> Group:
    return laid_out(_parts(advice))


def _parts(advice: ServiceFloorAdvice) -> Iterator[str | Sheet]:
    tested = advice.tested
    tuned, judged = tested.days
    yield f"{advice.service} of {advice.stack} on {advice.trace}"
    yield (
        f"Tuned on {several(tuned, 'day')} so that {AIMED:.1%} of the requests find capacity, judged on the {judged} "
        f"after; a pod is ready {duration(advice.lead_s)} after it is requested."
    )
    yield ""
    yield tested.reason
    yield f"# {advice.service}, scale:"
    yield f"  {advice.line}"
    yield ""
    rows = [_row(advice, way, result) for way, result in tested.tuned.items()]
    rows += [("", *_NONE), (f"for {KEPT:.1%}, in hindsight", *_NONE)]
    rows += [
        (way.value, "none does", *_NONE[1:]) if result is None else _row(advice, way, result)
        for way, result in tested.equal.items()
    ]
    yield Sheet(columns=_COLUMNS, rows=rows)
    yield ""
    yield (
        f"Requests, minutes: the share within capacity, at {advice.pod_rate:.3g} requests a second for each pod and at "
        f"most {advice.most} pods."
    )
    yield "Minutes are interpolated where the trace has longer windows, which flatters every way."
    yield "In every way the autoscaler adds pods as usual. Dollars are the pods' shares of their nodes, on demand."


_COLUMNS = (
    *left("on the last week"),
    *right("tuned to"),
    *right("requests", "minutes", unit=exact_share(2)),
    *right("pod-hours"),
    *right("a month", unit=DOLLARS),
)
_NONE = ("",) * (len(_COLUMNS) - 1)


def _row(advice: ServiceFloorAdvice, way: Way, result: Judged) -> tuple[Cell, ...]:
    usd = advice.usd_per_pod_hour
    month = None if usd is None else result.pod_hours / (24 * advice.tested.days[1]) * HOURS_PER_MONTH * usd
    number = _number(way, result.number)
    return (way.value, number, result.kept_requests, result.kept_minutes, result.pod_hours, month)


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
