"""Change and drain: a rollout ends, an update does not wait for ever, and no job is cut off on the way."""

import math
import re
from collections.abc import Mapping
from typing import Any

from components.pod_rules import HOST, ZONE
from components.workload import SKIP_AWAIT
from ebbtide.policies.pods import Pods, namespace_of
from ebbtide.policies.rule import Hits, Rule
from ebbtide.policies.seen import Seen
from ebbtide.policies.values import at, mappings, selects, texts, whole
from ebbtide.preview.document import Severity

_DEFAULT_SHARE = "25%"  # of a rolling update that says nothing
_DEFAULT_GRACE = 30  # seconds that a pod gets, unless it says more
_AUTOSCALER_GRACE = 600  # seconds, unless it is told more. Source: kubernetes/autoscaler, config/flags/flags.go
_GRACE_FLAG = "max-graceful-termination-sec"
_MINOR = re.compile(r":v?([0-9]+\.[0-9]+)\.")
_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


def _probed(seen: Seen) -> Hits:
    for pods in seen.pods:
        if pods.is_worker and any(container.get("readinessProbe") for container in pods.all_containers):
            yield pods.resource, "a worker that fails its readiness probe for a moment is removed first, busy or not"


def _deadlocked(seen: Seen) -> Hits:
    for pods in seen.pods:
        if pods.kind != "Deployment" or not _keeps_all(pods):
            continue
        for key in _apart_from_itself(pods):
            places = _places(seen, pods, key)
            if pods.replicas >= places:
                yield (
                    pods.resource,
                    f"its replicas refuse each other per {key}: {places} places for {pods.replicas} and one more",
                )


def _keeps_all(pods: Pods) -> bool:
    """Whether an update takes no old pod away before a new one is ready."""
    strategy = at(pods.resource.inputs, "spec.strategy")
    if at(strategy, "type") == "Recreate":
        return False
    share = at(strategy, "rollingUpdate.maxUnavailable")
    text = _DEFAULT_SHARE if share is None else str(share)
    if text.endswith("%") and text[:-1].isdecimal():
        return math.floor(pods.replicas * int(text[:-1]) / 100) == 0
    return whole(share) == 0


def _apart_from_itself(pods: Pods) -> list[str]:
    terms = mappings(at(pods.spec, "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"))
    return [str(t.get("topologyKey")) for t in terms if selects(t.get("labelSelector"), pods.labels)]


def _places(seen: Seen, pods: Pods, key: str) -> float:
    """How many of a topology there may be; nobody knows on a cluster that was there already."""
    if key == ZONE and not seen.existing:
        return len(seen.settings.cluster.zones)
    if key == HOST and seen.groups:
        return sum(whole(at(group.resource.inputs, "scalingConfig.maxSize")) or 0 for group in seen.homes(pods))
    return math.inf


def _awaited(seen: Seen) -> Hits:
    workers = [pods for pods in seen.pods if pods.is_worker]
    for pods in workers:
        if not _skips_await(pods.resource.inputs):
            yield pods.resource, "an update waits ten minutes for workers that come when jobs do"
    for service in seen.of_kind("Service"):
        spec = at(service.inputs, "spec")
        selector = texts(at(spec, "selector"))
        headless = at(spec, "clusterIP") == "None"
        if selector and not headless and not _skips_await(service.inputs):
            behind = [p.name for p in workers if p.namespace == namespace_of(service) and _takes(selector, p)]
            if behind:
                yield service, f"an update waits ten minutes for a worker of {', '.join(behind)}, and there may be none"


def _takes(selector: Mapping[str, str], pods: Pods) -> bool:
    return selector.items() <= pods.labels.items()


def _skips_await(inputs: Mapping[str, Any]) -> bool:
    return texts(at(inputs, "metadata.annotations")).get(SKIP_AWAIT) == "true"


def _accompanied(seen: Seen) -> Hits:
    for pods in seen.pods:
        if pods.is_worker and len(pods.containers) > 1:
            names = ", ".join(str(container.get("name")) for container in pods.containers[1:])
            yield pods.resource, f"{names} gets SIGTERM together with the worker, and is gone while the job still runs"


def _cut_off(seen: Seen) -> Hits:
    if seen.autoscaler is None:
        return
    given = seen.autoscaler_flags.get(_GRACE_FLAG, "")
    grace = int(given) if given.isdecimal() else _AUTOSCALER_GRACE
    for pods in seen.pods:
        asked = whole(pods.spec.get("terminationGracePeriodSeconds"))
        wanted = _DEFAULT_GRACE if asked is None else asked
        if wanted > grace and pods.kind != "DaemonSet" and seen.moves_at_night(pods):
            yield pods.resource, f"its pods may take {wanted} s to end, and the autoscaler ends them after {grace} s"


def _other_version(seen: Seen) -> Hits:
    if seen.autoscaler is None or seen.existing:
        return
    for container in seen.autoscaler.containers:
        found = _MINOR.search(str(container.get("image", "")))
        if found and found[1] != seen.settings.cluster.version:
            wanted = seen.settings.cluster.version
            yield seen.autoscaler.resource, f"the autoscaler is of {found[1]}, and the cluster is of {wanted}"


def _unknown_when_empty(seen: Seen) -> Hits:
    for group in seen.groups:
        if whole(at(group.resource.inputs, "scalingConfig.minSize")) != 0:
            continue
        wanted = {f"{_TEMPLATE}/label/{key}": value for key, value in group.labels.items()}
        for taint in group.taints:
            effect = _EFFECTS.get(str(taint.get("effect")), "")
            wanted[f"{_TEMPLATE}/taint/{taint.get('key')}"] = f"{taint.get('value', '')}:{effect}"
        tags = [it.inputs.get("tag") for it in seen.of_type(_TAG) if it.parent == group.resource.parent]
        given = {str(at(tag, "key")): at(tag, "value") for tag in tags}
        missing = [key.removeprefix(f"{_TEMPLATE}/") for key, value in wanted.items() if given.get(key) != value]
        if missing:
            yield group.resource, f"at zero nodes the autoscaler does not know its {', '.join(missing)}"


_TAG = "aws:autoscaling/tag:Tag"

RULES = (
    Rule(
        id="EB020",
        severity=Severity.BLOCKING,
        law="a worker pool has no readiness probe",
        fix="remove the probe: nothing calls a worker, and a liveness probe may stay",
        source="kubernetes/kubernetes#107598",
        check=_probed,
    ),
    Rule(
        id="EB021",
        severity=Severity.WARNING,
        law="a rolling update has room for its first new pod",
        fix="set maxUnavailable: 1 and maxSurge: 0, or prefer instead of require to be apart",
        source="kubernetes/kubernetes#116891",
        check=_deadlocked,
    ),
    Rule(
        id="EB022",
        severity=Severity.WARNING,
        law="no update waits for a worker pool",
        fix=f'set the annotation {SKIP_AWAIT}: "true"',
        source="pulumi/pulumi-kubernetes#605",
        check=_awaited,
    ),
    Rule(
        id="EB023",
        severity=Severity.BLOCKING,
        law="a helper beside a worker outlives the worker",
        fix="make it a native sidecar: an init container with restartPolicy: Always",
        source="istio/istio#10112",
        check=_accompanied,
    ),
    Rule(
        id="EB024",
        severity=Severity.BLOCKING,
        law="the autoscaler waits as long as the slowest pod may take to end",
        fix=f"raise --{_GRACE_FLAG} of the autoscaler above the longest job",
        source="kubernetes/kubernetes#94435; zalando-incubator/kubernetes-on-aws#4572",
        check=_cut_off,
    ),
    Rule(
        id="EB025",
        severity=Severity.BLOCKING,
        law="the autoscaler is of the cluster's minor version",
        fix="leave images.autoscaler out, or name an image of the cluster's version",
        source="kubernetes/autoscaler#2345; autoscaling/cluster-autoscaler",
        check=_other_version,
    ),
    Rule(
        id="EB026",
        severity=Severity.BLOCKING,
        law="a group that may be empty tells the autoscaler its labels and taints",
        fix="give the Auto Scaling group a tag for each of them: the group's own tags do not reach it",
        source="aws/containers-roadmap#724",
        check=_unknown_when_empty,
    ),
)
