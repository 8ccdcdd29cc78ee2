"""Which floor of a service pays, by its history: the backtest's verdict, and the line of the stack file that follows.

In this order: the forecast, where it beats both others; the calendar's floor, where it keeps enough and costs less than
constant headroom; constant headroom, as lower targets, where it keeps enough; else none, with what was missed.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ebbtide.settings.model import StackSettings
from ebbtide.simulator.services.backtest import Backtest, TooLittle, Way
from ebbtide.simulator.services.replay import ServiceOptions, service_course
from ebbtide.simulator.setup import ReplayError
from ebbtide.simulator.trace.counted import RequestTrace

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
    start: str  # ISO: where the trace's second 0 was put
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
        """For the service's `scale`, or what to do instead."""
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
    """Raises `ReplayError`."""
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
    """Plain values; `equal` are the rivals with hindsight, null where no number keeps enough."""
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
        "tuned": {way.value: asdict(it) for way, it in tested.tuned.items()},
        "equal": {way.value: None if it is None else asdict(it) for way, it in tested.equal.items()},
    }
