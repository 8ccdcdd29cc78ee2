"""Read a service's requests from its stack's Prometheus as a trace, and its latency at quiet times.

Prometheus records pods' answers a second, by variant. A request that no pod answered is not among them, so a history
with lost requests counts slightly too few. A window without a recording is missing. Latency is measured at the gateway:
at the quietest times it is the time of one request on an idle pod.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide.monitoring.client import Course, Prometheus, Series, Unknown
from ebbtide.monitoring.recorded import Recorded
from ebbtide.simulator.trace.counted import CountedQueue, RequestTrace
from ebbtide.units.durations import duration, format_duration

WINDOW = timedelta(minutes=10)
QUIET = 0.1
"""Share of all times, the quietest, in which no request waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    prometheus: Prometheus
    customer: str
    since: timedelta  # how far back, until `now`
    now: datetime  # aware


@dataclass(frozen=True, slots=True)
class History:
    trace: RequestTrace
    start: datetime  # aware: second 0 of the trace


def recorded_requests(query: HistoryQuery, service: str, variants: Sequence[str]) -> History | Unknown:
    """Return full windows until now, from the first recorded one; each of these variants is a queue of the trace."""
    windows = max(1, int(query.since / WINDOW))
    start = query.now - windows * WINDOW
    counts: dict[str, list[float | None]] = {}
    unknown: Unknown | None = None
    for variant in variants:
        course = _over(query, Recorded.THROUGHPUT, service, variant, start, "avg_over_time")
        if isinstance(course, Unknown):
            unknown = course
        else:
            counts[variant] = _counts(course, start, windows)
    recorded = [any(series[window] is not None for series in counts.values()) for window in range(windows)]
    if not any(count for series in counts.values() for count in series):
        return unknown or Unknown(f"{query.prometheus.where} has recorded no request of {service}")
    first = recorded.index(True)
    queues = {variant: _queue(series[first:], recorded[first:]) for variant, series in counts.items()}
    name = f"the last {duration((windows - first) * WINDOW.total_seconds())} in Prometheus"
    trace = RequestTrace(name=name, window_s=WINDOW.total_seconds(), queues=queues)
    return History(trace, start + first * WINDOW)


def _counts(course: Sequence[Series], start: datetime, windows: int) -> list[float | None]:
    counts: list[float | None] = [None] * windows
    for series in course:
        for at, rate in series.points:
            window = round((at - start) / WINDOW) - 1
            if 0 <= window < windows:
                counts[window] = max(0.0, rate) * WINDOW.total_seconds()
    return counts


def _queue(counts: Sequence[float | None], recorded: Sequence[bool]) -> CountedQueue:
    """Count 0 in windows in which only another variant was recorded."""
    filled = tuple((count or 0.0) if known else None for count, known in zip(counts, recorded, strict=True))
    return CountedQueue(counts=filled, cv=(1.0,) * len(filled))


def quiet_latency(query: HistoryQuery, service: str, variant: str) -> float | Unknown:
    """Return seconds: the median latency at quiet times."""
    course = _over(query, Recorded.MEDIAN_LATENCY, service, variant, query.now - query.since, "min_over_time")
    if isinstance(course, Unknown):
        return course
    latencies = sorted(value for series in course for _, value in series.points if value > 0)
    if not latencies:
        return Unknown(f"{query.prometheus.where} has recorded no latency of {service} {variant}".rstrip())
    return latencies[math.ceil(QUIET * len(latencies)) - 1]


def _over(query: HistoryQuery, record: Recorded, service: str, variant: str, start: datetime, function: str) -> Course:
    """Return one value per window, at its end."""
    series = record.of(query.customer, service=service, variant=variant)
    expression = f"max({function}({series}[{format_duration(WINDOW)}]))"
    return query.prometheus.over(expression, start + WINDOW, WINDOW, stands_on=(), called=series)
