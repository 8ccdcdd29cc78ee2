"""The requests of a service as its stack's Prometheus recorded them, as a trace; and what its answers took.

What is recorded are answers of pods a second, by variant. A request that no pod answered is not among them, so a
history in which requests were lost is a little too short of them. Where nothing was recorded a window is missing.
Latency is that of the gateway: the quietest times tell what one request takes on a pod that has nothing else to do.
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
"""Of all times: in the quietest of them nothing waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    prometheus: Prometheus
    customer: str
    since: timedelta  # how far back, until `now`
    now: datetime  # aware


@dataclass(frozen=True, slots=True)
class History:
    trace: RequestTrace
    start: datetime  # aware: second 0 of the trace


def recorded_requests(asking: Asking, service: str, variants: Sequence[str]) -> History | Unknown:
    """In whole windows until now, from the first that was recorded; each of these variants is a queue of the trace."""
    windows = max(1, int(asking.since / WINDOW))
    start = asking.now - windows * WINDOW
    counts: dict[str, list[float | None]] = {}
    unknown: Unknown | None = None
    for variant in variants:
        course = _over(asking, Recorded.THROUGHPUT, service, variant, start, "avg_over_time")
        if isinstance(course, Unknown):
            unknown = course
        else:
            counts[variant] = _counts(course, start, windows)
    seen = [any(it[place] is not None for it in counts.values()) for place in range(windows)]
    if not any(count for it in counts.values() for count in it):
        return unknown or Unknown(f"{asking.prometheus.where} has recorded no request of {service}")
    first = seen.index(True)
    queues = {variant: _queue(it[first:], seen[first:]) for variant, it in counts.items()}
    name = f"the last {duration((windows - first) * WINDOW.total_seconds())} in Prometheus"
    trace = RequestTrace(name=name, window_s=WINDOW.total_seconds(), queues=queues)
    return History(trace, start + first * WINDOW)


def _counts(course: Sequence[Series], start: datetime, windows: int) -> list[float | None]:
    found: list[float | None] = [None] * windows
    for series in course:
        for at, rate in series.points:
            place = round((at - start) / WINDOW) - 1
            if 0 <= place < windows:
                found[place] = max(0.0, rate) * WINDOW.total_seconds()
    return found


def _queue(counts: Sequence[float | None], seen: Sequence[bool]) -> CountedQueue:
    """Where another variant was seen and this one was not, it had nothing."""
    known = tuple((count or 0.0) if here else None for count, here in zip(counts, seen, strict=True))
    return CountedQueue(counts=known, cv=(1.0,) * len(known))


def quiet_latency(asking: Asking, service: str, variant: str) -> float | Unknown:
    """Seconds: the median of answers at quiet times."""
    course = _over(asking, Recorded.MEDIAN_LATENCY, service, variant, asking.now - asking.since, "min_over_time")
    if isinstance(course, Unknown):
        return course
    known = sorted(value for series in course for _, value in series.points if value > 0)
    if not known:
        return Unknown(f"{asking.prometheus.where} has recorded no latency of {service} {variant}".rstrip())
    return known[math.ceil(QUIET * len(known)) - 1]


def _over(asking: Asking, record: Recorded, service: str, variant: str, start: datetime, function: str) -> Course:
    """By window, at its end."""
    series = record.of(asking.customer, service=service, variant=variant)
    expression = f"max({function}({series}[{format_duration(WINDOW)}]))"
    return asking.prometheus.over(expression, start + WINDOW, WINDOW, stands_on=(), called=series)
