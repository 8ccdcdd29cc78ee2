"""What a load of requests is like, before anything is chosen: predictable or bursty, and what one pod bears.

Every figure but the last is of the trace alone. How like a day is to the day before, and a week to the week before, is
the correlation of their windows (Pearson): 1 is the same shape, 0 none. Windows that are missing are left out.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from random import Random
from statistics import fmean, median
from typing import Any

from ebbtide.report.words import several
from ebbtide.simulator.services.counts import within
from ebbtide.simulator.services.run import Span, play, quantile
from ebbtide.simulator.services.served import SimulatedService
from ebbtide.simulator.services.strategies import Fixed
from ebbtide.simulator.trace.counted import RequestTrace
from ebbtide.units.durations import DAY_S, WEEK_S

ALIKE = 0.8
"""From this correlation on a day is called like the one before."""
BURSTY_CV = 1.5
"""From this variation of the times between requests on they are called bursty; independent ones have 1."""
TRIED = 3000
"""Requests that pods are tried with at each rate."""
BUSY = (0.5, 0.7, 0.8, 0.9)
"""Shares of the time for which latency is tried."""
_STEPS = 8
_SHORT = {"predictable": "yes", "partly predictable": "partly", "not predictable": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLoad:
    """Of one queue, or of all together."""

    queue: str
    requests: float
    mean_rate: float  # a second
    peak_to_mean: float  # of windows
    jump: float  # the largest growth from one window to the next, in means
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
        known = [it for it in (self.like_the_day_before, self.like_the_week_before) if it is not None]
        if not known:
            return "too short to say"
        alike = max(known)
        return "predictable" if alike >= ALIKE else "partly predictable" if alike >= ALIKE / 2 else "not predictable"

    @property
    def verdict(self) -> str:
        return f"{self.shape}, bursty" if self.bursty else self.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Borne:
    """The most that one pod of a service bears within its SLO, tried with independent requests."""

    service: str
    rate: float  # requests a second
    busy: float  # the share of its places that are taken then
    p95_s: float
    slo_s: float
    meant: float  # requests a second for which its targets have one pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Of so many pods of a service that are busy for that share of the time."""

    pods: int
    busy: float
    p95_s: float  # of requests that come independently; endless where more than one in a hundred is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDescription:
    trace: str
    days: float
    window_s: float
    loads: tuple[RequestLoad, ...]  # all together, then each queue if there are several
    borne: Borne | None
    latencies: tuple[Latency, ...]  # by how busy the pods are, then by how many they are


def describe_requests(trace: RequestTrace, service: SimulatedService | None = None) -> RequestDescription:
    alone = [trace.only(queue) for queue in trace.queues] if len(trace.queues) > 1 else []
    return RequestDescription(
        trace=trace.name,
        days=trace.days,
        window_s=trace.window_s,
        loads=(_load("all", trace), *(_load(next(iter(it.queues)), it) for it in alone)),
        borne=None if service is None else borne(service),
        latencies=() if service is None else latencies(service),
    )


def _load(name: str, trace: RequestTrace) -> RequestLoad:
    counts = trace.totals
    known = [count for count in counts if count is not None]
    mean = fmean(known) or 1.0
    pairs = [(one, other) for one, other in pairwise(counts) if one is not None and other is not None]
    varied = [cv for queue in trace.queues.values() for count, cv in zip(queue.counts, queue.cv, strict=True) if count]
    return RequestLoad(
        queue=name,
        requests=sum(known),
        mean_rate=mean / trace.window_s,
        peak_to_mean=max(known) / mean,
        jump=max((other - one for one, other in pairs), default=0.0) / mean,
        like_the_day_before=_alike(counts, round(DAY_S / trace.window_s)),
        like_the_week_before=_alike(counts, round(WEEK_S / trace.window_s)),
        between=median(varied) if varied else 1.0,
        idle=sum(not count for count in known) / len(known),
        missing=1 - len(known) / len(counts),
    )


def _alike(counts: Sequence[float | None], apart: int) -> float | None:
    """Correlation of the windows with those so many windows before; at least a day of them has to be known."""
    pairs = [
        (before, after)
        for before, after in zip(counts, counts[apart:], strict=False)
        if before is not None and after is not None
    ]
    if len(pairs) < 24:
        return None
    first, second = fmean(one for one, _ in pairs), fmean(other for _, other in pairs)
    both = sum((one - first) * (other - second) for one, other in pairs)
    spread = math.sqrt(sum((one - first) ** 2 for one, _ in pairs) * sum((other - second) ** 2 for _, other in pairs))
    return both / spread if spread else 0.0


def borne(service: SimulatedService, seed: int = 0) -> Borne:
    """By halving between nothing and what keeps a pod busy all the time."""
    low, high, p95_s = 0.0, service.full_rate, 0.0
    for _ in range(_STEPS):
        rate = (low + high) / 2
        found = _p95(service, rate, seed)
        if found <= service.slo_s:
            low, p95_s = rate, found
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


def latencies(service: SimulatedService, seed: int = 0) -> tuple[Latency, ...]:
    """What pods that share a load gain: with more of them a request finds an idle one more often."""
    counts = sorted({1, math.ceil(math.sqrt(service.most)), service.most})
    return tuple(
        Latency(pods=pods, busy=busy, p95_s=_p95(service, busy * service.full_rate, seed, pods))
        for busy in BUSY
        for pods in counts
    )


def _p95(service: SimulatedService, rate: float, seed: int, pods: int = 1) -> float:
    """Seconds, of so many requests a second for each pod; endless where more than one in a hundred was lost."""
    until = TRIED / (rate * pods)
    served = play(service, Fixed(pods), _independent(until, seed), Span(0, until), seed=seed)
    lost = served.lost + served.turned_away
    return math.inf if lost > 0.01 * served.sent else quantile(sorted(served.latencies), 0.95)


def _independent(until: float, seed: int) -> Iterator[float]:
    return iter(within(0, until, TRIED, 1.0, Random(f"{seed} tried")))


def requests_json(found: RequestDescription) -> dict[str, Any]:
    return {
        "trace": found.trace,
        "days": found.days,
        "window_s": found.window_s,
        "loads": [{**asdict(load), "verdict": load.verdict} for load in found.loads],
        "borne": None if found.borne is None else asdict(found.borne),
        "latencies": [{**asdict(it), "p95_s": _finite(it.p95_s)} for it in found.latencies],
    }


def requests_text(found: RequestDescription) -> str:
    return "\n".join(_lines(found))


def _lines(found: RequestDescription) -> Iterator[str]:
    whole = found.loads[0]
    yield (
        f"{found.trace}: {whole.requests:,.0f} requests in {found.days:.3g} days, counted every {found.window_s:g} s; "
        f"{whole.missing:.1%} of the windows are missing"
    )
    yield ""
    yield f"{'queue':<22}{'a second':>9}{'peak':>6}{'jump':>6}{'day':>7}{'week':>7}{'cv':>6}  predictable"
    for load in found.loads:
        day, week = _text(load.like_the_day_before), _text(load.like_the_week_before)
        yield (
            f"{load.queue:<22}{load.mean_rate:>9,.3g}{load.peak_to_mean:>6.1f}{load.jump:>6.1f}{day:>7}{week:>7}"
            f"{load.between:>6.1f}  {_SHORT.get(load.shape, load.shape)}{', bursty' if load.bursty else ''}"
        )
    yield ""
    yield (
        "Peak and jump: the busiest window, and the largest growth from one to the next, in means. Day, week: "
        "correlation with the day and with the week before. cv: how the times between requests vary (independent: 1)."
    )
    if (its := found.borne) is not None:
        yield ""
        yield (
            f"One pod of {its.service} bears {its.rate:.3g} requests a second within its SLO (p95 {its.p95_s:.3g} s of "
            f"{its.slo_s:.3g} s), {its.busy:.0%} busy; by its targets it is meant for {its.meant:.3g}."
        )
        yield ""
        yield from _latency_lines(found.latencies)


def _latency_lines(found: Sequence[Latency]) -> Iterator[str]:
    counts = sorted({it.pods for it in found})
    yield "p95 in seconds, by how busy the pods are, and by how many share the load:"
    yield "busy  " + "".join(f"{several(pods, 'pod'):>10}" for pods in counts)
    for busy in BUSY:
        row = (f"{it.p95_s:.3g}" if math.isfinite(it.p95_s) else "lost" for it in found if it.busy == busy)
        yield f"{busy:>4.0%}  " + "".join(f"{text:>10}" for text in row)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
