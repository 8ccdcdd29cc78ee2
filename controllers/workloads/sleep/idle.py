"""Decide whether a workload has been idle for long enough, from its pods and their counters in Prometheus. Pure.

A workload sleeps only on complete data: each container of each pod ran, and was recorded, during all of `after`.
What idle means is in `ebbtide.vocabulary.idleness`, which `ebbtide idle` shares.

Pods are selected by uid, which cAdvisor's label `id` contains: Prometheus may also scrape another cluster with the same
names.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from ebbtide.vocabulary.clocks import MAX_CLOCK_SKEW
from ebbtide.vocabulary.idleness import MOST_BYTES, MOST_CORES, STEP, busiest
from ebbtide.vocabulary.workloads import SleepPolicy

_GAP = 90  # seconds between samples: one scrape a minute, with none missing
_SERIES = {
    "cpu": ("container_cpu_usage_seconds_total", ',container!=""', "pod, container"),
    "received": ("container_network_receive_bytes_total", "", "pod"),  # the containers of a pod share the network
    "sent": ("container_network_transmit_bytes_total", "", "pod"),
}

Facts: TypeAlias = Mapping[tuple[str, str, str], float]
"""Values by fact, pod and container. The busiest two minutes and facts about the network have no container."""


class Use(StrEnum):
    IDLE = "idle-for-long"
    BUSY = "in-use"
    RECENT = "idle-but-recent"  # not observed for long enough
    UNKNOWN = "not-known-idle"


class Activity(NamedTuple):
    use: Use
    why: str = "idle"


class RunningPod(NamedTuple):
    name: str
    uid: str
    containers: tuple[str, ...]
    since: datetime | None  # start of the container that started last; None if a container does not run


def pod_of(item: Mapping[str, Any]) -> RunningPod:
    metadata, status = item["metadata"], item.get("status", {})
    started = {
        container["name"]: datetime.fromisoformat(running["startedAt"])
        for key in ("containerStatuses", "initContainerStatuses")  # a sidecar is an init container that runs
        for container in status.get(key) or ()
        if (running := container.get("state", {}).get("running")) is not None
    }
    containers, first = item["spec"]["containers"], item["spec"].get("initContainers") or ()
    sidecars = [container for container in first if container.get("restartPolicy") == "Always"]
    runs = started.keys() >= {container["name"] for container in (*containers, *sidecars)}
    since = max(started.values()) if runs and "deletionTimestamp" not in metadata else None
    return RunningPod(metadata["name"], metadata["uid"], tuple(started), since)


def created_by(policy: SleepPolicy, item: Mapping[str, Any]) -> bool:
    """True if the policy's object created the pod: labels may also select pods of other objects.

    A Deployment's ReplicaSets have its name with the hash that the pod has as a label. A shorter name could be that of
    another Deployment, with a hyphen in its name.
    """
    metadata = item["metadata"]
    owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    wanted = ("apps/v1", "StatefulSet", policy.object)
    if policy.kind == "Deployment":
        labels: Mapping[str, str] = metadata.get("labels") or {}
        wanted = ("apps/v1", "ReplicaSet", f"{policy.object}-{labels.get('pod-template-hash')}")
    return [(owner["apiVersion"], owner["kind"], owner["name"]) for owner in owners] == [wanted]


def too_recent(pods: Sequence[RunningPod], replicas: int, after: timedelta, now: datetime) -> str:
    """Return why these pods cannot have been idle for `after`; empty if they can."""
    if len(pods) != replicas:
        return f"it has {len(pods)} of {replicas} pods"
    young = [pod.name for pod in pods if pod.since is None or now - pod.since < after]
    return f"has not run for {after} without a restart: {', '.join(young)}" if young else ""


def query_of(namespace: str, pods: Sequence[RunningPod], after: timedelta) -> str:
    """Return one PromQL query for all facts about these pods at one instant, distinguished by the label `fact`."""
    ids = "|".join(pod.uid.replace("-", "[-_]") for pod in pods)  # systemd's cgroups have underscores
    where, facts = f'namespace="{namespace}",id=~".*pod({ids}).*"', dict[str, str]()
    span, step = int(after.total_seconds()), int(STEP.total_seconds())
    for name, (metric, more, labels) in _SERIES.items():
        counted = f"count_over_time((time() - timestamp({metric}{{{where}{more}}}) <= {_GAP})[{span}s:{step}s])"
        facts[f"{name} steps"] = f"min by ({labels}) ({counted})"
    facts["cpu busiest"], facts["network busiest"] = busiest(where, "pod", after)
    return " or ".join(f'label_replace({text}, "fact", "{fact}", "", "")' for fact, text in facts.items())


def facts_of(answer: Mapping[str, Any], now: datetime) -> Facts:
    """Parse Prometheus' answer. Raises ValueError if it is incomplete, of another clock, or not from Prometheus."""
    facts: dict[tuple[str, str, str], float] = {}
    try:
        if answer["status"] != "success" or answer.get("warnings") or answer.get("isPartial"):
            raise ValueError("Prometheus' answer is incomplete")
        for labels, (at, value) in ((line["metric"], line["value"]) for line in answer["data"]["result"]):
            if abs(now.timestamp() - at) > MAX_CLOCK_SKEW.total_seconds():
                raise ValueError("Prometheus' clock and the controller's differ by more than a minute")
            key, number = (labels["fact"], labels["pod"], labels.get("container", "")), float(value)
            if key in facts or not isfinite(number):
                raise ValueError(f"Prometheus' answer has two values, or {number}: {', '.join(key)}")
            facts[key] = number
    except (LookupError, TypeError, AttributeError):
        raise ValueError("the answer is not Prometheus'") from None
    return facts


def activity_of(pods: Sequence[RunningPod], facts: Facts, after: timedelta) -> Activity:
    """Return the activity of pods that have run for `after`."""
    for pod in pods:
        cpu, network = [("cpu", container) for container in pod.containers], [("received", ""), ("sent", "")]
        for name, container in (*cpu, *network):
            recorded = STEP * facts.get((f"{name} steps", pod.name, container), 0)
            metric = f"{_SERIES[name][0]} of {pod.name}"
            if not recorded:
                return Activity(Use.UNKNOWN, f"Prometheus has no {metric}")
            if recorded < after // STEP * STEP:
                return Activity(Use.RECENT, f"Prometheus has {metric} for {recorded} of the last {after}")
        cores, traffic = (facts.get((f"{part} busiest", pod.name, "")) for part in ("cpu", "network"))
        if cores is None or traffic is None:
            return Activity(Use.UNKNOWN, f"Prometheus has no rates of {pod.name}")
        if cores > MOST_CORES or traffic > MOST_BYTES:
            return Activity(Use.BUSY, f"{pod.name}: {cores:.4f} cores, {traffic:,.0f} bytes a second in two minutes")
    return Activity(Use.IDLE)
