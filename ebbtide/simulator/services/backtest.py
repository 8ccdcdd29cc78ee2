"""Would a forecast have paid? Three ways to be there before the rush, on minutes that they were not tuned on.

Each stands on what the autoscaler does anyway: pods for the rate a lead ago, and for the highest of the stabilization
window before that. On top of it

- the forecast: what its trigger asks for, with the margin of the stack file, never below the calendar's floor. As with
  any metric of the autoscaler the highest of the stabilization window counts;
- the calendar's floor: so many pods in business hours;
- constant headroom: so much more of everything, always.

Each has one number, and it is the smallest with which AIMED of the requests found capacity on the earlier days: a
little more than KEPT, since the days to come are not those before. Then all are judged on the last week: the share of
requests (and of minutes) that came while there were pods enough for the rate of that minute, and what that cost in
pod-hours. The rivals get hindsight: of each the cheapest number counts that keeps KEPT of that week's requests. A
forecast that is offered keeps KEPT too, and costs at least LEAST_GAIN less than both.

While counts are missing, the autoscaler holds what it has. Steps up are played where they take more than a minute, as
those of a service with `latency` do; the calendar's floor is written, and jumps.

Whatever `max` leaves out is left out for all: a minute that `max` pods cannot serve counts as kept if they are there.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.monitoring.forecast import DAYS_NEEDED
from ebbtide.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes
from ebbtide.simulator.services.floors import ClosedDay, forecast_of
from ebbtide.simulator.services.forecast import pods_of
from ebbtide.simulator.services.served import SimulatedService
from ebbtide.simulator.strategies.hpa import HpaPolicy

KEPT, AIMED = 0.995, 0.997
LEAST_GAIN = 0.01
"""Of the cost: less is luck."""
JUDGED_DAYS = 7
FEWEST_TUNED = 2
FEWEST_WHOLE_DAYS = DAYS_NEEDED + FEWEST_TUNED + JUDGED_DAYS
MARGINS = tuple(1 + step / 20 for step in range(61))  # all that a stack file may have
HEADROOMS = tuple(step / 20 for step in range(61))  # up to three times more

Calendar = Callable[[int, int], int]
"""Pods at least in a minute, where business hours have so many."""


class Way(StrEnum):
    FORECAST = "forecast-floor"
    CALENDAR = "calendar-floor"
    HEADROOM = "constant-headroom"
    REACTIVE = "hpa-only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One number of one way on some minutes."""

    number: float  # a margin, pods in business hours, or a share
    kept_requests: float
    kept_minutes: float
    pod_hours: float
    relative: float  # to the pods that were needed

    @property
    def keeps(self) -> bool:
        return self.kept_requests >= KEPT


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """`tuned` are judged on the last week with the number of the days before; `equal` are rivals with hindsight."""

    tuned: dict[Way, Judged]
    equal: dict[Way, Judged | None]  # None: no number keeps KEPT
    days: tuple[int, int]  # tuned on, judged on
    offered: bool
    reason: str  # one sentence with the figures


NOTHING_COUNTED = "a forecast is of inFlight or throughput, and the service has neither"


class TooLittle(ValueError):
    """The history is too short; the message is for the user, in one line."""


def backtest(service: SimulatedService, minutes: Minutes, calendar: Calendar, closed: ClosedDay, name: str) -> Backtest:
    """`name` is the trace's. Raises `TooLittle`."""
    days = len(minutes.rates) // DAY_MINUTES
    if days < FEWEST_WHOLE_DAYS:
        raise TooLittle(
            f"trace {name}: wanted at least {FEWEST_WHOLE_DAYS} days, to learn a shape, to tune by and a week to judge "
            f"by, found {len(minutes.rates) / DAY_MINUTES:.3g} (for example requests-servegen-m-small)"
        )
    course = _Course(service, minutes, calendar, closed)
    begin = (days - JUDGED_DAYS) * DAY_MINUTES
    earlier, week = range(DAYS_NEEDED * DAY_MINUTES, begin), range(begin, days * DAY_MINUTES)
    number = {way: course.tuned(way, earlier) for way in Way}
    tuned = {way: course.judged(way, number[way], week) for way in Way}
    equal = {way: course.cheapest(way, week) for way in (Way.CALENDAR, Way.HEADROOM)}
    offered, reason = verdict(tuned[Way.FORECAST], equal)
    if service.forecast_rate is None:
        offered, reason = False, f"Refused: {NOTHING_COUNTED}"
    return Backtest(
        tuned=tuned, equal=equal, days=(days - JUDGED_DAYS - DAYS_NEEDED, JUDGED_DAYS), offered=offered, reason=reason
    )


def verdict(forecast: Judged, rivals: dict[Way, Judged | None]) -> tuple[bool, str]:
    what = f"the forecast's floor keeps {forecast.kept_requests:.2%} of the requests within capacity"
    if not forecast.keeps:
        return False, f"Refused: {what}, and {KEPT:.1%} are wanted."
    costs = {way: None if it is None else it.pod_hours for way, it in rivals.items()}
    told = ", ".join(
        f"no {way.value} keeps {KEPT:.1%}" if cost is None else f"{way.value} takes {cost:,.0f}"
        for way, cost in costs.items()
    )
    cheaper = all(cost is None or forecast.pod_hours <= (1 - LEAST_GAIN) * cost for cost in costs.values())
    sentence = f"{what} with {forecast.pod_hours:,.0f} pod-hours; for {KEPT:.1%}, {told}."
    return cheaper, f"{'Offered' if cheaper else 'Refused'}: {sentence}"


class _Course:
    """The minutes of a service, with what each way has at hand in them."""

    def __init__(self, service: SimulatedService, minutes: Minutes, calendar: Calendar, closed: ClosedDay) -> None:
        self._service, self._rates = service, minutes.rates
        self._calendar, self._stated = calendar, service.stated_open
        lead = max(1, math.ceil(service.lead_s / MINUTE_S))
        stays = math.ceil(service.behavior.down.stabilization_s / MINUTE_S)
        known = list(held(minutes.rates))
        self._reactive = [0.0] * lead + sliding_max(known, stays + 1)[: len(known) - lead]
        forecast = forecast_of(service, minutes, closed)
        self._target_rate = forecast.pod_rate
        ahead = [forecast.at(now) or 0.0 for now in range(len(known) - lead)]
        self._forecast = [0.0] * lead + sliding_max(ahead, stays + 1)
        self._need = [service.need(rate) for rate in known]

    def tuned(self, way: Way, span: range) -> float:
        """The smallest number that keeps enough; if none does, the smallest that keeps as much as any."""
        numbers = self.numbers(way)
        goal = min(AIMED, self.judged(way, numbers[-1], span).kept_requests)
        return self._least(way, span, goal).number

    def cheapest(self, way: Way, span: range) -> Judged | None:
        """With hindsight; None: no number keeps enough."""
        found = self.judged(way, self.numbers(way)[-1], span)
        return self._least(way, span, KEPT) if found.keeps else None

    def _least(self, way: Way, span: range, kept: float) -> Judged:
        """More of a number is never fewer pods, so it is found by halving; the last number keeps as much."""
        numbers = self.numbers(way)
        low, high = 0, len(numbers) - 1
        while low < high:
            middle = (low + high) // 2
            if self.judged(way, numbers[middle], span).kept_requests >= kept:
                high = middle
            else:
                low = middle + 1
        return self.judged(way, numbers[low], span)

    def judged(self, way: Way, number: float, span: range) -> Judged:
        service, most = self._service, self._service.most
        requests = kept = minutes = kept_minutes = hours = needed = 0.0
        step = math.ceil(max(it.period_s for it in service.behavior.up.policies) / MINUTE_S)
        lately: deque[int] = deque(maxlen=step)
        for minute in span:
            rate = self._rates[minute]
            if rate is None:
                continue
            before = lately[0] if len(lately) == step > 1 else None
            pods, need = self.pods(way, number, minute, before), min(most, self._need[minute])
            lately.append(pods)
            enough = pods >= need
            requests += rate
            kept += rate * enough
            minutes += 1
            kept_minutes += enough
            hours += pods / 60
            needed += max(need, service.least) / 60
        return Judged(
            number=number,
            kept_requests=kept / requests if requests else 1.0,
            kept_minutes=kept_minutes / minutes if minutes else 1.0,
            pod_hours=hours,
            relative=hours / needed if needed else 1.0,
        )

    def pods(self, way: Way, number: float, minute: int, before: int | None = None) -> int:
        """`before`: what there was a step up ago; None: a step is over within a minute."""
        more = number if way is Way.HEADROOM else 0.0
        asked = self._service.need(self._reactive[minute] * (1 + more))
        written = 0
        if way is Way.CALENDAR:
            written = self._calendar(minute, round(number))
        elif way is Way.FORECAST:
            written = self._calendar(minute, self._stated or self._service.least)
            forecast = self._forecast[minute]
            asked = max(asked, pods_of(forecast, margin=number, pod_rate=self._target_rate, most=self._service.most))
        if before is not None:
            asked = min(asked, max(_raised(before, it) for it in self._service.behavior.up.policies))
        return self._service.within(max(asked, written))

    def numbers(self, way: Way) -> Sequence[float]:
        match way:
            case Way.FORECAST:
                return MARGINS
            case Way.CALENDAR:
                least = self._service.least if self._stated is None else self._stated
                return range(least, self._service.most + 1)
            case Way.HEADROOM:
                return HEADROOMS
            case Way.REACTIVE:
                return (0.0,)


def _raised(pods: int, by: HpaPolicy) -> int:
    return math.ceil(pods * (1 + by.percent / 100)) + by.pods


def held(rates: Sequence[float | None]) -> Iterator[float]:
    """Each rate that is not known as the last one that was."""
    last = 0.0
    for rate in rates:
        last = last if rate is None else rate
        yield last


def sliding_max(values: Sequence[float], width: int) -> list[float]:
    """Of each value and those before it, `width` in all."""
    return list(_sliding(values, width))


def _sliding(values: Sequence[float], width: int) -> Iterator[float]:
    best: deque[tuple[int, float]] = deque()
    for place, value in enumerate(values):
        while best and best[-1][1] <= value:
            best.pop()
        best.append((place, value))
        if best[0][0] <= place - width:
            best.popleft()
        yield best[0][1]
