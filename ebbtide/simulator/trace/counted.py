"""Requests per window as they are in the file, for what serves them: no jobs are made of them.

A window that holds no row of a queue while others have one is a quiet one of that queue; a window that `gaps_of` calls
missing has no count at all. `iat_cv`, the coefficient of variation of the times between two requests, may be left out,
as a column or in a cell: what came is then taken to be independent of each other (1).
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbtide.simulator.trace import requests as request_trace
from ebbtide.simulator.trace.requests import Window, gaps_of, windows_of
from ebbtide.simulator.trace.table import Table, TraceError, split
from ebbtide.simulator.trace.traces import bundled, bundled_path
from ebbtide.units.durations import DAY_S

CV = "iat_cv"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedQueue:
    """By window from second 0; None: missing."""

    counts: tuple[float | None, ...]
    cv: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    name: str
    window_s: float
    queues: Mapping[str, CountedQueue]

    @property
    def totals(self) -> tuple[float | None, ...]:
        """Of all queues together."""
        each = zip(*(queue.counts for queue in self.queues.values()), strict=True)
        return tuple(None if None in counts else sum(count or 0.0 for count in counts) for counts in each)

    @property
    def days(self) -> float:
        return len(self.totals) * self.window_s / DAY_S

    def only(self, queue: str) -> "RequestTrace":
        """Raises `TraceError` for a queue that it does not have."""
        if queue not in self.queues:
            known = ", ".join(self.queues)
            raise TraceError(f"trace {self.name}: wanted one of its queues, found {queue!r} (they are {known})")
        return RequestTrace(name=f"{self.name}: {queue}", window_s=self.window_s, queues={queue: self.queues[queue]})


def find_requests(path_or_name: str, queue: str | None = None) -> RequestTrace:
    """A file of requests per window, or a bundled one by its name; all of it, or one queue. Raises `TraceError`."""
    found = _read(path_or_name)
    return found if queue is None else found.only(queue)


def _read(path_or_name: str) -> RequestTrace:
    path = Path(path_or_name)
    if path_or_name in bundled() and not path.is_file():
        path = bundled_path(path_or_name)
    table = Table(path)
    try:
        header, lines = split(table.text())
    except FileNotFoundError as error:
        raise TraceError(f"{path}: no such file (bundled traces: {', '.join(bundled())})") from error
    except csv.Error as error:
        raise TraceError(f"{path}: row 1: wanted CSV: {error}") from error
    wanted = request_trace.COLUMNS
    if any(header.count(column) != 1 for column in wanted) or header.count(CV) > 1:
        raise TraceError(
            f"{path}: row 1: wanted {','.join(wanted)} (requests per window), found {','.join(header) or 'nothing'} "
            "(for example requests-servegen-m-small)"
        )
    columns = (*wanted, CV) if CV in header else wanted
    varied: list[float] = []
    windows: list[Window] = []
    for row, window in windows_of(table, table.rows(header, lines, columns)):
        windows.append(window)
        varied.append(_variation(row.cells.get(CV, "")))
    table.refuse()
    if not sum(window.requests for window in windows):
        raise TraceError(f"{path}: wanted at least one request in all, found none in {len(windows)} windows")
    return _counted(path.name.removesuffix(".gz").removesuffix(".csv"), windows, varied)


def _variation(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        return 1.0
    return found if math.isfinite(found) and 0 < found < 1000 else 1.0


def _counted(name: str, windows: Sequence[Window], varied: Sequence[float]) -> RequestTrace:
    length = windows[0].window_s
    size = round(windows[-1].t_s / length) + 1
    missing = [False] * size
    for begin, until in gaps_of(windows, length):
        for place in range(round(begin / length), min(size, round(until / length))):
            missing[place] = True
    counts: dict[str, list[float]] = {window.queue: [0.0] * size for window in windows}
    cv: dict[str, list[float]] = {queue: [1.0] * size for queue in counts}
    for window, variation in zip(windows, varied, strict=True):
        place = round(window.t_s / length)
        counts[window.queue][place] += window.requests
        cv[window.queue][place] = variation
    queues = {
        queue: CountedQueue(
            counts=tuple(None if gone else count for count, gone in zip(of_queue, missing, strict=True)),
            cv=tuple(cv[queue]),
        )
        for queue, of_queue in counts.items()
    }
    return RequestTrace(name=name, window_s=length, queues=queues)
