"""Read a service's requests from its stack's Prometheus as a trace, and its latency at quiet times.

Prometheus records pods' answers a second, by variant. A request that no pod answered is not among them, so a history
with lost requests has slightly too few. A window without a recording is missing. Latency is measured at the gateway:
at the quietest times it is the time of one request on an idle pod.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.lab.simulator.trace.counted import CountedQueue, RequestTrace
from ebbtide.monitoring.client import Prometheus, Silent, UnknownAnswer
from ebbtide.monitoring.history import TimeRange, history
from ebbtide.monitoring.recorded import Recorded
from ebbtide.text.durations import duration, format_duration

WINDOW = timedelta(minutes=10)
QUIET = 0.1
"""The quietest share of all times, in which no request waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    prometheus: Prometheus
    customer: str
    since: timedelta  # how far back, until `now`
    now: datetime  # aware


@dataclass(frozen=True, slots=True)
class RequestHistory:
    trace: RequestTrace
    start: datetime  # aware: second 0 of the trace


def recorded_requests(query: HistoryQuery, service: str, variants: Sequence[str]) -> RequestHistory | UnknownAnswer:
    """Return full windows until now, from the first recorded one; each of these variants is a queue of the trace."""
    windows = max(1, int(query.since / WINDOW))
    start = query.now.astimezone(UTC) - windows * WINDOW
    counts: dict[str, list[float | None]] = {}
    silent: Silent | None = None
    for variant in variants:
        rates = _by_window(query, Recorded.THROUGHPUT, service, variant, start, "avg_over_time")
        if isinstance(rates, Silent):
            silent = rates
        elif isinstance(rates, UnknownAnswer):
            return rates  # without this variant's requests the trace would have too few
        else:
            counts[variant] = [None if rate is None else max(0.0, rate) * WINDOW.total_seconds() for rate in rates]
    recorded = [any(series[window] is not None for series in counts.values()) for window in range(windows)]
    if not any(count for series in counts.values() for count in series):
        return silent or UnknownAnswer(f"{query.prometheus.where} has recorded no request of {service}")
    first = recorded.index(True)
    queues = {variant: _queue(series[first:], recorded[first:]) for variant, series in counts.items()}
    name = f"the last {duration((windows - first) * WINDOW.total_seconds())} in Prometheus"
    trace = RequestTrace(name=name, window_s=WINDOW.total_seconds(), queues=queues)
    return RequestHistory(trace, (start + first * WINDOW).astimezone(query.now.tzinfo))


def _queue(counts: Sequence[float | None], recorded: Sequence[bool]) -> CountedQueue:
    """Count 0 in windows in which only another variant was recorded."""
    filled = tuple((count or 0.0) if known else None for count, known in zip(counts, recorded, strict=True))
    return CountedQueue(counts=filled, cv=(1.0,) * len(filled))


def quiet_latency(query: HistoryQuery, service: str, variant: str) -> float | UnknownAnswer:
    """Return the median latency at quiet times, in seconds."""
    medians = _by_window(
        query, Recorded.MEDIAN_LATENCY, service, variant, query.now.astimezone(UTC) - query.since, "min_over_time"
    )
    if isinstance(medians, UnknownAnswer):
        return medians
    latencies = sorted(median for median in medians if median is not None and median > 0)
    if not latencies:
        return UnknownAnswer(f"{query.prometheus.where} has recorded no latency of {service} {variant}".rstrip())
    return latencies[math.ceil(QUIET * len(latencies)) - 1]


def _by_window(
    query: HistoryQuery, record: Recorded, service: str, variant: str, start: datetime, function: str
) -> Sequence[float | None] | UnknownAnswer:
    """Return one value per window, which Prometheus has at its end."""
    series = record.of(query.customer, service=service, variant=variant)
    expression = f"max({function}({series}[{format_duration(WINDOW)}]))"
    ends = TimeRange(since=start + WINDOW, until=query.now, step=WINDOW)
    recorded = history(query.prometheus, expression, ends, called=series)
    return recorded if isinstance(recorded, UnknownAnswer) else ends.values(recorded[()])
