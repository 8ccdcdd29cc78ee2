"""Read containers' use and the pods that ran from Prometheus, over the window of the evidence.

**DaemonSets** are left out, since a node's capacity for pods excludes them (`ebbtide.prices.usable`). Their pods are
recognized by name, since nothing else is recorded: a DaemonSet's pod has five letters after its owner's name, a
Deployment's has a ReplicaSet hash before them, and a StatefulSet's has a number.
Source: Kubernetes, apimachinery util/rand, SafeEncodeString: the letters of such names.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.lab.advice.sizes.containers import Container, ContainerLabels
from ebbtide.lab.advice.sizes.evidence import ContainerUsage, Evidence
from ebbtide.lab.advice.sizes.queries import PIECE, NothingRecorded, Questions, namespaces, read_answers
from ebbtide.lab.advice.sizes.uses import use_of
from ebbtide.monitoring.client import Prometheus, Silent, UnknownAnswer
from ebbtide.monitoring.history import TimeRange, history
from ebbtide.monitoring.rules import Metrics
from ebbtide.settings.fragment.size import PodSize

_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_DEPLOYMENT_POD = re.compile(rf"-{_SAFE}{{6,10}}-{_SAFE}{{5}}$")
_DAEMON_POD = re.compile(rf"-{_SAFE}{{5}}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPod:
    """One pod. `start` and `end` are hours before now, within the evidence; `end` is the smaller number."""

    namespace: str
    workload: str  # empty: not named in the stack file
    group: str  # empty: the node has none
    start: float
    end: float
    size: PodSize

    @property
    def hours(self) -> float:
        return self.start - self.end


def recorded_pods(
    prometheus: Prometheus, ask: Questions, until: datetime, evidence: Evidence, missing: dict[str, str]
) -> Sequence[RecordedPod]:
    """Return the recorded pods; empty, with a line in `missing`, if they are unknown."""
    since = until - evidence.window + evidence.pod_step
    hours = TimeRange(since=since, until=until, step=evidence.pod_step, piece=PIECE)
    labels = ("node", "namespace", "pod", "workload", "group")
    answer = history(prometheus, ask.placed(), hours, by=labels, called="pods that ran")
    if isinstance(answer, UnknownAnswer):
        missing["pods that ran"] = answer.why
        return ()
    sizes = _sizes(prometheus, ask, evidence)
    if isinstance(sizes, UnknownAnswer):
        missing["pods that ran"] = sizes.why
        return ()
    half = evidence.pod_step / 2
    pods: list[RecordedPod] = []
    for (_, namespace, name, workload, group), points in answer.items():
        if not workload and is_daemon_pod(name):
            continue
        first, last = min(points) - half, max(points) + half
        begin, end = ((until - at).total_seconds() / 3600 for at in (first, last))
        pods.append(
            RecordedPod(
                namespace=namespace,
                workload=workload,
                group=group,
                start=begin,
                end=max(0.0, end),
                size=sizes.get((namespace, name), PodSize(cpu=0, memory=0, gpu=0)),
            )
        )
    return pods


def is_daemon_pod(pod: str) -> bool:
    return bool(_DAEMON_POD.search(pod)) and not _DEPLOYMENT_POD.search(pod)


def _sizes(
    prometheus: Prometheus, ask: Questions, evidence: Evidence
) -> Mapping[tuple[str, str], PodSize] | UnknownAnswer:
    """Return the sizes by namespace and name, without pods of which nothing is known; a resource may be silent."""
    requests: dict[tuple[str, str], dict[str, float]] = {}
    for resource, unit in (("cpu_cores", 1000.0), ("memory_bytes", 2.0**-20), ("gpus", 1.0)):
        answer = prometheus.ask(ask.sizes(resource, evidence.window), stands_on=())
        if isinstance(answer, Silent):
            continue
        if isinstance(answer, UnknownAnswer):
            return answer
        for sample in answer:
            pod = (sample.labels.get("namespace", ""), sample.labels.get("pod", ""))
            requests.setdefault(pod, {})[resource] = sample.value * unit
    return {
        pod: PodSize(
            cpu=round(amounts.get("cpu_cores", 0)),
            memory=round(amounts.get("memory_bytes", 0)),
            gpu=round(amounts.get("gpus", 0)),
        )
        for pod, amounts in requests.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedUsage:
    uses: Mapping[ContainerLabels, ContainerUsage]  # of every container, including those that never ran
    pods: Sequence[RecordedPod]
    missing: Mapping[str, str]  # unknown facts, each with the reason
    source: str


def read_uses(
    prometheus: Prometheus, customer: str, containers: Sequence[Container], until: datetime, evidence: Evidence
) -> RecordedUsage:
    """Query Prometheus. Raises `NothingRecorded`."""
    if (doubt := prometheus.doubt()) is not None:
        raise NothingRecorded([doubt.why])
    metrics = Metrics(customer)
    pods = prometheus.ask(f"count({metrics('pod_info')})", stands_on=("pod_info",))
    if isinstance(pods, UnknownAnswer):
        raise NothingRecorded([f"{pods.why}; wanted one that scrapes Ebbtide's exporter of {customer}"])
    ask = Questions(metrics, namespaces(container.place.namespace for container in containers), evidence.step)
    answers = read_answers(prometheus, ask, containers, until, evidence)
    missing = dict(answers.missing)
    pods = recorded_pods(prometheus, ask, until, evidence, missing)
    uses = {container.place: use_of(container, answers, until, evidence) for container in containers}
    return RecordedUsage(uses=uses, pods=pods, missing=missing, source=prometheus.where)
