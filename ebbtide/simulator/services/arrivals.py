"""When requests come. Counts by window are the trace's; the times within one are drawn.

Of each queue by itself, then merged: a window's requests times one constant, what is left of one counts in the next.
Their times are a renewal process: gaps are gamma distributed with the window's coefficient of variation, `iat_cv`, and
stretched so that they fill the window. 1 is Poisson. In a missing window nothing is known, so nothing comes.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import accumulate
from random import Random

from ebbtide.simulator.trace.counted import CountedQueue, RequestTrace

LEAST_SHAPE = 1e-3
"""A gamma distribution of less is one gap and nothing else."""


def arrivals(trace: RequestTrace, factor: float, seed: int, begin: float = 0.0) -> Iterator[float]:
    """Seconds from the trace's second 0, in order, of the windows that begin at `begin` or later.

    The same seed and `begin` give the same times.
    """
    skipped = round(begin / trace.window_s)
    each = [
        _of_queue(queue, trace.window_s, factor, Random(f"{seed} arrivals {name}"), skipped)
        for name, queue in trace.queues.items()
    ]
    return each[0] if len(each) == 1 else merge(*each)


def _of_queue(queue: CountedQueue, length: float, factor: float, chance: Random, skipped: int) -> Iterator[float]:
    left = 0.5  # so that a sum of many windows is rounded, and not cut
    for place, (count, cv) in enumerate(zip(queue.counts, queue.cv, strict=True)):
        if place < skipped:
            continue
        left += factor * (count or 0.0)
        whole = int(left)
        left -= whole
        yield from within(place * length, length, whole, cv, chance)


def within(begin: float, length: float, count: int, cv: float, chance: Random) -> list[float]:
    """So many times in [begin, begin + length), in order."""
    if not count:
        return []
    if cv == 1:
        draw = chance.random
        return sorted(begin + length * draw() for _ in range(count))
    shape, gamma = max(LEAST_SHAPE, 1 / cv**2), chance.gammavariate
    gaps = [gamma(shape, 1.0) for _ in range(count + 1)]
    whole = sum(gaps) or 1.0
    stretch = length / whole
    return [begin + stretch * at for at in accumulate(gaps[:-1])]
