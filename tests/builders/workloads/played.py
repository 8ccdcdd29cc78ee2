"""A service to play, request traces and histories: made up and seeded."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from ebbtide.lab.simulator.services.counts import DAY_MINUTES, Minutes
from ebbtide.lab.simulator.services.served import PlayedMetric, PodModel, ServiceModel
from ebbtide.lab.simulator.strategies.hpa import HpaBehavior, HpaMetric, HpaPolicy, HpaRules, TargetKind
from ebbtide.lab.simulator.trace.counted import CountedQueue, RequestTrace
from ebbtide.settings.sections.serving.routes import BalanceKind
from ebbtide.vocabulary.workloads import FloorPolicy

BEHAVIOR = HpaBehavior(
    up=HpaRules(policies=(HpaPolicy(15, percent=100), HpaPolicy(15, pods=4)), stabilization_s=0, tolerance=0.08),
    down=HpaRules(policies=(HpaPolicy(70, percent=25), HpaPolicy(70, pods=1)), stabilization_s=300),
)


def a_pod(**changes: Any) -> PodModel:
    given: dict[str, Any] = {
        "request_s": 1.0,
        "spread": 0.5,
        "at_once": 2,
        "starts_s": 60.0,
        "stop_s": 5.0,
        "node_boot_s": 120.0,
        "per_node": 4,
    }
    return PodModel(**{**given, **changes})


def a_service(*, pod: PodModel | None = None, least: int = 1, most: int = 20, **changes: Any) -> ServiceModel:
    """A target of 2 in flight; one pod is meant for 1.4 requests a second."""
    policy = FloorPolicy(
        name="embedder", namespace="ebbtide", keda=True, least=least, most=most, lead=timedelta(minutes=5)
    )
    given: dict[str, Any] = {
        "name": "embedder",
        "stack": "acme",
        "calendar": policy,
        "stated_open": None,
        "stated_margin": None,
        "pod": pod or a_pod(),
        "metrics": (PlayedMetric("inFlight", HpaMetric(TargetKind.TOTAL, 2)),),
        "behavior": BEHAVIOR,
        "least": least,
        "most": most,
        "longest_s": 30.0,
        "max_in_flight": None,
        "slo_s": 3.0,
        "balance": BalanceKind.LEAST_REQUEST,
        "usd_per_pod_hour": 0.2,
    }
    return ServiceModel(**{**given, **changes})


def a_request_trace(
    counts: Sequence[float | None], *, window_s: float = 600.0, cv: float = 1.0, name: str = "made-up"
) -> RequestTrace:
    queue = CountedQueue(counts=tuple(counts), cv=(cv,) * len(counts))
    return RequestTrace(name=name, window_s=window_s, queues={"chat": queue})


def clear_week(days: int = 14, seed: int = 1, noise: float = 0.02) -> Minutes:
    """Requests a second by minute: the same rushes at the same minutes of each day, which no metric sees coming."""
    chance = Random(seed)
    return Minutes(max(0.0, _usual(minute) * (1 + chance.gauss(0, noise))) for minute in range(days * DAY_MINUTES))


def _usual(minute: int) -> float:
    hour = minute % DAY_MINUTES / 60
    level = 2.0
    for begin, end, height in ((8, 9, 13.0), (9, 11.5, 8.2), (13, 14, 15.2), (14, 16, 7.6), (20, 21, 17.5)):
        if begin <= hour < end:
            level = height
    return level + math.sin(hour / 24 * 2 * math.pi) * 0.5


def shuffled(minutes: Minutes, seed: int = 2, block: int = 60) -> Minutes:
    """The same hours in another order, drawn anew: nothing of it can be known beforehand."""
    blocks = [minutes.rates[at : at + block] for at in range(0, len(minutes.rates), block)]
    Random(seed).shuffle(blocks)
    return Minutes(rate for some in blocks for rate in some)


def nine_to_seven(service: ServiceModel) -> Any:
    """Business hours of every weekday, for a backtest."""

    def floor(minute: int, pods: int) -> int:
        is_open = 9 * 60 <= minute % DAY_MINUTES < 19 * 60 and minute // DAY_MINUTES % 7 < 5
        return pods if is_open else service.least

    return floor


def never(_minute: int) -> bool:
    """No day is closed."""
    return False


def evenly(rate: float, until: float) -> Iterator[float]:
    """Arrivals without chance."""
    return (place / rate for place in range(int(rate * until)))
