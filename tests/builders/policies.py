"""One change by hand for each rule, to a stack that keeps them all."""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias, cast

from ebbtide.recording.resources import Resource, display_name
from ebbtide.settings import StackSettings, load_stack
from tests.builders.components import demo_stack
from tests.builders.existing import twins
from tests.builders.recorded import record
from tests.paths import DATA

Resources: TypeAlias = tuple[Resource, ...]
Change: TypeAlias = Callable[[Resources], Resources]

DEMO, BERLIN, ON_PREMISES = "demo", "example-berlin", "demo on a cluster that was there already"
STACKS = (DEMO, BERLIN, ON_PREMISES)
GONE = object()
"""Instead of a value: the key goes."""

_SET_OF_NODES = {"fixed": {"pool": "services"}, "gpu": {"pool": "gpu"}}
_POD = "spec.template.spec"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    words: str
    change: Change
    stack: str = DEMO
    also: frozenset[str] = frozenset()  # further rules that the same change breaks


@cache
def settings_of(stack: str) -> StackSettings:
    return twins(DEMO, _SET_OF_NODES)[1] if stack == ON_PREMISES else load_stack(stack, DATA)


@cache
def recorded(stack: str) -> Resources:
    return demo_stack() if stack == DEMO else record(settings_of(stack))


def edited(shown: str, path: str, value: Any) -> Change:
    """The resource that the preview shows as `shown`, with another value behind `path`: a.b.0.c."""

    def change(resources: Resources) -> Resources:
        found = [resource for resource in resources if display_name(resource) == shown]
        assert len(found) == 1, f"{shown}: {len(found)} resources"
        inputs = copy.deepcopy(dict(found[0].inputs))
        _put(inputs, re.split(r"(?<!\\)\.", path), value)
        return tuple(replace(one, inputs=inputs) if one is found[0] else one for one in resources)

    return change


def ignoring(shown: str, *paths: str) -> Change:
    def change(resources: Resources) -> Resources:
        return tuple(replace(one, ignore_changes=paths) if display_name(one) == shown else one for one in resources)

    return change


def removed(shown: str) -> Change:
    return lambda resources: tuple(resource for resource in resources if display_name(resource) != shown)


def added(type_: str, name: str, inputs: Mapping[str, Any]) -> Change:
    """A resource beside the others; objects of the cluster say their namespace in `metadata`."""
    resource = Resource(
        urn=f"urn:pulumi:demo::ebbtide::{type_}::{name}", type=type_, name=name, parent="", custom=True, inputs=inputs
    )
    return lambda resources: (*resources, resource)


def budget(name: str, workload: str, **spec: Any) -> Change:
    inputs = {
        "metadata": {"name": name, "namespace": "ebbtide"},
        "spec": {"selector": {"matchLabels": {"ebbtide.dev/workload": workload}}, **spec},
    }
    return added("kubernetes:policy/v1:PodDisruptionBudget", name, inputs)


def autoscaler_of(name: str, namespace: str) -> Change:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    inputs = {"metadata": {"name": name, "namespace": namespace}, "spec": {"scaleTargetRef": target, "maxReplicas": 9}}
    return added("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", f"{name}-hpa", inputs)


def balancer(**annotations: str) -> Change:
    metadata = {"name": "api", "namespace": "ebbtide", "annotations": annotations}
    spec = {"type": "LoadBalancer", "selector": {"ebbtide.dev/workload": "api"}}
    return added("kubernetes:core/v1:Service", "api", {"metadata": metadata, "spec": spec})


def route(service: str, port: int) -> Change:
    metadata = {"name": "models", "namespace": "ebbtide"}
    rule = {"backendRefs": [{"name": service, "port": port}]}
    spec = {"hostnames": ["models.acme.internal"], "rules": [rule]}
    return added("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", "models", {"metadata": metadata, "spec": spec})


def pod(name: str, **spec: Any) -> Change:
    labels = {"ebbtide.dev/workload": "api", "ebbtide.dev/category": "flexible"}
    limits = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "one", "image": "registry.example.com/one:1", "resources": {"limits": limits}}
    quiet = {"automountServiceAccountToken": False, "nodeSelector": {"ebbtide.dev/node-kind": "flexible"}}
    inputs = {
        "metadata": {"name": name, "namespace": "ebbtide", "labels": labels},
        "spec": {**quiet, "containers": [container], **spec},
    }
    return added("kubernetes:core/v1:Pod", name, inputs)


def both(*changes: Change) -> Change:
    def change(resources: Resources) -> Resources:
        for one in changes:
            resources = one(resources)
        return resources

    return change


def _put(holder: Any, way: Sequence[str], value: Any) -> None:
    for part, following in pairwise(way):
        key = _key(holder, part)
        if key not in _keys(holder):
            holder[key] = [] if following == "0" else {}
        holder = holder[key]
    last = _key(holder, way[-1])
    if value is GONE:
        del holder[last]
    elif last in _keys(holder) or not isinstance(last, int):
        holder[last] = value
    else:
        holder.append(value)


def _key(holder: Any, part: str) -> str | int:
    return int(part) if isinstance(holder, list) else part.replace("\\.", ".")


def _keys(holder: Any) -> set[str | int]:
    held = cast("list[Any] | dict[str, Any]", holder)
    return set(range(len(held))) if isinstance(held, list) else set(held)


_API, _TRAIN, _HEAD = "Deployment ebbtide/api", "Deployment ebbtide-workers/train", "Deployment ebbtide/ray-head"
_CA = "Deployment kube-system/cluster-autoscaler"
_CLUSTER = "Cluster cluster-control-plane"
_NODES = "NodeGroup flexible-a-nodes"
_TEMPLATE = "LaunchTemplate flexible-a-template"
_SIDECAR = {"name": "proxy", "image": "registry.example.com/proxy:1", "resources": {"limits": {"memory": "64Mi"}}}
_APART = [
    {"labelSelector": {"matchLabels": {"ebbtide.dev/workload": "ray-head"}}, "topologyKey": "kubernetes.io/hostname"}
]
_FLAGS = f"{_POD}.containers.0.args"


def without_flag(flag: str) -> Change:
    def change(resources: Resources) -> Resources:
        found = next(resource for resource in resources if display_name(resource) == _CA)
        args = [arg for arg in found.inputs["spec"]["template"]["spec"]["containers"][0]["args"] if flag not in arg]
        return edited(_CA, _FLAGS, args)(resources)

    return change


MUTANTS: Mapping[str, Mutant] = {
    "EB001": Mutant(
        words="the budget of `ray-head`, a fixed workload, lets one pod go",
        change=edited("PodDisruptionBudget ebbtide/ray-head", "spec.maxUnavailable", 1),
    ),
    "EB002": Mutant(words="the budget of `api` is gone", change=removed("PodDisruptionBudget ebbtide/api")),
    "EB003": Mutant(
        words="a second budget selects `ray-head`", change=budget("ray-head-too", "ray-head", maxUnavailable=0)
    ),
    "EB004": Mutant(
        words="the budget of `workflow-scheduler` says `minAvailable: 1`",
        change=both(
            edited("PodDisruptionBudget ebbtide/workflow-scheduler", "spec.maxUnavailable", GONE),
            edited("PodDisruptionBudget ebbtide/workflow-scheduler", "spec.minAvailable", 1),
        ),
    ),
    "EB005": Mutant(words="a budget selects `apy`, a slip", change=budget("apy", "apy", maxUnavailable=0)),
    "EB006": Mutant(
        words="the budget of `translate`, flexible, says `IfHealthyBudget`",
        change=edited("PodDisruptionBudget ebbtide/translate", "spec.unhealthyPodEvictionPolicy", "IfHealthyBudget"),
        stack=BERLIN,
    ),
    "EB007": Mutant(
        words="the budget of `api` ignores `spec.max_unavailable`",
        change=ignoring("PodDisruptionBudget ebbtide/api", "spec.max_unavailable", "spec.maxUnavailable"),
    ),
    "EB008": Mutant(words="the pool `train` ignores nothing", change=ignoring(_TRAIN)),
    "EB009": Mutant(words="an HPA on the pool `train`", change=autoscaler_of("train", "ebbtide-workers")),
    "EB010": Mutant(
        words="`pulumi.com/patchForce` on `api`",
        change=edited(_API, "metadata.annotations.pulumi\\.com/patchForce", "true"),
    ),
    "EB011": Mutant(
        words="a nightly schedule on the Auto Scaling group of `flexible-a`",
        change=added(
            "aws:autoscaling/schedule:Schedule",
            "night",
            {"autoscalingGroupName": "eks-flexible-a", "desiredCapacity": 0},
        ),
    ),
    "EB012": Mutant(
        words="`api` without the label of its category",
        change=edited(_API, "spec.template.metadata.labels.ebbtide\\.dev/category", GONE),
    ),
    "EB013": Mutant(
        words="`model-serving` gets a helper that asks for 60Gi",
        change=edited(
            "Deployment ebbtide/model-serving",
            f"{_POD}.containers.1",
            {**_SIDECAR, "resources": {"requests": {"memory": "60Gi"}, "limits": {"memory": "60Gi"}}},
        ),
    ),
    "EB014": Mutant(
        words='`safe-to-evict: "false"` on the pods of `api`',
        change=edited(
            _API, "spec.template.metadata.annotations.cluster-autoscaler\\.kubernetes\\.io/safe-to-evict", "false"
        ),
    ),
    "EB015": Mutant(
        words="an `emptyDir` in `api`, where the autoscaler is somebody else's",
        change=edited(_API, f"{_POD}.volumes.0", {"name": "scratch", "emptyDir": {}}),
        stack=ON_PREMISES,
    ),
    "EB016": Mutant(
        words="`api` with `system-cluster-critical`",
        change=edited(_API, f"{_POD}.priorityClassName", "system-cluster-critical"),
    ),
    "EB017": Mutant(words="the group `flexible-a` buys spot", change=edited(_NODES, "capacityType", "SPOT")),
    "EB018": Mutant(words="`api` without its spread", change=edited(_API, f"{_POD}.topologySpreadConstraints", GONE)),
    "EB019": Mutant(
        words="`dashboards` with one replica", change=edited("Deployment ebbtide/dashboards", "spec.replicas", 1)
    ),
    "EB020": Mutant(
        words="a readiness probe on the pool `prep`",
        change=edited(
            "Deployment ebbtide-workers/prep", f"{_POD}.containers.0.readinessProbe", {"exec": {"command": ["true"]}}
        ),
    ),
    "EB021": Mutant(
        words="four copies of `ray-head`, each on a node of its own, with the default strategy, for four fixed nodes",
        change=both(
            edited(_HEAD, "spec.replicas", 4),
            edited(_HEAD, "spec.strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}}),
            edited(_HEAD, f"{_POD}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", _APART),
        ),
    ),
    "EB022": Mutant(
        words="a Service in front of the pool `embed`",
        change=added(
            "kubernetes:core/v1:Service",
            "embed",
            {
                "metadata": {"name": "embed", "namespace": "ebbtide-workers"},
                "spec": {"selector": {"ebbtide.dev/workload": "embed"}, "ports": [{"port": 80}]},
            },
        ),
        stack=BERLIN,
    ),
    "EB023": Mutant(
        words="a proxy as a second container of `train-large`",
        change=edited("Deployment ebbtide-workers/train-large", f"{_POD}.containers.1", _SIDECAR),
    ),
    "EB024": Mutant(
        words="the autoscaler without `--max-graceful-termination-sec`",
        change=without_flag("max-graceful-termination-sec"),
    ),
    "EB025": Mutant(
        words="an autoscaler of 1.33",
        change=edited(_CA, f"{_POD}.containers.0.image", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.1"),
    ),
    "EB026": Mutant(words="a label more on the group `flexible-a`", change=edited(_NODES, "labels.disk", "fast")),
    "EB027": Mutant(
        words="`hostNetwork` for `notebook-hub`",
        change=edited("Deployment ebbtide/notebook-hub", f"{_POD}.hostNetwork", True),
    ),
    "EB028": Mutant(
        words="the namespace of the workers takes pods of level `baseline`",
        change=edited(
            "Namespace ebbtide-workers", "metadata.labels.pod-security\\.kubernetes\\.io/enforce", "baseline"
        ),
    ),
    "EB029": Mutant(
        words="`api` with a token of the default account",
        change=edited(_API, f"{_POD}.automountServiceAccountToken", GONE),
    ),
    "EB030": Mutant(
        words="`vector-search` without a memory limit",
        change=edited("Deployment ebbtide/vector-search", f"{_POD}.containers.0.resources.limits", GONE),
    ),
    "EB031": Mutant(
        words="a helper of `api` without a version",
        change=edited(_API, f"{_POD}.containers.1", {**_SIDECAR, "image": "registry.example.com/proxy"}),
    ),
    "EB032": Mutant(
        words="the API open to the internet",
        change=both(
            edited(_CLUSTER, "vpcConfig.endpointPublicAccess", True),
            edited(_CLUSTER, "vpcConfig.publicAccessCidrs", ["0.0.0.0/0"]),
        ),
    ),
    "EB033": Mutant(words="a Service of type `LoadBalancer` in front of `api`", change=balancer()),
    "EB034": Mutant(
        words="a public subnet that gives out public addresses",
        change=edited("Subnet network-public-a", "mapPublicIpOnLaunch", True),
    ),
    "EB035": Mutant(
        words="the key of the secrets without its cost centre",
        change=edited("Key cluster-secrets", "tags.cost-center", GONE),
    ),
    "EB036": Mutant(
        words="a hop limit of 2 in the template of `flexible-a`",
        change=edited(_TEMPLATE, "metadataOptions.httpPutResponseHopLimit", 2),
    ),
    "EB037": Mutant(
        words="the storage class `gp3` without encryption",
        change=edited("StorageClass gp3", "parameters.encrypted", "false"),
    ),
    "EB038": Mutant(
        words="the flow logs without an end",
        change=edited("LogGroup network-flow-logs", "retentionInDays", GONE),
        stack=BERLIN,
    ),
    "EB039": Mutant(
        words="a control plane of 1.33 under nodes of the stack's version",
        change=edited(_CLUSTER, "version", "1.33"),
    ),
    "EB040": Mutant(
        words="the workers of `prep` get ten minutes to end",
        change=edited("Deployment ebbtide-workers/prep", f"{_POD}.terminationGracePeriodSeconds", 600),
    ),
    "EB041": Mutant(
        words="`metrics`, fixed, selects flexible nodes",
        change=edited("StatefulSet ebbtide/metrics", f"{_POD}.nodeSelector", {"ebbtide.dev/node-kind": "flexible"}),
        also=frozenset({"EB016"}),
    ),
    "EB042": Mutant(
        words="CoreDNS without a node selector",
        change=edited("Addon add-ons-coredns", "configurationValues", '{"replicaCount": 2}'),
    ),
    "EB043": Mutant(
        words="one node of the group `gpu` stays", change=edited("NodeGroup gpu-a-nodes", "scalingConfig.minSize", 1)
    ),
    "EB044": Mutant(words="a route to a Service that nobody makes", change=route("nosuch", 8000)),
}
