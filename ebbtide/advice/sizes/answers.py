"""What Prometheus answers about a stack's containers and pods, by the labels that name them.

What nobody recorded is None, with a line in `missing` that says why; nothing becomes a zero that nobody measured.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from ebbtide.advice.sizes.containers import Container
from ebbtide.advice.sizes.courses import course
from ebbtide.advice.sizes.evidence import Evidence
from ebbtide.advice.sizes.questions import BY, Questions
from ebbtide.monitoring.client import Course, Prometheus, Series, Unknown

Points: TypeAlias = Sequence[tuple[datetime, float]]
"""The oldest first."""
Key: TypeAlias = tuple[str, ...]
Found: TypeAlias = Mapping[Key, Points] | None

_METRIC = re.compile(r"\b(?:container|DCGM|ebbtide)_\w+")
_MIB = 2.0**20
_PODS = ("namespace", "workload")


class NothingRecorded(Exception):
    """`lines` say why, one each."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Of containers by namespace, workload and container; of pods by the first two; kills by workload."""

    cpu: Found  # millicores
    memory: Found  # MiB
    throttled: Found  # shares; without a limit there is nothing, which is nothing missing
    kills: Found  # each in two steps
    cpu_asked: Found  # millicores of a whole pod
    memory_asked: Found  # MiB of a whole pod
    gpu_busy: Found  # percent
    gpu_memory: Found  # MiB
    gpus_used: Found
    missing: Mapping[str, str]


def read_answers(
    prometheus: Prometheus, ask: Questions, wanted: Iterable[Container], until: datetime, evidence: Evidence
) -> Answers:
    """Raises `NothingRecorded` where neither CPU nor memory is known."""
    asking = _Asking(prometheus, until - evidence.window + evidence.step, until, evidence.step)
    cpu = asking.by("CPU used", ask.cpu(), BY, 1000)
    memory = asking.by("memory used", ask.memory(), BY, 1 / _MIB)
    if cpu is None and memory is None:
        raise NothingRecorded(asking.missing.values())
    gpus = any(it.pod.gpu.count for it in wanted)
    return Answers(
        cpu=cpu,
        memory=memory,
        throttled=asking.by("", ask.throttled(), BY),
        kills=asking.by("kills for lack of memory", ask.kills(), ("workload",)),
        cpu_asked=asking.by("CPU asked for", ask.requested("cpu_cores"), _PODS, 1000),
        memory_asked=asking.by("memory asked for", ask.requested("memory_bytes"), _PODS, 1 / _MIB),
        gpu_busy=asking.by("use of GPUs", ask.gpu_busy(), _PODS) if gpus else None,
        gpu_memory=asking.by("memory of GPUs", ask.gpu_memory(), _PODS) if gpus else None,
        gpus_used=asking.by("number of GPUs used", ask.gpus_used(), _PODS) if gpus else None,
        missing=asking.missing,
    )


@dataclass(slots=True)
class _Asking:
    prometheus: Prometheus
    since: datetime
    until: datetime
    step: timedelta
    missing: dict[str, str] = field(default_factory=dict[str, str])

    def by(self, called: str, question: str, labels: Key, unit: float = 1.0) -> Found:
        """Points by the values of the labels; None where nothing is, with a line in `missing` if that is worth one."""
        answer = self._course(question)
        if isinstance(answer, Unknown):
            if called:
                self.missing[called] = answer.why
            return None
        return _by(answer, labels, unit)

    def _course(self, question: str) -> Course:
        metric = _METRIC.search(question)
        called = f"{metric[0]} of its pods" if metric is not None else ""
        return course(self.prometheus, question, self.since, self.until, self.step, called)


def _by(answer: Sequence[Series], labels: Key, unit: float) -> Mapping[Key, Points]:
    return {
        tuple(one.labels.get(label, "") for label in labels): [(at, value * unit) for at, value in one.points]
        for one in answer
    }
