"""A strategy's series over a piece of the replay: the whole of it, or one local day looked at closely.

Step series with thousands of changes, cut down to what a picture can show without losing a peak.

Time is cut into equal columns. Of the samples that start in one column only the first smallest, the first largest and
the last are kept: every extreme stays visible, and every column is left with the value that truly holds there. What is
kept is spread evenly over its column, since a spike a thousandth of a column wide would be drawn and yet not be seen.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.report.charts.scales import DAY, Day, horizon_of, local_days, total_nodes
from ebbtide.simulator.results import Replay, Series

_NEARLY_A_DAY = 0.95 * DAY  # a day of 23 hours is a whole one, a replay's first afternoon is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Seconds count from `start`; the series is cut to [0, `horizon`)."""

    start: datetime
    horizon: float
    open_spans: tuple[tuple[float, float], ...]
    series: Series
    gaps: tuple[tuple[float, float], ...] = ()  # where the trace recorded nothing

    @property
    def days(self) -> tuple[Day, ...]:
        return local_days(self.start, self.horizon)


def whole(replay: Replay, strategy: str) -> Stretch:
    return Stretch(
        start=replay.start,
        horizon=horizon_of(replay),
        open_spans=replay.open_spans,
        series=replay.strategies[strategy].series,
        gaps=replay.gaps,
    )


def cut(stretch: Stretch, day: Day) -> Stretch:
    """The part that lies in `day`, its own second 0 at the day's beginning."""
    begin = stretch.start.astimezone(UTC) + timedelta(seconds=day.begin)
    return Stretch(
        start=begin.astimezone(stretch.start.tzinfo),
        horizon=day.end - day.begin,
        open_spans=_cut_spans(stretch.open_spans, day),
        series=_cut_series(stretch.series, day),
        gaps=_cut_spans(stretch.gaps, day),
    )


def _cut_spans(spans: Sequence[tuple[float, float]], day: Day) -> tuple[tuple[float, float], ...]:
    inside = [(max(begin, day.begin), min(end, day.end)) for begin, end in spans]
    return tuple((begin - day.begin, end - day.begin) for begin, end in inside if begin < end)


def _cut_series(series: Series, day: Day) -> Series:
    first = max(0, bisect_right(series.at, day.begin) - 1)  # what held when the day began
    kept = [index for index in range(first, len(series.at)) if series.at[index] < day.end]

    def picked(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values[index] for index in kept)

    return Series(
        at=tuple(max(0.0, series.at[index] - day.begin) for index in kept),
        nodes={group: picked(counts) for group, counts in series.nodes.items()},
        waiting=picked(series.waiting),
        running=picked(series.running),
    )


def telling_day(stretch: Stretch) -> Day:
    """The day to look at closely: of the whole days with business hours, else of all, the one with the most nodes."""
    days = stretch.days
    working = [day for day in days if any(begin < day.end and end > day.begin for begin, end in stretch.open_spans)]
    entire = [day for day in working or days if day.end - day.begin >= _NEARLY_A_DAY]
    totals = total_nodes(stretch.series)
    peaks = peaks_of(stretch.series.at, totals, [(day.begin, day.end) for day in days])
    peak_of: Mapping[Day, int] = dict(zip(days, peaks, strict=True))
    return max(entire or working or days, key=peak_of.__getitem__)


def peaks_of(at: Sequence[float], values: Sequence[int], spans: Sequence[tuple[float, float]]) -> list[int]:
    """The largest value that holds at some time in each span; spans ascend."""
    return [max((value for _, value in _held(at, values, span)), default=0) for span in spans]


def amounts_of(at: Sequence[float], values: Sequence[int], spans: Sequence[tuple[float, float]]) -> list[float]:
    """The integral of the values over each span, in value-seconds; spans ascend."""
    return [sum(seconds * value for seconds, value in _held(at, values, span)) for span in spans]


def _held(at: Sequence[float], values: Sequence[int], span: tuple[float, float]) -> Iterator[tuple[float, int]]:
    """Each value that holds in the span, with how long."""
    begin, end = span
    for index in range(max(0, bisect_right(at, begin) - 1), len(at)):
        if at[index] >= end:
            return
        until = min(end, at[index + 1] if index + 1 < len(at) else end)
        seconds = until - max(begin, at[index])
        if seconds > 0:
            yield seconds, values[index]


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
