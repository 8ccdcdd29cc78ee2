"""Which pods ran, on which group, from when to when, and what they asked for.

**DaemonSets** are left out: what a node offers is counted without them (`ebbtide.prices.usable`). They are told by
their names, since nothing else that is recorded tells them: a pod of a DaemonSet has five letters behind its owner's
name, one of a Deployment has its ReplicaSet's hash before them, and one of a StatefulSet a number.
Source: Kubernetes, apimachinery util/rand, SafeEncodeString: the letters that such names are made of.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.advice.sizes.courses import course
from ebbtide.advice.sizes.evidence import Evidence
from ebbtide.advice.sizes.questions import Questions
from ebbtide.monitoring.client import Prometheus, Unknown
from ebbtide.settings.fragment.size import PodSize

_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_OF_A_DEPLOYMENT = re.compile(rf"-{_SAFE}{{6,10}}-{_SAFE}{{5}}$")
_OF_A_DAEMON = re.compile(rf"-{_SAFE}{{5}}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One pod. `start` and `end` are hours before now, as far as the evidence reaches: the end is the smaller one."""

    namespace: str
    workload: str  # empty: of nobody that the stack file names
    group: str  # empty: of a node without one
    start: float
    end: float
    size: PodSize

    @property
    def hours(self) -> float:
        return self.start - self.end


def ran_of(
    prometheus: Prometheus, ask: Questions, until: datetime, evidence: Evidence, missing: dict[str, str]
) -> Sequence[Ran]:
    """Empty, with a line in `missing`, where it cannot be told."""
    since = until - evidence.window + evidence.pod_step
    answer = course(prometheus, ask.placed(), since, until, evidence.pod_step, "pods that ran")
    if isinstance(answer, Unknown):
        missing["pods that ran"] = answer.why
        return ()
    sizes = _sizes(prometheus, ask, evidence)
    half = evidence.pod_step / 2
    found: list[Ran] = []
    for one in answer:
        namespace, name = (one.labels.get(label, "") for label in ("namespace", "pod"))
        workload = one.labels.get("workload", "")
        if not workload and is_of_a_daemon(name):
            continue
        begin, end = ((until - at).total_seconds() / 3600 for at in (one.points[0][0] - half, one.points[-1][0] + half))
        found.append(
            Ran(
                namespace=namespace,
                workload=workload,
                group=one.labels.get("group", ""),
                start=begin,
                end=max(0.0, end),
                size=sizes.get((namespace, name), PodSize(cpu=0, memory=0, gpu=0)),
            )
        )
    return found


def is_of_a_daemon(pod: str) -> bool:
    return bool(_OF_A_DAEMON.search(pod)) and not _OF_A_DEPLOYMENT.search(pod)


def _sizes(prometheus: Prometheus, ask: Questions, evidence: Evidence) -> Mapping[tuple[str, str], PodSize]:
    """Of pods of which this is not known at all there is no size."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for what, unit in (("cpu_cores", 1000.0), ("memory_bytes", 2.0**-20), ("gpus", 1.0)):
        answer = prometheus.ask(ask.sizes(what, evidence.window), stands_on=())
        for sample in () if isinstance(answer, Unknown) else answer:
            at = (sample.labels.get("namespace", ""), sample.labels.get("pod", ""))
            found.setdefault(at, {})[what] = sample.value * unit
    return {
        at: PodSize(
            cpu=round(it.get("cpu_cores", 0)), memory=round(it.get("memory_bytes", 0)), gpu=round(it.get("gpus", 0))
        )
        for at, it in found.items()
    }
