"""Recorded values of a Prometheus expression over a time range, by labels.

Every reader of a history reads it here, so that all of them agree on what a missing value is:

- **A gap has no point**: a step without a sample, and a result that is no finite number, such as zero divided by zero.
  It never becomes a 0. A query without a result is a gap too; only a range without any is unknown.
- **The highest value counts** where several series have the same labels at one instant. Two replicas of a Prometheus
  answer so if a store adds their names. Each saw a part, and what was in use by one of them was in use.
- **An answer that is partial, too old or refused makes the history unknown**, with the reason of the first such query.

Prometheus returns at most 11,000 points per series, so a longer range is read in several queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TypeAlias

from ebbtide.monitoring.client import Prometheus, Series, UnknownAnswer

MOST_POINTS = 11_000
Labels: TypeAlias = tuple[str, ...]
"""Values of the labels that a reader names, in that order; "" for a label that a series lacks."""
Points: TypeAlias = Mapping[datetime, float]
"""Values by instant of the range, from the oldest."""
History: TypeAlias = Mapping[Labels, Points] | UnknownAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Instants from `since`, one `step` apart, until `until`. One query reads `piece` of them at most."""

    since: datetime  # aware, as `until`
    until: datetime
    step: timedelta
    piece: timedelta = timedelta.max

    @property
    def instants(self) -> Sequence[datetime]:
        """In UTC; `since` is always one of them."""
        since, until = self.since.astimezone(UTC), self.until.astimezone(UTC)
        return [since + place * self.step for place in range(max(1, (until - since) // self.step + 1))]

    def values(self, points: Points) -> tuple[float | None, ...]:
        """Return one value per instant; None in a gap."""
        return tuple(points.get(at) for at in self.instants)


def history(
    prometheus: Prometheus, expression: str, over: TimeRange, *, by: Sequence[str] = (), called: str = ""
) -> History:
    """Return the recorded values by the labels `by`.

    `called`: the name of the data in messages, instead of the expression.
    """
    instants = over.instants
    count = max(1, min(MOST_POINTS, over.piece // over.step))
    found: dict[Labels, dict[int, float]] = {}  # by place in the range
    for piece in (instants[place : place + count] for place in range(0, len(instants), count)):
        course = prometheus.over(expression, piece[0], piece[-1], over.step)
        if isinstance(course, UnknownAnswer):
            return course
        for series in course:
            values = found.setdefault(tuple(series.labels.get(label, "") for label in by), {})
            for place, value in _placed(series, instants, over.step):
                values[place] = max(value, values.get(place, value))
    ordered = {labels: {instants[place]: values[place] for place in sorted(values)} for labels, values in found.items()}
    return {labels: points for labels, points in ordered.items() if points} or prometheus.silent(called or expression)


def _placed(series: Series, instants: Sequence[datetime], step: timedelta) -> Iterator[tuple[int, float]]:
    """Yield the finite values with their places; Prometheus returns instants in milliseconds."""
    first, step_s = instants[0].timestamp(), step.total_seconds()
    for second, value in series.points:
        place = (second - first) / step_s
        if isfinite(value) and -0.5 < place < len(instants) - 0.5:
            yield round(place), value
