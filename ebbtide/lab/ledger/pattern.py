"""What usually runs at an hour of the week, from the recorded hours of a month. Pure.

An hour takes the mean of the same weekday's hours; without one, of the same hour of workdays or of weekends; then of
that hour of any day; then of all recorded hours. Hours with a gap say nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from ebbtide.lab.ledger.lives import Span, overlap
from ebbtide.lab.ledger.month import Hourly, Month
from ebbtide.text.durations import HOUR_S
from ebbtide.vocabulary.windows import zone_of

_FIRST_DAY_OF_WEEKEND = 5


@dataclass(frozen=True, kw_only=True)
class Pattern:
    month: Month
    hourly: Hourly
    recorded: Mapping[int, float]  # recorded share of each hour of the month

    def usd(self, span: Span) -> float:
        """Return the usual dollars of a span of the month; 0 if no hour was recorded."""
        first = self.month.begin.timestamp()
        hours = range(int((span[0] - first) // HOUR_S), int((span[1] - first) // HOUR_S) + 1)
        spans = {hour: (first + hour * HOUR_S, first + (hour + 1) * HOUR_S) for hour in hours}
        return sum(overlap(span, within) / HOUR_S * self._usual(hour) for hour, within in spans.items())

    def _usual(self, hour: int) -> float:
        return next((self._means[place] for place in self._places(hour) if place in self._means), 0.0)

    def _places(self, hour: int) -> Iterator[tuple[str, int]]:
        """Yield what an hour resembles, the closest first."""
        at = datetime.fromtimestamp(self.month.begin.timestamp() + hour * HOUR_S, UTC)
        local = at.astimezone(zone_of(self.month.zone))
        weekday = local.weekday()
        yield f"weekday {weekday}", local.hour
        yield ("weekend" if weekday >= _FIRST_DAY_OF_WEEKEND else "workday"), local.hour
        yield "day", local.hour
        yield "hour", 0

    @cached_property
    def _means(self) -> Mapping[tuple[str, int], float]:
        totals: defaultdict[int, float] = defaultdict(float)
        for (_, hour), amount in self.hourly.items():
            totals[hour] += amount.usd
        samples: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        for hour, share in self.recorded.items():
            if share == 1:
                for place in self._places(hour):
                    samples[place].append(totals[hour])
        return {place: sum(values) / len(values) for place, values in samples.items()}
