"""The typical node-hours and dollars of each hour of the week, from the recorded hours of a month. Pure.

An hour takes the mean of the same weekday's hours; without one, of the same hour of workdays or of weekends; then of
that hour of any day; then of all recorded hours. Hours with a gap say nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property

from ebbtide.lab.ledger.lives import Span, overlap
from ebbtide.lab.ledger.month import Amount, Hourly, Month, add_amount, bounds_of
from ebbtide.text.durations import HOUR_S
from ebbtide.vocabulary.windows import zone_of

_FIRST_DAY_OF_WEEKEND, _SHORTEST_DAY = 5, 23


@dataclass(frozen=True, kw_only=True)
class Pattern:
    month: Month
    hourly: Hourly
    recorded: Mapping[int, float]  # recorded share of each hour of the month

    def usd(self, span: Span) -> float:
        """Return the usual dollars of a span of the month; 0 if no hour was recorded."""
        return sum(amount.usd for amount in self.amounts(span).values())

    def amounts(self, span: Span) -> Mapping[str, Amount]:
        """Return the usual node-hours and dollars of a span of the month, by group; 0 if no hour was recorded."""
        sums = {group: Amount() for group in self._groups}
        first = self.month.begin.timestamp()
        for hour in range(int((span[0] - first) // HOUR_S), int((span[1] - first) // HOUR_S) + 1):
            share = overlap(span, (first + hour * HOUR_S, first + (hour + 1) * HOUR_S)) / HOUR_S
            similar = next((self._samples[place] for place in self._places(hour) if place in self._samples), ())
            for group, total in sums.items():
                for sample in similar:
                    add_amount(total, self.hourly.get((group, sample), Amount()), share / len(similar))
        return sums

    def extremes(self, since: float) -> Span | None:
        """Return the dollars from an hour until the month's end if each day costs as the cheapest of the recorded
        workdays or weekend days, and as the dearest, with the bounds of spot prices. None without a recorded day.
        """
        first = round((since - self.month.begin.timestamp()) / HOUR_S)
        remaining: defaultdict[date, list[int]] = defaultdict(list)
        for hour in range(first, round(self.month.hours)):
            remaining[self._local(hour).date()].append(hour)
        low = high = 0.0
        for hours in remaining.values():
            known = [*self._same_hours(hours, similar=True)] or [*self._same_hours(hours, similar=False)]
            if not known:
                return None
            low += min(least for least, _ in known)
            high += max(most for _, most in known)
        return low, high

    def _same_hours(self, hours: Sequence[int], *, similar: bool) -> Iterator[Span]:
        """Yield the bounds of the same local hours' dollars, of each recorded day or of those that are `similar`.

        A local hour that a day has twice, when clocks change, counts as the mean of both.
        """
        needed = Counter(self._local(hour).hour for hour in hours)
        weekend = _is_weekend(self._local(hours[0]))
        for day, by_hour in self._days.items():
            if needed.keys() <= by_hour.keys() and not (similar and _is_weekend(day) != weekend):
                sums = [Amount() for _ in needed]
                for total, (hour, times) in zip(sums, needed.items(), strict=True):
                    for amount in by_hour[hour]:
                        add_amount(total, amount, times / len(by_hour[hour]))
                yield bounds_of(sums)

    @property
    def complete_days(self) -> int:
        """Local days whose hours are all recorded; a day on which clocks change has 23 or 25."""
        return sum(len(by_hour) >= _SHORTEST_DAY for by_hour in self._days.values())

    @cached_property
    def _days(self) -> Mapping[date, Mapping[int, Sequence[Amount]]]:
        """Amounts of recorded hours, by local day and hour: a day on which clocks change may have an hour twice."""
        days: defaultdict[date, defaultdict[int, list[Amount]]] = defaultdict(lambda: defaultdict(list))
        for hour, share in self.recorded.items():
            if share == 1:
                local = self._local(hour)
                total = Amount()
                for group in self._groups:
                    add_amount(total, self.hourly.get((group, hour), Amount()))
                days[local.date()][local.hour].append(total)
        return days

    @cached_property
    def _groups(self) -> Sequence[str]:
        return sorted({group for group, _ in self.hourly})

    def _local(self, hour: int) -> datetime:
        at = datetime.fromtimestamp(self.month.begin.timestamp() + hour * HOUR_S, UTC)
        return at.astimezone(zone_of(self.month.zone))

    def _places(self, hour: int) -> Iterator[tuple[str, int]]:
        """Yield what an hour resembles, the closest first."""
        local = self._local(hour)
        yield f"weekday {local.weekday()}", local.hour
        yield ("weekend" if _is_weekend(local) else "workday"), local.hour
        yield "day", local.hour
        yield "hour", 0

    @cached_property
    def _samples(self) -> Mapping[tuple[str, int], Sequence[int]]:
        samples: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for hour, share in self.recorded.items():
            if share == 1:
                for place in self._places(hour):
                    samples[place].append(hour)
        return samples


def _is_weekend(day: date) -> bool:
    return day.weekday() >= _FIRST_DAY_OF_WEEKEND
