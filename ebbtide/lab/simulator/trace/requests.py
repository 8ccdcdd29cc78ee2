"""The conversion of requests per window into work for a queue by stated rules: the result is synthetic.

A request file counts requests; it has neither their durations nor their times within a window. So:

- A batch is half a window of work for one worker with one GPU. Its number of requests is chosen so that `MEAN_WORKERS`
  workers are busy on average over the windows with data. This one constant scales the file to a small platform and
  preserves its shape over time and among queues.
- The requests of a queue add up to batches; the remainder of a window is carried into the next one.
- The batches of a window are spread evenly over it. Shorter bursts are not in the file, so they are not modelled.
- A window in which all of several queues are empty, or without rows, is missing data, not an idle hour. Nothing is
  submitted then; an assumption states it, since it looks like a quiet time. The remainder of the last day is missing,
  too. With a single queue a quiet window cannot be told from a missing one: it counts as quiet.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan

from ebbtide.lab.simulator.trace.jobs import Job, Trace
from ebbtide.lab.simulator.trace.table import Number, Table, TraceError, TraceRow
from ebbtide.text.durations import DAY_S

COLUMNS = ("t_s", "window_s", "queue", "requests")
MEAN_WORKERS = 10.0
BATCH_OF_WINDOW = 0.5
CORES, MEMORY_GIB, GPUS = 3.0, 12.0, 1.0  # a node of 4 vCPUs, 16 GiB and one GPU, less the system's share

_LONGEST_S = 366 * DAY_S
_TIME = Number("t_s", "a number from 0 to 31622400 (366 days)", "600", most=_LONGEST_S)
_WINDOW = Number("window_s", "a number from 1 to 86400", "600", above=1.0, most=86_400.0)
_REQUESTS = Number("requests", "a number from 0 to 1e12", "227350", most=1e12)


@dataclass(frozen=True, slots=True)
class Window:
    t_s: float
    window_s: float
    queue: str
    requests: float


def batches_of(table: Table, name: str, rows: Iterator[TraceRow]) -> Trace:
    """Read the windows and turn them into batches, which are jobs. Raises `TraceError`."""
    windows = [window for _, window in windows_of(table, rows)]
    table.refuse()
    total = sum(window.requests for window in windows)
    if total < 1:
        raise TraceError(f"{table.path}: wanted at least one request in all, found {total:g} in {len(windows)} windows")
    length = windows[0].window_s
    gaps = gaps_of(windows, length)
    starts = {window.t_s for window in windows}
    known_s = length * sum(not any(begin <= t < until for begin, until in gaps) for t in starts)
    duration = length * BATCH_OF_WINDOW
    per_batch = total * duration / (MEAN_WORKERS * known_s)
    batches = sorted(_spread(windows, per_batch), key=lambda job: (job.submitted_at, job.queue))
    return Trace(name, tuple(batches), tuple(_remarks(gaps, per_batch, duration)), gaps, counted=True)


def windows_of(table: Table, rows: Iterator[TraceRow]) -> Iterator[tuple[TraceRow, Window]]:
    """The windows with their rows; problems are noted in the table."""
    previous, length = 0.0, None
    for row in rows:
        t_s, window_s, requests = (table.number(row, column) for column in (_TIME, _WINDOW, _REQUESTS))
        if isnan(t_s + window_s + requests):
            continue
        length = length or window_s
        if t_s < previous:
            table.bad_cell(row, Number("t_s", f"a time not before the row above ({previous:g})", ""), f"{t_s:g}")
        elif previous < t_s < previous + length:
            wanted = f"the same window as the row above ({previous:g}), or one after its end"
            table.bad_cell(row, Number("t_s", wanted, f"{previous + length:g}"), f"{t_s:g}")
        elif window_s != length:
            table.bad_cell(row, Number("window_s", "windows of one length", f"{length:g}"), f"{window_s:g}")
        previous = t_s
        yield row, Window(t_s, window_s, row.cells["queue"], requests)


def gaps_of(windows: Sequence[Window], length: float) -> tuple[tuple[float, float], ...]:
    """Spans without data; adjacent ones are joined."""
    several = len({window.queue for window in windows}) > 1
    by_start: Counter[float] = Counter()
    for window in windows:
        by_start[window.t_s] += window.requests > 0
    spans = [(t, t + length) for t, busy in by_start.items() if several and not busy]
    end_of_data = max(by_start) + length
    spans += [(t + length, after) for t, after in pairwise(sorted(by_start)) if after > t + length]
    if end_of_data % DAY_S:
        spans.append((end_of_data, (end_of_data // DAY_S + 1) * DAY_S))
    joined: list[tuple[float, float]] = []
    for begin, until in sorted(spans):
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], until)
        else:
            joined.append((begin, until))
    return tuple(joined)


def _spread(windows: Sequence[Window], per_batch: float) -> Iterator[Job]:
    """The batches of each queue, evenly over the window in which they became complete."""
    submitted: Counter[str] = Counter()
    requests: dict[str, float] = {}
    for window in windows:
        requests[window.queue] = requests.get(window.queue, 0.0) + window.requests
        count = int(requests[window.queue] / per_batch + 0.5) - submitted[window.queue]
        submitted[window.queue] += count
        for i in range(count):
            at = window.t_s + (i + 0.5) / count * window.window_s
            yield Job(at, window.window_s * BATCH_OF_WINDOW, window.queue, CORES, MEMORY_GIB, GPUS)


def _remarks(gaps: Sequence[tuple[float, float]], per_batch: float, duration: float) -> Iterator[str]:
    yield (
        f"Synthetic: the file counts requests per window, and every {per_batch:,.1f} requests of a queue became one "
        f"batch of work of {duration:g} s for a worker with {GPUS:g} GPU, {CORES:g} cores and {MEMORY_GIB:g} GiB, so "
        f"that {MEAN_WORKERS:g} workers are busy on average; the batches of a window are spread evenly over it. Counts "
        "over time are data; size, length and times within a window are not."
    )
    if gaps:
        hours = sum(until - begin for begin, until in gaps) / 3600
        yield (
            f"{hours:.3g} hours between hours {gaps[0][0] / 3600:.4g} and {gaps[-1][1] / 3600:.4g} hold no data of any "
            "queue: missing, not idle; nothing is submitted then, which looks like a quiet time."
        )
