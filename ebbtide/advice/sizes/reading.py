"""Reads from Prometheus what containers used and which pods ran, for as long as the evidence reaches back.

What nobody recorded is None in `Use`, with a line in `Recorded.missing` that says why; nothing becomes a zero that
nobody measured. Without CPU and memory at all there is no advice: that is `NothingRecorded`.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TypeAlias

from ebbtide.advice.sizes.containers import Container, Place
from ebbtide.advice.sizes.courses import course
from ebbtide.advice.sizes.evidence import Evidence, Figure, Use
from ebbtide.advice.sizes.questions import BY, Questions, namespaces
from ebbtide.advice.sizes.ran import Ran, ran_of
from ebbtide.advice.sizes.rules import THROTTLED
from ebbtide.monitoring.client import Course, Prometheus, Series, Unknown
from ebbtide.monitoring.rules import Metrics

QUANTILE = 0.95
_GROWN = 1.1
_METRIC = re.compile(r"\b(?:container|DCGM|ebbtide)_\w+")
_MIB = 2.0**20
_PODS = ("namespace", "workload")
_Points: TypeAlias = Sequence[tuple[datetime, float]]


class NothingRecorded(Exception):
    """`lines` say why, one each."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    uses: Mapping[Place, Use]  # of every container, those too that never ran
    ran: Sequence[Ran]
    missing: Mapping[str, str]  # what is not known, each with why
    source: str


def read_uses(
    prometheus: Prometheus, customer: str, wanted: Sequence[Container], until: datetime, evidence: Evidence
) -> Recorded:
    """Raises `NothingRecorded`."""
    if (doubt := prometheus.doubt()) is not None:
        raise NothingRecorded([doubt.why])
    of = Metrics(customer)
    watched = prometheus.ask(f"count({of('pod_info')})", stands_on=("pod_info",))
    if isinstance(watched, Unknown):
        raise NothingRecorded([f"{watched.why}; wanted one that scrapes Ebbtide's exporter of {customer}"])
    ask = Questions(of, namespaces(it.place.namespace for it in wanted), evidence.step)
    asking = _Asking(prometheus, until - evidence.window + evidence.step, until, evidence.step, {})
    cpu = asking.by("CPU used", ask.cpu(), BY, 1000)
    memory = asking.by("memory used", ask.memory(), BY, 1 / _MIB)
    if cpu is None and memory is None:
        raise NothingRecorded(asking.missing.values())
    throttled = asking.quietly(ask.throttled(), BY)
    kills = asking.by("kills for lack of memory", ask.kills(), ("workload",))
    cores = asking.by("CPU asked for", ask.requested("cpu_cores"), _PODS, 1000)
    memories = asking.by("memory asked for", ask.requested("memory_bytes"), _PODS, 1 / _MIB)
    gpus = any(it.pod.gpu.count for it in wanted)
    busy, held, used = (
        asking.by(called, question, _PODS) if gpus else None
        for called, question in (
            ("GPUs' use", ask.gpu_busy()),
            ("GPUs' memory", ask.gpu_memory()),
            ("GPUs used", ask.gpus_used()),
        )
    )

    def use(it: Container) -> Use:
        place, pods = it.place, (it.place.namespace, it.place.workload)
        of_cpu, of_memory = _at(cpu, place), _at(memory, place)
        killed = None if kills is None else kills.get((place.workload,), ())
        throttled_at, share = _throttled(_at(throttled, place), _own(_at(cores, pods), it.beside.cpu))
        return Use(
            days=len({_day(at, until, evidence) for at, _ in (*of_cpu, *of_memory)}),
            cpu=_figure(of_cpu, quantile),
            memory=_figure(of_memory, max),
            growing=_grows(of_memory, until, evidence),
            kills=None if killed is None else math.ceil(sum(value for _, value in killed) / 2 - 0.25),
            killed_at=_killed_at(killed or (), _own(_at(memories, pods), it.beside.memory), 2 * evidence.step),
            throttled=share,
            throttled_at=throttled_at,
            gpu_busy=_figure(_at(busy, pods), quantile),
            gpu_memory=_figure(_at(held, pods), max),
            gpus_used=max((round(value) for _, value in _at(used, pods)), default=None),
        )

    return Recorded(
        uses={it.place: use(it) for it in wanted},
        ran=ran_of(prometheus, ask, until, evidence, asking.missing),
        missing=asking.missing,
        source=prometheus.where,
    )


_Key: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class _Asking:
    prometheus: Prometheus
    since: datetime
    until: datetime
    step: timedelta
    missing: dict[str, str]

    def by(self, called: str, question: str, labels: _Key, unit: float = 1.0) -> Mapping[_Key, _Points] | None:
        """Points by the values of the labels, the oldest first; None, with a line in `missing`, where nothing is."""
        answer = self._course(question)
        if isinstance(answer, Unknown):
            self.missing[called] = answer.why
            return None
        return _by(answer, labels, unit)

    def quietly(self, question: str, labels: _Key) -> Mapping[_Key, _Points] | None:
        """Where nothing is as good as something."""
        answer = self._course(question)
        return None if isinstance(answer, Unknown) else _by(answer, labels, 1.0)

    def _course(self, question: str) -> Course:
        metric = _METRIC.search(question)
        called = f"{metric[0]} of its pods" if metric is not None else ""
        return course(self.prometheus, question, self.since, self.until, self.step, called)


def _by(answer: Sequence[Series], labels: _Key, unit: float) -> Mapping[_Key, _Points]:
    return {
        tuple(one.labels.get(label, "") for label in labels): [(at, value * unit) for at, value in one.points]
        for one in answer
    }


def _at(found: Mapping[_Key, _Points] | None, key: Place | _Key) -> _Points:
    parts = key if isinstance(key, tuple) else (key.namespace, key.workload, key.container)
    return () if found is None else found.get(parts, ())


def quantile(values: Sequence[float]) -> float:
    """The least value that 95 % of these are at or below."""
    return sorted(values)[math.ceil(QUANTILE * len(values)) - 1]


def _figure(points: _Points, of: Callable[[Sequence[float]], float]) -> Figure | None:
    values = [value for _, value in points]
    if not values:
        return None
    half = max(1, len(values) // 2)
    return Figure(of(values), of(values[:half]), of(values[-half:]))


def _day(at: datetime, until: datetime, evidence: Evidence) -> int:
    """How many whole days before the end."""
    return int((until - at) / evidence.day)


def _grows(points: _Points, until: datetime, evidence: Evidence) -> bool:
    peaks: dict[int, float] = {}
    for at, value in points:
        day = _day(at, until, evidence)
        peaks[day] = max(value, peaks.get(day, 0.0))
    newest = [peaks[day] for day in sorted(peaks, reverse=True)][-evidence.least :]
    rises = all(later > earlier for earlier, later in pairwise(newest))
    return len(newest) == evidence.least and rises and newest[-1] > newest[0] * _GROWN


def _own(asked: _Points, beside: int) -> _Points:
    """Of what a whole pod asks for, the part of its own container."""
    return [(at, value - beside) for at, value in asked]


def _killed_at(killed: _Points, asked: _Points, back: timedelta) -> int | None:
    """What it asked for when it was killed. A rollout after a kill is no part of it: so the least of just before."""
    then = [
        min(sizes)
        for at, value in killed
        if value > 0 and (sizes := [size for when, size in asked if at - back <= when <= at])
    ]
    return round(max(then)) if then else None


def _throttled(shares: _Points, asked: _Points) -> tuple[int | None, float | None]:
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
