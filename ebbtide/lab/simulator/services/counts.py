"""The requests of a trace: their rate by minute, and drawn times of arrival.

A trace counts by window, often of ten minutes, and a rush is over in less. The rate between the middles of two windows
is interpolated, which flatters every strategy alike. A minute without data stays unknown.

Arrivals are drawn for each queue and merged. A queue's requests in a window are its count times one constant; the
fraction of a request is carried into the next window. Arrivals are a renewal process: gaps are gamma distributed with
the window's coefficient of variation, `iat_cv` (1 is Poisson), and stretched to fill the window. A window without data
has no arrivals.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import accumulate
from random import Random

from ebbtide.lab.simulator.trace.counted import CountedQueue, RequestTrace

MINUTE_S = 60.0
DAY_MINUTES = 24 * 60
LEAST_SHAPE = 1e-3
"""A gamma distribution with a smaller shape draws one gap and zeros."""


class Minutes:
    """Requests a second, by minute from second 0 of the trace; None: unknown. Minutes may be appended."""

    def __init__(self, rates: Iterable[float | None] = ()) -> None:
        self.rates: list[float | None] = []
        self._sums, self._counts = [0.0], [0]  # of known minutes before each one
        for rate in rates:
            self.append(rate)

    def append(self, rate: float | None) -> None:
        self.rates.append(rate)
        self._sums.append(self._sums[-1] + (rate or 0.0))
        self._counts.append(self._counts[-1] + (rate is not None))

    def mean(self, begin: int, until: int) -> float | None:
        """The mean of the known minutes; None without one. Minutes before 0 are unknown."""
        first, last = max(0, begin), min(max(0, until), len(self.rates))
        count = self._counts[last] - self._counts[first] if first < last else 0
        return (self._sums[last] - self._sums[first]) / count if count else None


def minutes_of(trace: RequestTrace, factor: float) -> Minutes:
    """The trace's requests, each count times `factor`."""
    length, totals = trace.window_s, trace.totals
    rates: list[float | None] = []
    for minute in range(round(len(totals) * length / MINUTE_S)):
        at = (minute + 0.5) * MINUTE_S / length  # in windows
        window = min(len(totals) - 1, int(at))
        count = totals[window]
        if count is None:
            rates.append(None)
            continue
        neighbour = totals[min(len(totals) - 1, max(0, window + (1 if at - window >= 0.5 else -1)))]
        share = abs(at - window - 0.5) if neighbour is not None else 0.0
        rates.append(factor / length * (count * (1 - share) + (neighbour or 0.0) * share))
    return Minutes(rates)


def busiest_rate(trace: RequestTrace) -> float:
    """Requests a second in the busiest window."""
    return max(count for count in trace.totals if count is not None) / trace.window_s


def arrivals(trace: RequestTrace, factor: float, seed: int, begin: float = 0.0) -> Iterator[float]:
    """Arrival times in seconds of the trace, in order, in the windows that begin at `begin` or later.

    The same seed and `begin` give the same times.
    """
    skipped = round(begin / trace.window_s)
    queues = [
        _queue_arrivals(queue, trace.window_s, factor, Random(f"{seed} arrivals {name}"), skipped)
        for name, queue in trace.queues.items()
    ]
    return queues[0] if len(queues) == 1 else merge(*queues)


def _queue_arrivals(queue: CountedQueue, length: float, factor: float, chance: Random, skipped: int) -> Iterator[float]:
    carried = 0.5  # so that the sum of many windows is rounded instead of truncated
    for place, (count, cv) in enumerate(zip(queue.counts, queue.cv, strict=True)):
        if place < skipped:
            continue
        carried += factor * (count or 0.0)
        requests = int(carried)
        carried -= requests
        yield from within(place * length, length, requests, cv, chance)


def within(begin: float, length: float, count: int, cv: float, chance: Random) -> list[float]:
    """`count` times in [begin, begin + length), in order."""
    if not count:
        return []
    if cv == 1:
        draw = chance.random
        return sorted(begin + length * draw() for _ in range(count))
    shape, gamma = max(LEAST_SHAPE, 1 / cv**2), chance.gammavariate
    gaps = [gamma(shape, 1.0) for _ in range(count + 1)]
    stretch = length / (sum(gaps) or 1.0)
    return [begin + stretch * at for at in accumulate(gaps[:-1])]
