"""The backtest of a forecast against two other ways to have pods before a rush, on minutes that tuning did not see.

The base of each way is the autoscaler: it has pods for the highest rate in the stabilization window that ended one lead
ago. In addition

- the forecast: the pods of its trigger with the margin of the stack file, but not below the calendar's floor. As with
  any metric of the autoscaler the highest value of the stabilization window counts;
- the calendar's floor: a number of pods in business hours;
- constant headroom: a fixed share of extra pods at all times.

The number of each way is the smallest with which AIMED of the requests had capacity on the earlier days. That is a
little more than KEPT, since later days differ. Then all ways are judged on the last week: by the share of requests (and
of minutes) with enough pods for the rate of their minute, and by pod-hours. The rivals have hindsight: they use the
cheapest number that keeps KEPT of that week's requests. An offered forecast keeps KEPT, too, and costs at least
LEAST_GAIN less than both.

While counts are missing, the autoscaler keeps its pods. Steps up are modelled if they take more than a minute, as they
do for a service with `latency`; the calendar's floor is written and has no steps.

The limit `max` is the same for all: a minute that needs more pods counts as kept with `max` pods.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.lab.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes
from ebbtide.lab.simulator.services.floors import ClosedDay, forecast_of
from ebbtide.lab.simulator.services.forecast import pods_of
from ebbtide.lab.simulator.services.served import ServiceModel
from ebbtide.lab.simulator.strategies.hpa import HpaPolicy
from ebbtide.monitoring.forecast import DAYS_NEEDED

KEPT, AIMED = 0.995, 0.997
LEAST_GAIN = 0.01
"""A share of the cost: a smaller gain may be chance."""
JUDGED_DAYS = 7
FEWEST_TUNED = 2
FEWEST_WHOLE_DAYS = DAYS_NEEDED + FEWEST_TUNED + JUDGED_DAYS
MARGINS = tuple(1 + step / 20 for step in range(61))  # all that a stack file may have
HEADROOMS = tuple(step / 20 for step in range(61))  # up to three times more

Calendar = Callable[[int, int], int]
"""The floor in a minute, given the pods of business hours."""


class Way(StrEnum):
    FORECAST = "forecast-floor"
    CALENDAR = "calendar-floor"
    HEADROOM = "constant-headroom"
    REACTIVE = "hpa-only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of one number of one way on a span of minutes."""

    number: float  # a margin, pods in business hours, or a share
    kept_requests: float
    kept_minutes: float
    pod_hours: float
    relative: float  # pod-hours, relative to the needed ones

    @property
    def keeps(self) -> bool:
        return self.kept_requests >= KEPT


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """`tuned`: judged on the last week with numbers tuned on the days before. `equal`: rivals with hindsight."""

    tuned: dict[Way, Judged]
    equal: dict[Way, Judged | None]  # None: no number keeps KEPT
    days: tuple[int, int]  # tuned on, judged on
    offered: bool
    reason: str  # one sentence with the figures


NOTHING_COUNTED = "a forecast needs the metric inFlight or throughput, and the service has neither"


class TooLittle(ValueError):
    """The history is too short. The message is one line for the user."""


def backtest(service: ServiceModel, minutes: Minutes, calendar: Calendar, closed: ClosedDay, name: str) -> Backtest:
    """`name` is the trace's. Raises `TooLittle`."""
    days = len(minutes.rates) // DAY_MINUTES
    if days < FEWEST_WHOLE_DAYS:
        raise TooLittle(
            f"trace {name}: wanted at least {FEWEST_WHOLE_DAYS} days (to learn a shape, to tune, and a week to judge), "
            f"found {len(minutes.rates) / DAY_MINUTES:.3g} (for example requests-servegen-m-small)"
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
    share = f"the forecast's floor keeps {forecast.kept_requests:.2%} of the requests within capacity"
    if not forecast.keeps:
        return False, f"Refused: {share}, and {KEPT:.1%} are wanted."
    costs = {way: None if rival is None else rival.pod_hours for way, rival in rivals.items()}
    rival_costs = ", ".join(
        f"no {way.value} keeps {KEPT:.1%}" if cost is None else f"{way.value} takes {cost:,.0f}"
        for way, cost in costs.items()
    )
    cheaper = all(cost is None or forecast.pod_hours <= (1 - LEAST_GAIN) * cost for cost in costs.values())
    sentence = f"{share} with {forecast.pod_hours:,.0f} pod-hours; for {KEPT:.1%}, {rival_costs}."
    return cheaper, f"{'Offered' if cheaper else 'Refused'}: {sentence}"


class _Course:
    """The minutes of a service, with the inputs of each way."""

    def __init__(self, service: ServiceModel, minutes: Minutes, calendar: Calendar, closed: ClosedDay) -> None:
        self._service, self._rates = service, minutes.rates
        self._calendar, self._stated = calendar, service.stated_open
        lead = max(1, math.ceil(service.lead_s / MINUTE_S))
        window = math.ceil(service.behavior.down.stabilization_s / MINUTE_S)
        rates = list(held(minutes.rates))
        self._reactive = [0.0] * lead + sliding_max(rates, window + 1)[: len(rates) - lead]
        forecast = forecast_of(service, minutes, closed)
        self._target_rate = forecast.pod_rate
        ahead = [forecast.at(now) or 0.0 for now in range(len(rates) - lead)]
        self._forecast = [0.0] * lead + sliding_max(ahead, window + 1)
        self._need = [service.need(rate) for rate in rates]

    def tuned(self, way: Way, span: range) -> float:
        """The smallest number that keeps AIMED; if none does, the smallest that keeps as much as the largest."""
        numbers = self.numbers(way)
        goal = min(AIMED, self.judged(way, numbers[-1], span).kept_requests)
        return self._least(way, span, goal).number

    def cheapest(self, way: Way, span: range) -> Judged | None:
        """The smallest number with hindsight; None if none keeps KEPT."""
        largest = self.judged(way, self.numbers(way)[-1], span)
        return self._least(way, span, KEPT) if largest.keeps else None

    def _least(self, way: Way, span: range, goal: float) -> Judged:
        """Bisect for the smallest number: a larger one never has fewer pods, and the largest keeps `goal`."""
        numbers = self.numbers(way)
        low, high = 0, len(numbers) - 1
        while low < high:
            middle = (low + high) // 2
            if self.judged(way, numbers[middle], span).kept_requests >= goal:
                high = middle
            else:
                low = middle + 1
        return self.judged(way, numbers[low], span)

    def judged(self, way: Way, number: float, span: range) -> Judged:
        service, most = self._service, self._service.most
        requests = kept_requests = minutes = kept_minutes = hours = needed = 0.0
        step = math.ceil(max(policy.period_s for policy in service.behavior.up.policies) / MINUTE_S)
        recent: deque[int] = deque(maxlen=step)
        for minute in span:
            rate = self._rates[minute]
            if rate is None:
                continue
            before = recent[0] if len(recent) == step > 1 else None
            pods, need = self.pods(way, number, minute, before), min(most, self._need[minute])
            recent.append(pods)
            enough = pods >= need
            requests += rate
            kept_requests += rate * enough
            minutes += 1
            kept_minutes += enough
            hours += pods / 60
            needed += max(need, service.least) / 60
        return Judged(
            number=number,
            kept_requests=kept_requests / requests if requests else 1.0,
            kept_minutes=kept_minutes / minutes if minutes else 1.0,
            pod_hours=hours,
            relative=hours / needed if needed else 1.0,
        )

    def pods(self, way: Way, number: float, minute: int, before: int | None = None) -> int:
        """`before`: the pods one step up ago; None: a step takes at most a minute."""
        headroom = number if way is Way.HEADROOM else 0.0
        proposed = self._service.need(self._reactive[minute] * (1 + headroom))
        floor = 0
        if way is Way.CALENDAR:
            floor = self._calendar(minute, round(number))
        elif way is Way.FORECAST:
            floor = self._calendar(minute, self._stated or self._service.least)
            forecast = self._forecast[minute]
            proposed = max(
                proposed, pods_of(forecast, margin=number, pod_rate=self._target_rate, most=self._service.most)
            )
        if before is not None:
            proposed = min(proposed, max(_raised(before, policy) for policy in self._service.behavior.up.policies))
        return self._service.within(max(proposed, floor))

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
    """Replace each unknown rate by the last known one."""
    last = 0.0
    for rate in rates:
        last = last if rate is None else rate
        yield last


def sliding_max(values: Sequence[float], width: int) -> list[float]:
    """The maximum of each value and its predecessors, over `width` values."""
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
