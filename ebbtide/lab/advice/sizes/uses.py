"""Derive the use of one container from Prometheus' answers. Pure."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from ebbtide.lab.advice.sizes.containers import Container
from ebbtide.lab.advice.sizes.evidence import ContainerUsage, Evidence, MeasuredAmount
from ebbtide.lab.advice.sizes.queries import Key, Points, PointsByKey, UsageAnswers
from ebbtide.lab.advice.sizes.rules import THROTTLED

QUANTILE = 0.95
_GROWN = 1.1


def use_of(container: Container, answers: UsageAnswers, until: datetime, evidence: Evidence) -> ContainerUsage:
    place, others = container.place, container.other_containers
    pods: Key = (place.namespace, place.workload)
    key: Key = (*pods, place.container)
    cpu, memory = _points(answers.cpu, key), _points(answers.memory, key)
    kills = None if answers.kills is None else _points(answers.kills, (place.workload,))
    cpu_requests = _minus(_points(answers.cpu_requests, pods), others.cpu)
    memory_requests = _minus(_points(answers.memory_requests, pods), others.memory)
    throttled_at, throttled = _throttled(_points(answers.throttled, key), cpu_requests)
    return ContainerUsage(
        days=len({_day(at, until, evidence) for at, _ in (*cpu, *memory)}),
        cpu=_figure(cpu, quantile),
        memory=_figure(memory, max),
        growing=_grows(memory, until, evidence),
        kills=None if kills is None else math.ceil(sum(value for _, value in kills) / 2 - 0.25),
        killed_at=_killed_at(kills or (), memory_requests, 2 * evidence.step),
        throttled=throttled,
        throttled_at=throttled_at,
        gpu_busy=_figure(_points(answers.gpu_busy, pods), quantile),
        gpu_memory=_figure(_points(answers.gpu_memory, pods), max),
        gpus_used=max((round(value) for _, value in _points(answers.gpus_used, pods)), default=None),
    )


def _points(by_key: PointsByKey, key: Key) -> Points:
    return () if by_key is None else by_key.get(key, ())


def quantile(values: Sequence[float]) -> float:
    """Return the least value that 95 % of these do not exceed."""
    return sorted(values)[math.ceil(QUANTILE * len(values)) - 1]


def _figure(points: Points, statistic: Callable[[Sequence[float]], float]) -> MeasuredAmount | None:
    values = [value for _, value in points]
    if not values:
        return None
    half = max(1, len(values) // 2)
    return MeasuredAmount(statistic(values), statistic(values[:half]), statistic(values[-half:]))


def _day(at: datetime, until: datetime, evidence: Evidence) -> int:
    """Return the number of full days before the end."""
    return int((until - at) / evidence.day)


def _grows(points: Points, until: datetime, evidence: Evidence) -> bool:
    peaks: dict[int, float] = {}
    for at, value in points:
        day = _day(at, until, evidence)
        peaks[day] = max(value, peaks.get(day, 0.0))
    newest = [peaks[day] for day in sorted(peaks, reverse=True)][-evidence.least :]
    rises = all(later > earlier for earlier, later in pairwise(newest))
    return len(newest) == evidence.least and rises and newest[-1] > newest[0] * _GROWN


def _minus(requests: Points, other_containers: int) -> Points:
    """Subtract the other containers from a pod's requests."""
    return [(at, value - other_containers) for at, value in requests]


def _killed_at(kills: Points, requests: Points, lookback: timedelta) -> int | None:
    """Return the request at the kills: the smallest one shortly before a kill, since a rollout may follow it."""
    then = [
        min(sizes)
        for at, value in kills
        if value > 0 and (sizes := [size for when, size in requests if at - lookback <= when <= at])
    ]
    return round(max(then)) if then else None


def _throttled(shares: Points, requests: Points) -> tuple[int | None, float | None]:
    """Return the largest request at which the container was throttled, and the share; or None and the overall share."""
    if not shares:
        return None, None
    sizes = dict(requests)
    by_size: dict[int, list[float]] = {}
    for at, share in shares:
        if at in sizes:
            by_size.setdefault(round(sizes[at]), []).append(share)
    short = {size: share for size, values in by_size.items() if (share := quantile(values)) > THROTTLED}
    if short:
        return max(short), short[max(short)]
    return None, quantile([share for _, share in shares])
