"""Choose the hours of a history to play: all of them, or a spread of parts if they hold too many requests.

A trial's duration grows with its requests, and a search takes dozens of trials. So an even sequence, in which each time
of the day has its turn, chooses the parts to play; the busiest part and the one with the steepest rise are always in.
A part is an hour, or less if a few hours would hold too many requests. Each stretch begins with the pods that its first
minute needs.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from ebbtide.lab.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes, arrivals
from ebbtide.lab.simulator.services.run import TraceSpan
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.text.durations import HOUR_S

_BY_DAY, _BY_PART = 0.7549, 0.5698
"""Sums of multiples of both fill [0, 1) evenly, by day and by time of day. Source: M. Roberts, the sequence R2."""
_PARTS = (60, 30, 15)
"""Minutes of a part: longer than an autoscaler looks back."""
_FEWEST = 6
"""Fewest parts, including the busiest and the steepest."""


@dataclass(frozen=True, slots=True)
class Stretch:
    span: TraceSpan
    coming: "array[float]"  # arrival times of requests, seconds of the trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """The played parts, in order. `of_hours` counts the history, played or not."""

    parts: tuple[Stretch, ...]
    of_hours: float

    @property
    def hours(self) -> float:
        return sum(part.span.end - part.span.begin for part in self.parts) / HOUR_S

    @property
    def complete(self) -> bool:
        return self.hours >= self.of_hours


def stretches(trace: RequestTrace, factor: float, minutes: Minutes, span: TraceSpan, most: int, seed: int) -> Stretches:
    """Choose parts of about `most` requests, not counting the busiest and the steepest. `minutes` are the trace's."""
    spans = [*_joined(_parts(minutes, span, most))] or [span]
    parts = tuple(Stretch(part, array("d", _coming(trace, factor, seed, part))) for part in spans)
    return Stretches(parts=parts, of_hours=(span.end - span.begin) / HOUR_S)


def _coming(trace: RequestTrace, factor: float, seed: int, span: TraceSpan) -> Iterator[float]:
    """Yield the arrivals in the span, without arrivals of its first window that come earlier."""
    until = takewhile(lambda at: at < span.end, arrivals(trace, factor, seed, span.begin))
    return (at for at in until if at >= span.begin)


def _parts(minutes: Minutes, span: TraceSpan, most: int) -> Iterator[TraceSpan]:
    """Yield the parts to play; none if all hours fit."""
    first, last = round(span.begin / MINUTE_S), round(span.end / MINUTE_S)
    requests = MINUTE_S * sum(rate or 0.0 for rate in minutes.rates[first:last])
    share = most / requests if requests else 1.0
    if share >= 1:
        return
    fitting = (minutes for minutes in _PARTS if requests * minutes / (last - first) <= most / _FEWEST)
    length = next(fitting, _PARTS[-1])
    begins = [*range(first, last - length + 1, length)]
    means = [minutes.mean(begin, begin + length) for begin in begins]
    required = {_highest(means), _highest(_rises(means))} if means else set[int]()
    for index, (begin, mean) in enumerate(zip(begins, means, strict=True)):
        if mean is not None and (index in required or _even(index, length) < share):
            yield TraceSpan(begin * MINUTE_S, (begin + length) * MINUTE_S)


def _even(index: int, length: int) -> float:
    day, part = divmod(index, DAY_MINUTES // length)
    return (day * _BY_DAY + part * _BY_PART) % 1


def _rises(means: Sequence[float | None]) -> list[float | None]:
    changes = (None if before is None or after is None else after - before for before, after in pairwise(means))
    return [None, *changes]


def _highest(values: Sequence[float | None]) -> int:
    return max(range(len(values)), key=lambda index: -math.inf if (value := values[index]) is None else value)


def _joined(spans: Iterator[TraceSpan]) -> Iterator[TraceSpan]:
    """Join consecutive parts into one stretch."""
    open_span: TraceSpan | None = None
    for span in spans:
        if open_span is not None and open_span.end == span.begin:
            open_span = TraceSpan(open_span.begin, span.end)
            continue
        if open_span is not None:
            yield open_span
        open_span = span
    if open_span is not None:
        yield open_span
