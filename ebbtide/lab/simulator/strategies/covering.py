"""The cheapest mix of fractional nodes that covers a need: a covering problem, solved exactly.

Minimise `price · x` with `offer · x >= need` and `x >= 0`. The need changes often, so the method is the dual simplex:
the prices of the last solution stay valid for any need, and a few exchanges lead to the next solution. The proof that
no strategy pays less is in docs/explanation/bound.md; it needs only that these prices undercut no node. Leaving and
entering variables are the first in a fixed order (Bland's rule), so the method always ends.
"""

from collections.abc import Sequence

_TINY = 1e-9
_FRESH_AFTER = 200
"""Exchanges before the table is built again: each one rounds a little."""


class NotOffered(ValueError):
    """No node has a resource that is needed."""


class Covering:
    """`offers[i][r]`: the amount of resource r of a node of shape i; `prices[i]`: its price, above 0."""

    def __init__(self, offers: Sequence[Sequence[float]], prices: Sequence[float]) -> None:
        self._offers = offers
        self._prices = prices
        self._shapes = len(prices)
        self._rows = len(offers[0]) if offers else 0
        self._begin()

    def _begin(self) -> None:
        """Buy nothing. One column per shape, then one per resource for its surplus."""
        rows = range(self._rows)
        self._table = [
            [-offer[row] for offer in self._offers] + [1.0 if row == other else 0.0 for other in rows] for row in rows
        ]
        self._basis = [self._shapes + row for row in rows]
        self._reduced = [*self._prices, *(0.0 for _ in rows)]
        self._exchanges = 0

    def cheapest(self, need: Sequence[float]) -> tuple[float, ...]:
        """Nodes of each shape. Raises `NotOffered`."""
        if self._exchanges >= _FRESH_AFTER:
            self._begin()
        while (row := self._short_row(amounts := self._amounts(need))) is not None:
            self._exchange(row)
        nodes = [0.0] * self._shapes
        for variable, amount in zip(self._basis, amounts, strict=True):
            if variable < self._shapes:
                nodes[variable] = max(0.0, amount)
        return tuple(nodes)

    def resource_prices(self) -> tuple[float, ...]:
        """The value of one unit of each resource in the last solution: no node is worth more than its price."""
        return tuple(self._reduced[self._shapes :])

    def _amounts(self, need: Sequence[float]) -> list[float]:
        first = self._shapes
        return [-sum(row[first + r] * need[r] for r in range(self._rows)) for row in self._table]

    def _short_row(self, amounts: Sequence[float]) -> int | None:
        short = [row for row, amount in enumerate(amounts) if amount < -_TINY]
        return min(short, key=lambda row: self._basis[row]) if short else None

    def _exchange(self, row: int) -> None:
        """Replace a short variable by the one that keeps every node worth at most its price."""
        leaving = self._table[row]
        ratios = [(self._reduced[j] / -value, j) for j, value in enumerate(leaving) if value < -_TINY]
        if not ratios:
            raise NotOffered("a resource is needed that no node has")
        least = min(ratios)[0]
        entering = min(j for ratio, j in ratios if ratio <= least + _TINY)
        pivot = leaving[entering]
        leaving = self._table[row] = [value / pivot for value in leaving]
        for other, values in enumerate(self._table):
            if other != row and values[entering]:
                factor = values[entering]
                self._table[other] = [value - factor * part for value, part in zip(values, leaving, strict=True)]
        factor = self._reduced[entering]
        self._reduced = [max(0.0, r - factor * part) for r, part in zip(self._reduced, leaving, strict=True)]
        self._basis[row] = entering
        self._exchanges += 1
