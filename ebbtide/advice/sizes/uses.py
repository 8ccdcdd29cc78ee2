"""What is made of the answers about one container. Pure."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from ebbtide.advice.sizes.answers import Answers, Found, Key, Points
from ebbtide.advice.sizes.containers import Container
from ebbtide.advice.sizes.evidence import Evidence, Figure, Use
from ebbtide.advice.sizes.rules import THROTTLED

QUANTILE = 0.95
_GROWN = 1.1


def use_of(it: Container, answers: Answers, until: datetime, evidence: Evidence) -> Use:
    own: Key = (it.place.namespace, it.place.workload, it.place.container)
    pods = own[:2]
    cpu, memory = _at(answers.cpu, own), _at(answers.memory, own)
    kills = None if answers.kills is None else _at(answers.kills, (it.place.workload,))
    cpu_asked, memory_asked = _at(answers.cpu_asked, pods), _at(answers.memory_asked, pods)
    throttled_at, throttled = _throttled(_at(answers.throttled, own), _own(cpu_asked, it.beside.cpu))
    return Use(
        days=len({_day(at, until, evidence) for at, _ in (*cpu, *memory)}),
        cpu=_figure(cpu, quantile),
        memory=_figure(memory, max),
        growing=_grows(memory, until, evidence),
        kills=None if kills is None else math.ceil(sum(value for _, value in kills) / 2 - 0.25),
        killed_at=_killed_at(kills or (), _own(memory_asked, it.beside.memory), 2 * evidence.step),
        throttled=throttled,
        throttled_at=throttled_at,
        gpu_busy=_figure(_at(answers.gpu_busy, pods), quantile),
        gpu_memory=_figure(_at(answers.gpu_memory, pods), max),
        gpus_used=max((round(value) for _, value in _at(answers.gpus_used, pods)), default=None),
    )


def _at(found: Found, key: Key) -> Points:
    return () if found is None else found.get(key, ())


def quantile(values: Sequence[float]) -> float:
    """The least value that 95 % of these are at or below."""
    return sorted(values)[math.ceil(QUANTILE * len(values)) - 1]


def _figure(points: Points, of: Callable[[Sequence[float]], float]) -> Figure | None:
    values = [value for _, value in points]
    if not values:
        return None
    half = max(1, len(values) // 2)
    return Figure(of(values), of(values[:half]), of(values[-half:]))


def _day(at: datetime, until: datetime, evidence: Evidence) -> int:
    """How many whole days before the end."""
    return int((until - at) / evidence.day)


def _grows(points: Points, until: datetime, evidence: Evidence) -> bool:
    peaks: dict[int, float] = {}
    for at, value in points:
        day = _day(at, until, evidence)
        peaks[day] = max(value, peaks.get(day, 0.0))
    newest = [peaks[day] for day in sorted(peaks, reverse=True)][-evidence.least :]
    rises = all(later > earlier for earlier, later in pairwise(newest))
    return len(newest) == evidence.least and rises and newest[-1] > newest[0] * _GROWN


def _own(asked: Points, beside: int) -> Points:
    """Of what a whole pod asks for, the part of its own container."""
    return [(at, value - beside) for at, value in asked]


def _killed_at(killed: Points, asked: Points, back: timedelta) -> int | None:
    """What it asked for when it was killed. A rollout after a kill is no part of it: so the least of just before."""
    then = [
        min(sizes)
        for at, value in killed
        if value > 0 and (sizes := [size for when, size in asked if at - back <= when <= at])
    ]
    return round(max(then)) if then else None


def _throttled(shares: Points, asked: Points) -> tuple[int | None, float | None]:
    """The largest size at which its limit held it back, and how much; without one, how much altogether."""
    if not shares:
        return None, None
    sizes = dict(asked)
    by_size: dict[int, list[float]] = {}
    for at, share in shares:
        if at in sizes:
            by_size.setdefault(round(sizes[at]), []).append(share)
    short = {size: found for size, values in by_size.items() if (found := quantile(values)) > THROTTLED}
    if short:
        return max(short), short[max(short)]
    return None, quantile([share for _, share in shares])
