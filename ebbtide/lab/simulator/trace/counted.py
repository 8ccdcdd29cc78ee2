"""Requests per window of a file, for the replay of a service: they are not converted to jobs.

A window without a row of a queue, but with rows of others, has no requests of that queue. A window that `gaps_of` calls
missing has no count. `iat_cv`, the coefficient of variation of the times between requests, is optional: the column may
be missing, and a cell may be empty; the default is independent requests (1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.lab.simulator.trace import requests as request_trace
from ebbtide.lab.simulator.trace.requests import Window, gaps_of, windows_of
from ebbtide.lab.simulator.trace.table import Number, TraceError, open_table, trace_name, trace_path
from ebbtide.text.durations import DAY_S

CV = "iat_cv"
_VARIATION = Number(CV, "a number from 0.001 to 1000, or nothing", "1.12", above=0.001, most=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedQueue:
    """Counts by window from second 0; None: missing."""

    counts: tuple[float | None, ...]
    cv: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    name: str
    window_s: float
    queues: Mapping[str, CountedQueue]

    @property
    def totals(self) -> tuple[float | None, ...]:
        """Counts of all queues together."""
        windows = zip(*(queue.counts for queue in self.queues.values()), strict=True)
        return tuple(None if None in counts else sum(count or 0.0 for count in counts) for counts in windows)

    @property
    def days(self) -> float:
        return len(self.totals) * self.window_s / DAY_S

    def only(self, queue: str) -> "RequestTrace":
        """The trace with one of its queues. Raises `TraceError`."""
        if queue not in self.queues:
            queues = ", ".join(self.queues)
            raise TraceError(f"trace {self.name}: wanted one of its queues, found {queue!r} (the trace has {queues})")
        return RequestTrace(name=f"{self.name}: {queue}", window_s=self.window_s, queues={queue: self.queues[queue]})


def find_requests(path_or_name: str, queue: str | None = None) -> RequestTrace:
    """Read a file of requests per window, or a bundled one by its name: all queues, or one. Raises `TraceError`."""
    path = trace_path(path_or_name)
    with open_table(path) as table:
        header, required = table.header, request_trace.COLUMNS
        if any(header.count(column) != 1 for column in required) or header.count(CV) > 1:
            raise TraceError(
                f"{path}: row 1: wanted {','.join(required)} (requests per window), found "
                f"{','.join(header) or 'nothing'} (for example requests-servegen-m-small)"
            )
        variations: list[float] = []
        windows: list[Window] = []
        for row, window in windows_of(table, table.rows((*required, CV) if CV in header else required)):
            windows.append(window)
            variations.append(table.number(row, _VARIATION) if row.cells.get(CV) else 1.0)  # independent requests
        table.refuse()
    if not sum(window.requests for window in windows):
        raise TraceError(f"{path}: wanted at least one request in all, found none in {len(windows)} windows")
    trace = _counted(trace_name(path), windows, variations)
    return trace if queue is None else trace.only(queue)


def _counted(name: str, windows: Sequence[Window], variations: Sequence[float]) -> RequestTrace:
    length = windows[0].window_s
    size = round(windows[-1].t_s / length) + 1
    missing = [False] * size
    for begin, until in gaps_of(windows, length):
        for place in range(round(begin / length), min(size, round(until / length))):
            missing[place] = True
    counts: dict[str, list[float]] = {window.queue: [0.0] * size for window in windows}
    cv: dict[str, list[float]] = {queue: [1.0] * size for queue in counts}
    for window, variation in zip(windows, variations, strict=True):
        place = round(window.t_s / length)
        counts[window.queue][place] += window.requests
        cv[window.queue][place] = variation
    queues = {
        queue: CountedQueue(
            counts=tuple(
                None if is_missing else count for count, is_missing in zip(queue_counts, missing, strict=True)
            ),
            cv=tuple(cv[queue]),
        )
        for queue, queue_counts in counts.items()
    }
    return RequestTrace(name=name, window_s=length, queues=queues)
