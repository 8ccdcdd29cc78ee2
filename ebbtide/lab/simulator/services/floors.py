"""Floors in virtual time: the calendar's rule, and a forecast that learns during the replay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from controllers.workloads.floors.calendar import floor_at
from ebbtide.lab.simulator.services.counts import MINUTE_S, Minutes
from ebbtide.lab.simulator.services.forecast import Forecast
from ebbtide.lab.simulator.services.served import ServiceModel
from ebbtide.monitoring.closed_days import is_closed
from ebbtide.monitoring.forecast import horizon
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import FloorPolicy

Floor = Callable[[float, Sequence[int]], int]
"""The minimum number of pods at a second of the trace, given the requests of each played minute."""


ClosedDay = Callable[[int], bool]
"""True if a minute of the trace is in a local day without business hours."""


def forecast_of(service: ServiceModel, minutes: Minutes, closed: ClosedDay) -> Forecast:
    """The forecast of the service's rules."""
    return Forecast(minutes, service.forecast_rate or service.pod_rate, horizon(service.calendar.lead), closed)


@dataclass(slots=True)
class CalendarFloor:
    """The rule of the workload controller; `start` is the trace's second 0 (aware)."""

    policy: FloorPolicy
    hours: BusinessHours
    start: datetime
    _pods: int = 0
    _until: datetime | None = None
    _since: datetime | None = None
    _closed: dict[int, bool] = field(default_factory=dict[int, bool])

    def __call__(self, now: float, _sent: Sequence[int] = ()) -> int:
        at = self.start.astimezone(UTC) + timedelta(seconds=now)
        fresh = self._since is not None and self._since <= at and (self._until is None or at < self._until)
        if not fresh:
            floor = floor_at(at, self.policy, self.hours)
            self._pods, self._since, self._until = floor.pods, at, floor.until
        return self._pods

    def with_open(self, pods: int | None) -> "CalendarFloor":
        return CalendarFloor(replace(self.policy, open=pods), self.hours, self.start)

    def closed(self, minute: int) -> bool:
        """A `ClosedDay`, cached: each minute is read about twenty times."""
        closed = self._closed.get(minute)
        if closed is None:
            at = self.start.astimezone(UTC) + timedelta(minutes=minute)
            closed = self._closed[minute] = is_closed(self.hours, self.hours.local(at).date())
        return closed

    def by_minute(self, minutes: int) -> Callable[[int, int], int]:
        """The floor in each minute of the trace, given the pods of business hours."""
        base = self.with_open(None)
        always = [base(minute * MINUTE_S) for minute in range(minutes)]
        during = CalendarFloor(
            replace(self.policy, open=self.policy.most, events=(), overnight=()), self.hours, self.start
        )
        is_open = [during(minute * MINUTE_S) > self.policy.least for minute in range(minutes)]

        def floor(minute: int, pods: int) -> int:
            return max(always[minute], pods) if is_open[minute] else always[minute]

        return floor


class ForecastTrigger:
    """The pods of a forecast, 0 without one. Evaluated once a minute, like the rules.

    `history` ends at the begin of the replay; replayed requests are counted minute by minute, as by Prometheus. Minutes
    without data in the trace stay unknown.
    """

    def __init__(
        self, service: ServiceModel, history: Minutes, closed: ClosedDay, begin_s: float, margin: float
    ) -> None:
        self._most, self._margin = service.most, margin
        self._begin = round(begin_s / MINUTE_S)
        self._trace = history.rates
        self._minutes = Minutes(history.rates[: self._begin])
        self._forecast = forecast_of(service, self._minutes, closed)
        self.pods = 0
        self._minutes_read = -1

    def __call__(self, sent: Sequence[int]) -> int:
        if len(sent) != self._minutes_read:
            for minute in range(max(0, self._minutes_read), len(sent)):
                place = self._begin + minute
                is_known = place < len(self._trace) and self._trace[place] is not None
                self._minutes.append(sent[minute] / MINUTE_S if is_known else None)
            self._minutes_read = len(sent)
            self.pods = self._forecast.pods(self._begin + len(sent), self._margin, self._most)
        return self.pods
