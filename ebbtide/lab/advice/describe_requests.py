"""Describe a load of requests: how predictable and bursty it is, and how much load one pod can carry.

All figures but the last describe only the trace. The similarity of a day to the day before, and of a week to the week
before, is the Pearson correlation of their windows: 1 is the same shape, 0 none. Missing windows are left out.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import fmean, median
from typing import Any

from ebbtide.lab.simulator.services.counts import within
from ebbtide.lab.simulator.services.run import TraceSpan, play, quantile
from ebbtide.lab.simulator.services.served import ServiceModel
from ebbtide.lab.simulator.services.strategies import Fixed
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.text.counts import several
from ebbtide.text.durations import DAY_S, WEEK_S
from ebbtide.text.records import plain_values
from ebbtide.text.sheet import HUNDREDTHS, SHARE, Sheet, Unit, exact_share, left, right

ALIKE = 0.8
"""Least correlation with the day before at which a day counts as similar."""
BURSTY_CV = 1.5
"""Least coefficient of variation of the times between requests that counts as bursty; independent requests have 1."""
TRIED = 3000
"""Requests simulated at each rate."""
BUSY = (0.5, 0.7, 0.8, 0.9)
"""Utilizations of pods for which latency is simulated."""
_STEPS = 8
_MULTIPLE = Unit("", "{:.1f}".format)
_SHORT = {"predictable": "yes", "partly predictable": "partly", "not predictable": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLoad:
    """Figures of one queue, or of all together."""

    queue: str
    requests: float
    mean_rate: float  # a second
    peak_to_mean: float  # of windows
    jump: float  # the largest growth from one window to the next, as a multiple of the mean
    like_the_day_before: float | None  # correlation; None: too short
    like_the_week_before: float | None
    between: float  # median coefficient of variation of the times between requests
    idle: float  # share of windows without a request
    missing: float  # share of windows

    @property
    def bursty(self) -> bool:
        return self.between >= BURSTY_CV

    @property
    def shape(self) -> str:
        correlations = [r for r in (self.like_the_day_before, self.like_the_week_before) if r is not None]
        if not correlations:
            return "too short to say"
        best = max(correlations)
        return "predictable" if best >= ALIKE else "partly predictable" if best >= ALIKE / 2 else "not predictable"

    @property
    def verdict(self) -> str:
        return f"{self.shape}, bursty" if self.bursty else self.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Borne:
    """The highest load of one pod within its SLO, simulated with independent requests."""

    service: str
    rate: float  # requests a second
    busy: float  # utilization: the share of its concurrent requests in use at that rate
    p95_s: float
    slo_s: float
    meant: float  # requests a second per pod according to its targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """p95 latency of `pods` pods at utilization `busy`."""

    pods: int
    busy: float
    p95_s: float  # of independent requests; infinite if more than one in a hundred is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDescription:
    trace: str
    days: float
    window_s: float
    loads: tuple[RequestLoad, ...]  # all together, then each queue if there are several
    borne: Borne | None
    latencies: tuple[Latency, ...]  # by busy share, then by number of pods


def describe_requests(trace: RequestTrace, service: ServiceModel | None = None) -> RequestDescription:
    queues = [trace.only(queue) for queue in trace.queues] if len(trace.queues) > 1 else []
    return RequestDescription(
        trace=trace.name,
        days=trace.days,
        window_s=trace.window_s,
        loads=(_load("all", trace), *(_load(next(iter(queue.queues)), queue) for queue in queues)),
        borne=None if service is None else borne(service),
        latencies=() if service is None else latencies(service),
    )


def _load(name: str, trace: RequestTrace) -> RequestLoad:
    counts = trace.totals
    recorded = [count for count in counts if count is not None]
    mean = fmean(recorded) or 1.0
    pairs = [(before, after) for before, after in pairwise(counts) if before is not None and after is not None]
    varied = [cv for queue in trace.queues.values() for count, cv in zip(queue.counts, queue.cv, strict=True) if count]
    return RequestLoad(
        queue=name,
        requests=sum(recorded),
        mean_rate=mean / trace.window_s,
        peak_to_mean=max(recorded) / mean,
        jump=max((after - before for before, after in pairs), default=0.0) / mean,
        like_the_day_before=_alike(counts, round(DAY_S / trace.window_s)),
        like_the_week_before=_alike(counts, round(WEEK_S / trace.window_s)),
        between=median(varied) if varied else 1.0,
        idle=sum(not count for count in recorded) / len(recorded),
        missing=1 - len(recorded) / len(counts),
    )


def _alike(counts: Sequence[float | None], apart: int) -> float | None:
    """Correlate each window with the one that is `apart` windows earlier; None with fewer than 24 pairs."""
    pairs = [
        (before, after)
        for before, after in zip(counts, counts[apart:], strict=False)
        if before is not None and after is not None
    ]
    if len(pairs) < 24:
        return None
    mean, later_mean = fmean(count for count, _ in pairs), fmean(later for _, later in pairs)
    covariance = sum((count - mean) * (later - later_mean) for count, later in pairs)
    spread = sum((count - mean) ** 2 for count, _ in pairs) * sum((later - later_mean) ** 2 for _, later in pairs)
    return covariance / math.sqrt(spread) if spread else 0.0


def borne(service: ServiceModel, seed: int = 0) -> Borne:
    """Bisect between no load and the load that keeps a pod busy all the time."""
    low, high, p95_s = 0.0, service.full_rate, 0.0
    for _ in range(_STEPS):
        rate = (low + high) / 2
        latency = _p95(service, rate, seed)
        if latency <= service.slo_s:
            low, p95_s = rate, latency
        else:
            high = rate
    return Borne(
        service=service.name,
        rate=low,
        busy=low / service.full_rate,
        p95_s=p95_s,
        slo_s=service.slo_s,
        meant=service.pod_rate,
    )


def latencies(service: ServiceModel, seed: int = 0) -> tuple[Latency, ...]:
    """Return latencies by utilization and number of pods: with more pods a request finds an idle one more often."""
    counts = sorted({1, math.ceil(math.sqrt(service.most)), service.most})
    return tuple(
        Latency(pods=pods, busy=busy, p95_s=_p95(service, busy * service.full_rate, seed, pods))
        for busy in BUSY
        for pods in counts
    )


def _p95(service: ServiceModel, rate: float, seed: int, pods: int = 1) -> float:
    """Return p95 seconds at `rate` requests a second per pod; infinite if more than one in a hundred was lost."""
    until = TRIED / (rate * pods)
    served = play(service, Fixed(pods), _independent(until, seed), TraceSpan(0, until), seed=seed)
    lost = served.lost + served.turned_away
    return math.inf if lost > 0.01 * served.sent else quantile(sorted(served.latencies), 0.95)


def _independent(until: float, seed: int) -> Iterator[float]:
    return iter(within(0, until, TRIED, 1.0, Random(f"{seed} tried")))


def requests_json(description: RequestDescription) -> dict[str, Any]:
    return {
        "trace": description.trace,
        "days": description.days,
        "window_s": description.window_s,
        "loads": [{**plain_values(load), "verdict": load.verdict} for load in description.loads],
        "borne": plain_values(description.borne),
        "latencies": [{**plain_values(latency), "p95_s": _finite(latency.p95_s)} for latency in description.latencies],
    }


def requests_parts(description: RequestDescription) -> Iterator[str | Sheet]:
    """Yield the lines and tables for a terminal."""
    total = description.loads[0]
    yield (
        f"{description.trace}: {total.requests:,.0f} requests in {description.days:.3g} days, counted every "
        f"{description.window_s:g} s; {total.missing:.1%} of the windows are missing"
    )
    yield ""
    yield Sheet(
        columns=[
            *left("queue"),
            *right("a second", unit=Unit("", "{:,.3g}".format)),
            *right("peak", "jump", unit=_MULTIPLE),
            *right("day", "week", unit=HUNDREDTHS, unknown="-"),
            *right("cv", unit=_MULTIPLE),
            *left("predictable"),
        ],
        rows=[
            (
                load.queue,
                load.mean_rate,
                *_figures(load),
                f"{_SHORT.get(load.shape, load.shape)}{', bursty' if load.bursty else ''}",
            )
            for load in description.loads
        ],
    )
    yield ""
    yield (
        "Peak and jump: the busiest window, and the largest growth from one to the next, as multiples of the mean. "
        "Day, week: correlation with the day and with the week before. cv: coefficient of variation of the times "
        "between requests (independent: 1)."
    )
    if (borne := description.borne) is not None:
        yield ""
        yield (
            f"One pod of {borne.service} sustains {borne.rate:.3g} requests a second within its SLO (p95 "
            f"{borne.p95_s:.3g} s of {borne.slo_s:.3g} s) at {borne.busy:.0%} utilization; its targets allow "
            f"{borne.meant:.3g}."
        )
        yield ""
        yield _latencies_sheet(description.latencies)


def _latencies_sheet(latencies: Sequence[Latency]) -> Sheet:
    counts = sorted({latency.pods for latency in latencies})
    return Sheet(
        caption="p95 in seconds, by utilization of the pods and by their number:",
        columns=[
            *right("busy", unit=exact_share(0)),
            *right(*(several(pods, "pod") for pods in counts), unit=Unit("s", "{:.3g}".format), unknown="lost"),
        ],
        rows=[(busy, *(_finite(latency.p95_s) for latency in latencies if latency.busy == busy)) for busy in BUSY],
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def load_sheet(description: RequestDescription) -> Sheet:
    return Sheet(
        caption="Peak and jump: the busiest window, and the largest growth from one to the next, as multiples of the "
        "mean. Day and week: correlation with the day and the week before. Spread: the coefficient of variation of the "
        "times between requests; independent ones have 1.",
        columns=[
            *left("queue", "verdict"),
            *right("peak", "jump", unit=_MULTIPLE),
            *right("day", "week", unit=HUNDREDTHS),
            *right("spread", unit=_MULTIPLE),
            *right("windows without a request", unit=SHARE),
        ],
        rows=[(load.queue, load.verdict, *_figures(load), load.idle) for load in description.loads],
    )


def _figures(load: RequestLoad) -> tuple[float | None, ...]:
    return (load.peak_to_mean, load.jump, load.like_the_day_before, load.like_the_week_before, load.between)
