"""Requests a minute, with holes: what a forecast knows, and what pods are needed for.

A trace counts by window, often of ten minutes, and a rush is over in less. Minutes between the middles of two windows
are interpolated, which flatters every strategy alike; a hole stays one.
"""

from collections.abc import Iterable

from ebbtide.simulator.trace.counted import RequestTrace

MINUTE_S = 60.0
DAY_MINUTES = 24 * 60


class Minutes:
    """Requests a second, by minute from second 0 of the trace; None: not known. More may come at the end."""

    def __init__(self, rates: Iterable[float | None] = ()) -> None:
        self.rates: list[float | None] = []
        self._sums, self._known = [0.0], [0]  # of all minutes before
        for rate in rates:
            self.append(rate)

    def append(self, rate: float | None) -> None:
        self.rates.append(rate)
        self._sums.append(self._sums[-1] + (rate or 0.0))
        self._known.append(self._known[-1] + (rate is not None))

    def mean(self, begin: int, until: int) -> float | None:
        """Of the minutes that are known; None: none is. Minutes before 0 are not known."""
        first, last = max(0, begin), min(max(0, until), len(self.rates))
        known = self._known[last] - self._known[first] if first < last else 0
        return (self._sums[last] - self._sums[first]) / known if known else None


def minutes_of(trace: RequestTrace, factor: float) -> Minutes:
    """The trace's requests, each count times `factor`."""
    length, totals = trace.window_s, trace.totals
    rates: list[float | None] = []
    for minute in range(round(len(totals) * length / MINUTE_S)):
        at = (minute + 0.5) * MINUTE_S / length  # in windows
        here = min(len(totals) - 1, int(at))
        count = totals[here]
        if count is None:
            rates.append(None)
            continue
        other = min(len(totals) - 1, max(0, here + (1 if at - here >= 0.5 else -1)))
        beside = totals[other]
        share = abs(at - here - 0.5) if beside is not None else 0.0
        rates.append(factor / length * (count * (1 - share) + (beside or 0.0) * share))
    return Minutes(rates)


def busiest_rate(trace: RequestTrace) -> float:
    """Requests a second in the window with most of them."""
    return max(count for count in trace.totals if count is not None) / trace.window_s
