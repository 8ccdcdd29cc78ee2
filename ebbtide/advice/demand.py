"""What a list of jobs wants when nothing makes it wait: peaks, and the node-hours of nodes of one size.

"Wanted at once" starts every job when it is submitted. It is a load's own shape, free of any cluster: no scaler can
need more workers than its peak without keeping idle ones.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ebbtide.simulator.strategies.plans import NODE_BOOT_S, UNNEEDED_S

Span: TypeAlias = tuple[float, float]  # start and end, in seconds

_UNNEEDED_S = max(UNNEEDED_S.values())
NODE_OVERHEAD_S = NODE_BOOT_S + _UNNEEDED_S
"""What a node is paid for besides its work: its start, and the time it has to be empty before it may go."""


def changes(spans: Iterable[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """The instants at which the amount wanted changes, and the amount from then on; `spans` are start, end, amount."""
    steps: dict[float, float] = {}
    for start, end, amount in spans:
        steps[start] = steps.get(start, 0.0) + amount
        steps[end] = steps.get(end, 0.0) - amount
    wanted, found = 0.0, list[tuple[float, float]]()
    for at in sorted(steps):
        wanted += steps[at]
        found.append((at, wanted))
    return found


def peak_at_once(spans: Iterable[Span]) -> int:
    """The most spans that overlap; one that ends when another starts does not overlap it."""
    return round(max((wanted for _, wanted in changes((start, end, 1.0) for start, end in spans)), default=0.0))


def spread_node_hours(spans: Sequence[Span], copies: int) -> float:
    """Node-hours of spans on nodes that hold `copies` each, where nothing is ever moved.

    As kube-scheduler spreads: a span goes to the emptiest node that is there, and a node goes once it has been empty
    for the autoscaler's unneeded time. So large nodes are kept by a few long jobs, which is what this is to show.
    `spans` are in the order of their starts.
    """
    return _Spread(copies).hours(spans)


class _Spread:
    def __init__(self, copies: int) -> None:
        self._copies = copies
        self._ends: list[tuple[float, int]] = []
        self._used: dict[int, int] = {}
        self._born: list[float] = []
        self._gone: list[float] = []  # when an empty node may go; a node is empty again and again
        # nodes by pods on them; a dict keeps the order in which they came, so that equals are told apart the same way
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
