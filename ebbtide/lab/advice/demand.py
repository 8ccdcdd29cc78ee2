"""Demand of jobs that never wait: peaks, and node-hours on nodes of one size.

"Wanted at once" is the demand if every job starts when it is submitted. It depends only on the load, not on a cluster:
a scaler with more workers than the peak keeps idle ones.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ebbtide.kube.autoscaler import UNNEEDED
from ebbtide.lab.simulator.strategies.plans import NODE_BOOT_S

Span: TypeAlias = tuple[float, float]  # start and end, in seconds

_UNNEEDED_S = max(UNNEEDED.values()).total_seconds()
NODE_OVERHEAD_S = NODE_BOOT_S + _UNNEEDED_S
"""Paid seconds of a node besides its work: its start, and the time that it must be empty before it is removed."""


def changes(spans: Iterable[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Return the instants at which the demand changes, and the demand from then on; `spans` are start, end, amount."""
    steps: dict[float, float] = {}
    for start, end, amount in spans:
        steps[start] = steps.get(start, 0.0) + amount
        steps[end] = steps.get(end, 0.0) - amount
    demand, course = 0.0, list[tuple[float, float]]()
    for at in sorted(steps):
        demand += steps[at]
        course.append((at, demand))
    return course


def peak_at_once(spans: Iterable[Span]) -> int:
    """Return the largest number of overlapping spans; a span that ends when another starts does not overlap it."""
    return round(max((demand for _, demand in changes((start, end, 1.0) for start, end in spans)), default=0.0))


def spread_node_hours(spans: Sequence[Span], copies: int) -> float:
    """Return the node-hours of spans on nodes that hold `copies` each, where no span is ever moved.

    As kube-scheduler spreads pods, a span goes to the emptiest existing node, and a node is removed once it has been
    empty for the autoscaler's unneeded time. This shows how a few long jobs keep large nodes. `spans` are in the order
    of their starts.
    """
    return _Spread(copies).hours(spans)


class _Spread:
    def __init__(self, copies: int) -> None:
        self._copies = copies
        self._ends: list[tuple[float, int]] = []
        self._used: dict[int, int] = {}
        self._born: list[float] = []
        self._gone: list[float] = []  # when an empty node may be removed; a node may become empty several times
        # nodes by pods on them; a dict keeps their order of arrival, so that ties are broken the same way each time
        self._by_used: list[dict[int, None]] = [{} for _ in range(copies + 1)]
        self._node_s = 0.0

    def hours(self, spans: Sequence[Span]) -> float:
        for start, end in spans:
            self._end_until(start)
            node = self._emptiest(start)
            self._move(node, 1)
            heapq.heappush(self._ends, (end, node))
        self._end_until(float("inf"))
        for node in self._by_used[0]:
            self._node_s += self._gone[node] - self._born[node]
        return self._node_s / 3600

    def _end_until(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            end, node = heapq.heappop(self._ends)
            self._move(node, -1)
            self._gone[node] = end + _UNNEEDED_S

    def _emptiest(self, now: float) -> int:
        empty = self._by_used[0]
        while empty:
            node = next(iter(empty))  # the one that has been empty longest
            if self._gone[node] > now:
                return node
            del empty[node]
            self._node_s += self._gone[node] - self._born[node]
        for used in range(1, self._copies):
            if self._by_used[used]:
                return next(iter(self._by_used[used]))
        self._born.append(now - NODE_BOOT_S)
        self._gone.append(now)
        node = len(self._born) - 1
        self._used[node] = 0
        self._by_used[0][node] = None
        return node

    def _move(self, node: int, by: int) -> None:
        used = self._used[node]
        del self._by_used[used][node]
        self._used[node] = used + by
        self._by_used[used + by][node] = None
