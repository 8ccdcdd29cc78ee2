"""Which hours of a history are played: all of them, or parts spread over it where they hold too many requests.

A trial takes as long as it has requests, and a search takes dozens of trials. So a part is played or left out by an
even sequence, in which each time of the day has its turn, and the busiest part and the one with the steepest rise are
never left out. A part is an hour, and less where a few hours would be too many requests. Each stretch begins with the
pods that its first minute asks for.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from ebbtide.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes, arrivals
from ebbtide.simulator.services.run import Span
from ebbtide.simulator.trace.counted import RequestTrace
from ebbtide.units.durations import HOUR_S

_BY_DAY, _BY_PART = 0.7549, 0.5698
"""Sums of multiples of both fill [0, 1) evenly, by day and by time of day. Source: M. Roberts, the sequence R2."""
_PARTS = (60, 30, 15)
"""Minutes: longer than what an autoscaler remembers."""
_FEWEST = 6
"""Parts, the busiest and the steepest among them."""


@dataclass(frozen=True, slots=True)
class Stretch:
    span: Span
    coming: "array[float]"  # when requests come, seconds of the trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """In order. `of_hours` are those that there are, played or not."""

    each: tuple[Stretch, ...]
    of_hours: float

    @property
    def hours(self) -> float:
        return sum(it.span.end - it.span.begin for it in self.each) / HOUR_S

    @property
    def whole(self) -> bool:
        return self.hours >= self.of_hours


def stretches(trace: RequestTrace, factor: float, minutes: Minutes, span: Span, most: int, seed: int) -> Stretches:
    """At most about so many requests, the busiest part and the steepest aside. `minutes` are the trace's."""
    spans = [*_joined(_parts(minutes, span, most))] or [span]
    each = tuple(Stretch(it, array("d", _coming(trace, factor, seed, it))) for it in spans)
    return Stretches(each=each, of_hours=(span.end - span.begin) / HOUR_S)


def _coming(trace: RequestTrace, factor: float, seed: int, span: Span) -> Iterator[float]:
    """Those of its first window that come before it are left out."""
    until = takewhile(lambda at: at < span.end, arrivals(trace, factor, seed, span.begin))
    return (at for at in until if at >= span.begin)


def _parts(minutes: Minutes, span: Span, most: int) -> Iterator[Span]:
    """Nothing where all of them may be played."""
    first, last = round(span.begin / MINUTE_S), round(span.end / MINUTE_S)
    requests = MINUTE_S * sum(rate or 0.0 for rate in minutes.rates[first:last])
    share = most / requests if requests else 1.0
    if share >= 1:
        return
    fitting = (it for it in _PARTS if requests * it / (last - first) <= most / _FEWEST)
    length = next(fitting, _PARTS[-1])
    begins = [*range(first, last - length + 1, length)]
    means = [minutes.mean(begin, begin + length) for begin in begins]
    wanted = {_highest(means), _highest(_rises(means))} if means else set[int]()
    for place, (begin, mean) in enumerate(zip(begins, means, strict=True)):
        if mean is not None and (place in wanted or _even(place, length) < share):
            yield Span(begin * MINUTE_S, (begin + length) * MINUTE_S)


def _even(place: int, length: int) -> float:
    day, part = divmod(place, DAY_MINUTES // length)
    return (day * _BY_DAY + part * _BY_PART) % 1


def _rises(means: Sequence[float | None]) -> list[float | None]:
    changes = (None if before is None or after is None else after - before for before, after in pairwise(means))
    return [None, *changes]


def _highest(values: Sequence[float | None]) -> int:
    return max(range(len(values)), key=lambda place: -math.inf if (it := values[place]) is None else it)


def _joined(spans: Iterator[Span]) -> Iterator[Span]:
    """Parts that follow each other as one stretch."""
    open_span: Span | None = None
    for span in spans:
        if open_span is not None and open_span.end == span.begin:
            open_span = Span(open_span.begin, span.end)
            continue
        if open_span is not None:
            yield open_span
        open_span = span
    if open_span is not None:
        yield open_span
