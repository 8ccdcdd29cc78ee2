"""The cheapest mix of fractional nodes that offers at least what is needed: a covering problem, solved exactly.

Minimise `price · x` with `offer · x >= need` and `x >= 0`. It is asked again for every change of the need, so the
method is the dual simplex: the last answer's prices stay valid whatever is needed, and a few exchanges lead to the next
answer. Why that is the least anyone pays is in docs/explanation/bound.md; the proof needs only that the answer's prices
undercut no node.
Leaving and entering variables are the first in a fixed order (Bland's rule), so it always ends.
"""

from collections.abc import Sequence

_TINY = 1e-9
_FRESH_AFTER = 200
"""Exchanges before the table is made anew: each one rounds a little."""


class NotOffered(ValueError):
    """Something is needed that no node has."""


class Covering:
    """`offers[i][r]`: how much of resource r one node of shape i has; `prices[i]`: what it costs, above 0."""

    def __init__(self, offers: Sequence[Sequence[float]], prices: Sequence[float]) -> None:
        self._offers = offers
        self._prices = prices
        self._shapes = len(prices)
        self._rows = len(offers[0]) if offers else 0
        self._begin()

    def _begin(self) -> None:
        """Nothing is bought. One column per shape, then one per resource for what is left over of it."""
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
        bought = [0.0] * self._shapes
        for variable, amount in zip(self._basis, amounts, strict=True):
            if variable < self._shapes:
                bought[variable] = max(0.0, amount)
        return tuple(bought)

    def resource_prices(self) -> tuple[float, ...]:
        """What one unit of each resource is worth in the last answer: no node is worth more than its price."""
        return tuple(self._reduced[self._shapes :])

    def _amounts(self, need: Sequence[float]) -> list[float]:
        first = self._shapes
        return [-sum(row[first + r] * need[r] for r in range(self._rows)) for row in self._table]

    def _short_row(self, amounts: Sequence[float]) -> int | None:
        short = [row for row, amount in enumerate(amounts) if amount < -_TINY]
        return min(short, key=lambda row: self._basis[row]) if short else None

    def _exchange(self, row: int) -> None:
        """Let the first variable that is short leave, for the one that keeps every node worth at most its price."""
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
