"""Step series with thousands of changes, cut down to what a picture can show without losing a peak.

Time is cut into equal columns. Of the samples that start in one column only the first smallest, the first largest and
the last are kept: every extreme stays visible, and every column is left with the value that truly holds there. What is
kept is spread evenly over its column, since a spike a thousandth of a column wide would be drawn and yet not be seen.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    column: float  # where the value begins to hold, in columns from the left
    value: int


def thin(at: Sequence[float], values: Sequence[int], *, end: float, columns: int) -> list[Step]:
    """The steps to draw for a series over [0, `end`), at most three for each of `columns`; equal neighbours are one.

    Shape: `at` ascends, one value each, as in `Series`. A value before 0 counts as held at 0; those from `end` on are
    left out. The first step is at column 0; before the first sample the value is 0.
    """
    steps = [Step(0.0, 0)]
    for column, (begin, stop) in enumerate(column_slices(at, end=end, columns=columns)):
        kept = _telling(values, begin, stop)
        for place, index in enumerate(kept):
            _append(steps, Step(column + place / len(kept), values[index]))
    return steps


def column_slices(at: Sequence[float], *, end: float, columns: int) -> Iterator[tuple[int, int]]:
    """For each column the range of the samples that start in it; what comes before 0 belongs to the first."""
    begin = 0
    for column in range(columns):
        stop = bisect_left(at, end * (column + 1) / columns, lo=begin)
        yield begin, stop
        begin = stop


def _telling(values: Sequence[int], begin: int, stop: int) -> list[int]:
    if begin == stop:
        return []
    indices = range(begin, stop)
    lowest = min(indices, key=values.__getitem__)
    highest = max(indices, key=values.__getitem__)
    return sorted({lowest, highest, stop - 1})


def _append(steps: list[Step], step: Step) -> None:
    if step.column == steps[-1].column:
        steps[-1] = step
    elif step.value != steps[-1].value:
        steps.append(step)
