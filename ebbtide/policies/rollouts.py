"""Rollouts and drains: each ends, no update waits forever, and no job is killed on the way."""

import math
import re
from collections.abc import Mapping
from typing import Any

from components.pods.rules import HOST, ZONE
from components.pods.workload import SKIP_AWAIT
from ebbtide.findings import Severity
from ebbtide.policies.rule import Hits, Rule
from ebbtide.provisioning_labels import POOL
from ebbtide.recording.pods import Pods
from ebbtide.recording.resources import namespace_of
from ebbtide.recording.state import StackState, kubernetes_minor
from ebbtide.recording.values import mappings, selects, texts, value_at, whole_number
from ebbtide.text.durations import format_duration

_DEFAULT_SHARE = "25%"  # of a rolling update without maxUnavailable
_DEFAULT_GRACE = 30  # seconds, for a pod without terminationGracePeriodSeconds
_AUTOSCALER_GRACE = 600  # seconds, the flag's default. Source: kubernetes/autoscaler, config/flags/flags.go
OLDEST_KUBELET = 3  # minor versions behind the API server
_GRACE_FLAG = "max-graceful-termination-sec"
_MINOR = re.compile(r":v?([0-9]+\.[0-9]+)\.")
_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"


def _probed(state: StackState) -> Hits:
    for pods in state.pods:
        if pods.is_worker and any(container.get("readinessProbe") for container in pods.all_containers):
            yield pods.resource, "a worker that fails its readiness probe for a moment is removed first, busy or not"


def _deadlocked(state: StackState) -> Hits:
    for pods in state.pods:
        if pods.kind != "Deployment" or not _keeps_all(pods):
            continue
        for key in _apart_from_itself(pods):
            places = _places(state, pods, key)
            if pods.replicas >= places:
                yield (
                    pods.resource,
                    f"its replicas exclude each other per {key}: {places} places, an update needs {pods.replicas + 1}",
                )


def _keeps_all(pods: Pods) -> bool:
    """True if an update removes no old pod before a new one is ready."""
    strategy = value_at(pods.resource.inputs, "spec.strategy")
    if value_at(strategy, "type") == "Recreate":
        return False
    share = value_at(strategy, "rollingUpdate.maxUnavailable")
    text = _DEFAULT_SHARE if share is None else str(share)
    if text.endswith("%") and text[:-1].isdecimal():
        return math.floor(pods.replicas * int(text[:-1]) / 100) == 0
    return whole_number(share) == 0


def _apart_from_itself(pods: Pods) -> list[str]:
    terms = mappings(value_at(pods.spec, "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"))
    return [str(t.get("topologyKey")) for t in terms if selects(t.get("labelSelector"), pods.labels)]


def _places(state: StackState, pods: Pods, key: str) -> float:
    """The highest number of zones or nodes; unlimited if not known, as on an existing cluster."""
    if key == ZONE and not state.existing:
        return len(state.settings.cluster.zones)
    if key == HOST and state.groups:
        return sum(group.most for group in state.groups_for(pods))
    return math.inf


def _awaited(state: StackState) -> Hits:
    workers = [pods for pods in state.pods if pods.is_worker]
    for pods in workers:
        if not _skips_await(pods.resource.inputs):
            yield pods.resource, "an update waits ten minutes for workers that start only when there are jobs"
    for pods in state.pods:
        if pods.kind == "Job" and not _skips_await(pods.resource.inputs):
            yield pods.resource, "an update waits for the job to end"
    for service in state.of_kind("Service"):
        spec = value_at(service.inputs, "spec")
        selector = texts(value_at(spec, "selector"))
        headless = value_at(spec, "clusterIP") == "None"
        if selector and not headless and not _skips_await(service.inputs):
            behind = [p.name for p in workers if p.namespace == namespace_of(service) and _takes(selector, p)]
            if behind:
                yield service, f"an update waits ten minutes for a worker of {', '.join(behind)}, and there may be none"


def _takes(selector: Mapping[str, str], pods: Pods) -> bool:
    return selector.items() <= pods.labels.items()


def _skips_await(inputs: Mapping[str, Any]) -> bool:
    return texts(value_at(inputs, "metadata.annotations")).get(SKIP_AWAIT) == "true"


def _accompanied(state: StackState) -> Hits:
    for pods in state.pods:
        if pods.is_worker and len(pods.containers) > 1:
            names = ", ".join(str(container.get("name")) for container in pods.containers[1:])
            yield pods.resource, f"{names} gets SIGTERM with the worker, and exits while the job still runs"


def _cut_off(state: StackState) -> Hits:
    if state.autoscaler is None:
        return
    flag = state.autoscaler_flags.get(_GRACE_FLAG, "")
    autoscaler_grace = int(flag) if flag.isdecimal() else _AUTOSCALER_GRACE
    for pods in state.pods:
        declared = whole_number(pods.spec.get("terminationGracePeriodSeconds"))
        grace = _DEFAULT_GRACE if declared is None else declared
        if grace > autoscaler_grace and pods.kind != "DaemonSet" and state.moves_at_night(pods):
            yield (
                pods.resource,
                f"its pods may take {grace} s to shut down, and the autoscaler kills them after {autoscaler_grace} s",
            )


def _killed_early(state: StackState) -> Hits:
    for pods in state.pods:
        pool = state.settings.workers.get(pods.labels.get(POOL, ""))
        declared = whole_number(pods.spec.get("terminationGracePeriodSeconds"))
        grace = _DEFAULT_GRACE if declared is None else declared
        if pool is not None and grace < pool.stop_time.total_seconds():
            job_text = "its jobs take" if pool.stop_time == pool.longest_job else "its jobs are saved in"
            longest = format_duration(pool.stop_time)
            yield pods.resource, f"{job_text} up to {longest}, and its workers are killed {grace} s after SIGTERM"


def _skewed(state: StackState) -> Hits:
    api = state.control_plane_minor
    for group in state.groups:
        nodes = kubernetes_minor(group.resource.inputs.get("version"))
        if api is not None and nodes is not None and not 0 <= api - nodes <= OLDEST_KUBELET:
            yield group.resource, f"nodes of version 1.{nodes} may not join a control plane of 1.{api}"


def _other_version(state: StackState) -> Hits:
    if state.autoscaler is None or state.existing:
        return
    for container in state.autoscaler.containers:
        match = _MINOR.search(str(container.get("image", "")))
        if match and match[1] != state.settings.cluster.version:
            version = state.settings.cluster.version
            yield state.autoscaler.resource, f"the autoscaler has version {match[1]}, and the cluster {version}"


def _unknown_when_empty(state: StackState) -> Hits:
    for group in state.groups:
        if whole_number(value_at(group.resource.inputs, "scalingConfig.minSize")) != 0:
            continue
        expected = {f"{_TEMPLATE}/label/{key}": value for key, value in group.labels.items()}
        for taint in group.taints:
            expected[f"{_TEMPLATE}/taint/{taint.key}"] = f"{taint.value}:{taint.effect}"
        tags = [
            resource.inputs.get("tag") for resource in state.of_type(_TAG) if resource.parent == group.resource.parent
        ]
        present = {str(value_at(tag, "key")): value_at(tag, "value") for tag in tags}
        missing = [key.removeprefix(f"{_TEMPLATE}/") for key, value in expected.items() if present.get(key) != value]
        if missing:
            yield group.resource, f"at zero nodes the autoscaler does not know its {', '.join(missing)}"


_TAG = "aws:autoscaling/tag:Tag"

RULES = (
    Rule(
        code="EB020",
        severities=(Severity.BLOCKING,),
        title="a worker pool has no readiness probe",
        remedy="remove the probe: nothing calls a worker, and a liveness probe may stay",
        source="kubernetes/kubernetes#107598",
        check=_probed,
    ),
    Rule(
        code="EB021",
        severities=(Severity.WARNING,),
        title="a rolling update has capacity for its first new pod",
        remedy="set maxUnavailable: 1 and maxSurge: 0, or make the anti-affinity preferred instead of required",
        source="kubernetes/kubernetes#116891",
        check=_deadlocked,
    ),
    Rule(
        code="EB022",
        severities=(Severity.WARNING,),
        title="no update waits for a worker pool, or for a job to end",
        remedy=f'set the annotation {SKIP_AWAIT}: "true"',
        source="pulumi/pulumi-kubernetes#605",
        check=_awaited,
    ),
    Rule(
        code="EB023",
        severities=(Severity.BLOCKING,),
        title="a sidecar outlives the worker",
        remedy="make it a native sidecar: an init container with restartPolicy: Always",
        source="istio/istio#10112",
        check=_accompanied,
    ),
    Rule(
        code="EB024",
        severities=(Severity.BLOCKING,),
        title="the autoscaler waits as long as the slowest pod may take to shut down",
        remedy=f"raise --{_GRACE_FLAG} of the autoscaler above the longest job",
        source="kubernetes/kubernetes#94435; zalando-incubator/kubernetes-on-aws#4572",
        check=_cut_off,
    ),
    Rule(
        code="EB025",
        severities=(Severity.BLOCKING,),
        title="the autoscaler has the cluster's minor version",
        remedy="leave images.autoscaler out, or name an image of the cluster's version; where this release knows none "
        "and there is none yet, write an exception for autoscaler-deployment",
        source="kubernetes/autoscaler#2345; autoscaling/cluster-autoscaler",
        check=_other_version,
    ),
    Rule(
        code="EB026",
        severities=(Severity.BLOCKING,),
        title="the autoscaler knows the labels and taints of every group that may be empty",
        remedy="give the Auto Scaling group a tag for each of them: the node group's own tags do not reach it",
        source="aws/containers-roadmap#724",
        check=_unknown_when_empty,
    ),
    Rule(
        code="EB039",
        severities=(Severity.BLOCKING,),
        title=f"nodes are not newer than the control plane, and at most {OLDEST_KUBELET} minor versions older",
        remedy="give the control plane and its node groups the version of cluster.version",
        source="upgrades/index, version skew",
        check=_skewed,
    ),
    Rule(
        code="EB040",
        severities=(Severity.BLOCKING,),
        title="the grace period of a worker covers its longest job, or a save where checkpoints are required",
        remedy="set terminationGracePeriodSeconds to at least longestJob of the pool, or checkpoints.saveWithin",
        source="reliability/application, graceful shutdown",
        check=_killed_early,
    ),
)
