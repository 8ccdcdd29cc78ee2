"""From seconds and amounts to pixels: local days, round ticks, and step series thinned to what a picture can show.

Trap: subtracting two aware instants of one zone subtracts their wall clocks. Everything here goes through UTC, so that
a day of 23 or 25 hours is drawn as wide as it was.

Thinning cuts time into equal columns. Of the samples that start in one column only the first smallest, the first
largest and the last are kept: every extreme stays visible, and every column ends with its true value. Those samples are
spread evenly over their column, since a spike a thousandth of a column wide would be drawn and yet not be seen.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.lab.simulator.results import ClusterSeries, Replay
from ebbtide.text.durations import DAY_S as DAY

_NOTHING = 1e-6  # jobs, nodes or dollars: no axis needs finer ticks
_LABEL = 50.0  # pixels: `30 Nov` and a space
_FORTNIGHT = 14  # days: over more days, readers look for weeks
_QUARTER = 900.0  # every zone's offset is a whole number of quarter hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The plot area of one panel, in pixels of its picture."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


@dataclass(frozen=True, slots=True)
class Day:
    """One local calendar day, cut to the replay: seconds from the start."""

    begin: float
    end: float
    weekday: str
    date: str


def local_days(start: datetime, horizon: float) -> tuple[Day, ...]:
    """The local days that [0, `horizon`) touches, in order and without a gap."""
    days: list[Day] = []
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = 0.0
    while begin < horizon:
        following = midnight + timedelta(days=1)  # wall time: the next local midnight, however long the day is
        end = min(horizon, _seconds_between(start, following))
        days.append(Day(begin, end, f"{midnight:%a}", f"{midnight.day} {midnight:%b}"))
        begin, midnight = end, following
    return tuple(days)


def labelled(days: tuple[Day, ...], width: float) -> tuple[Day, ...]:
    """Return the days with a label on an axis of `width` pixels: all if they fit, else Mondays, else every nth day."""
    room = max(1, int(width / _LABEL))
    if len(days) <= room:
        return days
    longest = max(day.end - day.begin for day in days)
    entire = tuple(day for day in days if day.end - day.begin > longest / 2)  # not a replay's last minutes
    mondays = tuple(day for day in entire if day.weekday == "Mon")
    chosen = mondays if len(days) > _FORTNIGHT else entire
    return chosen[:: math.ceil(len(chosen) / room)]


@dataclass(frozen=True, slots=True)
class Hour:
    """A full hour on the customer's clock."""

    at: float
    text: str


def local_hours(start: datetime, horizon: float, width: float) -> tuple[Hour, ...]:
    """Full hours in [0, `horizon`] as far apart as labels need; an hour that a clock change repeats comes twice."""
    step = next(step for step in (1, 2, 3, 4, 6, 12, 24) if step == 24 or width * step * 3600 / horizon >= _LABEL)
    begin = start.astimezone(UTC)
    hours: list[Hour] = []
    for quarter in range(int(horizon // _QUARTER) + 2):
        local = (begin + timedelta(seconds=quarter * _QUARTER - begin.timestamp() % _QUARTER)).astimezone(start.tzinfo)
        at = _seconds_between(start, local)
        if 0 <= at <= horizon and local.minute == 0 and local.hour % step == 0:
            hours.append(Hour(at, f"{local:%H:%M}"))
    return tuple(hours)


def local_label(start: datetime, seconds: float) -> str:
    """`Tue 3 Mar 14:20`, on the customer's clock."""
    local = (start.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(start.tzinfo)
    return f"{local:%a} {local.day} {local:%b} {local:%H:%M}"


def horizon_of(replay: Replay) -> float:
    """Return the end of the time axis: the replay's days, or a later last change of a strategy."""
    last = max((result.series.at[-1] for result in replay.strategies.values() if result.series.at), default=0.0)
    return max(replay.days * DAY, last, 1.0)


def nice_ticks(top: float, *, count: int = 5, integers: bool = True) -> list[float]:
    """Round values from 0 to at least `top`, about `count` of them; `integers` for countable things.

    The spacing with the least empty space above `top` is chosen.
    """
    if top < _NOTHING:
        return [0.0, 1.0]
    choices = [_ticks(top, intervals, integers=integers) for intervals in range(count - 1, count + 3)]
    return min(choices, key=lambda ticks: (ticks[-1], len(ticks)))


def _ticks(top: float, intervals: int, *, integers: bool) -> list[float]:
    step = _round_step(top / intervals)
    if integers:
        step = max(1.0, math.ceil(step))
    return [index * step for index in range(math.ceil(top / step - 1e-9) + 1)]


def _round_step(rough: float) -> float:
    """The next round number."""
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough * (1 - 1e-9))


def ranged_ticks(values: Sequence[float], *, count: int = 5) -> list[float]:
    """Round values that span these, about `count` of them: for values far from zero that differ little.

    Differences below a hundredth are not magnified.
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    lacking = max(abs(high) * 0.01, _NOTHING) - (high - low)
    if lacking > 0:
        low, high = low - lacking / 2, high + lacking / 2
    step = _round_step((high - low) / max(1, count - 1))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, max(last, first + 1) + 1)]


def total_nodes(series: ClusterSeries) -> tuple[int, ...]:
    return stacked(series.nodes, len(series.at))


def stacked(nodes: Mapping[str, tuple[int, ...]], length: int) -> tuple[int, ...]:
    """The sum over the groups at each change."""
    return tuple(map(sum, zip(*nodes.values(), strict=True))) if nodes else (0,) * length


def _seconds_between(earlier: datetime, later: datetime) -> float:
    return (later.astimezone(UTC) - earlier.astimezone(UTC)).total_seconds()


_NEARLY_A_DAY = 0.95 * DAY  # a day of 23 hours is a full one, a replay's first afternoon is not


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartWindow:
    """Seconds count from `start`; the series is cut to [0, `horizon`)."""

    start: datetime
    horizon: float
    open_spans: tuple[tuple[float, float], ...]
    series: ClusterSeries
    gaps: tuple[tuple[float, float], ...] = ()  # where the trace recorded nothing

    @property
    def days(self) -> tuple[Day, ...]:
        return local_days(self.start, self.horizon)


def stretch_of(replay: Replay, strategy: str) -> ChartWindow:
    return ChartWindow(
        start=replay.start,
        horizon=horizon_of(replay),
        open_spans=replay.open_spans,
        series=replay.strategies[strategy].series,
        gaps=replay.gaps,
    )


def cut(stretch: ChartWindow, day: Day) -> ChartWindow:
    """Return the part in `day`; its second 0 is the day's beginning."""
    begin = stretch.start.astimezone(UTC) + timedelta(seconds=day.begin)
    return ChartWindow(
        start=begin.astimezone(stretch.start.tzinfo),
        horizon=day.end - day.begin,
        open_spans=_cut_spans(stretch.open_spans, day),
        series=_cut_series(stretch.series, day),
        gaps=_cut_spans(stretch.gaps, day),
    )


def _cut_spans(spans: Sequence[tuple[float, float]], day: Day) -> tuple[tuple[float, float], ...]:
    inside = [(max(begin, day.begin), min(end, day.end)) for begin, end in spans]
    return tuple((begin - day.begin, end - day.begin) for begin, end in inside if begin < end)


def _cut_series(series: ClusterSeries, day: Day) -> ClusterSeries:
    first = max(0, bisect_right(series.at, day.begin) - 1)  # the sample that holds when the day begins
    indices = [index for index in range(first, len(series.at)) if series.at[index] < day.end]

    def picked(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values[index] for index in indices)

    return ClusterSeries(
        at=tuple(max(0.0, series.at[index] - day.begin) for index in indices),
        nodes={group: picked(counts) for group, counts in series.nodes.items()},
        waiting=picked(series.waiting),
        running=picked(series.running),
    )


def busiest_day(stretch: ChartWindow) -> Day:
    """Return the day with the most nodes: of the full days with business hours, else of all days."""
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
    """Yield the seconds for which each value holds in the span, and the value."""
    begin, end = span
    for index in range(max(0, bisect_right(at, begin) - 1), len(at)):
        if at[index] >= end:
            return
        until = min(end, at[index + 1] if index + 1 < len(at) else end)
        seconds = until - max(begin, at[index])
        if seconds > 0:
            yield seconds, values[index]


@dataclass(frozen=True, slots=True)
class ChartStep:
    column: float  # where the value begins to hold, in columns from the left
    value: float


def thin(at: Sequence[float], values: Sequence[float], *, end: float, columns: int) -> list[ChartStep]:
    """The steps to draw for a series over [0, `end`), at most three for each of `columns`; equal neighbours are merged.

    Shape: `at` ascends, one value each, as in `ClusterSeries`. A value before 0 counts as held at 0; those from `end`
    on are left out. The first step is at column 0; before the first sample the value is 0.
    """
    steps = [ChartStep(0.0, 0)]
    for column, (begin, stop) in enumerate(column_slices(at, end=end, columns=columns)):
        extremes = _extremes(values, begin, stop)
        for place, index in enumerate(extremes):
            _append(steps, ChartStep(column + place / len(extremes), values[index]))
    return steps


def column_slices(at: Sequence[float], *, end: float, columns: int) -> Iterator[tuple[int, int]]:
    """Yield the range of samples that start in each column; samples before 0 belong to the first."""
    begin = 0
    for column in range(columns):
        stop = bisect_left(at, end * (column + 1) / columns, lo=begin)
        yield begin, stop
        begin = stop


def _extremes(values: Sequence[float], begin: int, stop: int) -> list[int]:
    if begin == stop:
        return []
    indices = range(begin, stop)
    lowest = min(indices, key=values.__getitem__)
    highest = max(indices, key=values.__getitem__)
    return sorted({lowest, highest, stop - 1})


def _append(steps: list[ChartStep], step: ChartStep) -> None:
    if step.column == steps[-1].column:
        steps[-1] = step
    elif step.value != steps[-1].value:
        steps.append(step)
