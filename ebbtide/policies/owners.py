"""Owners: each field has one writer, and Pulumi ignores the fields that the controller and the autoscalers write."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from components.ownership import (
    DESIRED_SIZE,
    MAX_UNAVAILABLE,
    MIN_AVAILABLE,
    MIN_REPLICA_COUNT,
    MIN_REPLICAS,
    REPLICAS,
    REPLICAS_OWNER,
)
from ebbtide.findings import Severity
from ebbtide.policies.rule import Hits, Rule
from ebbtide.provisioning_labels import ReplicasOwner
from ebbtide.recording.resources import Resource, display_name, kind_of, name_of, namespace_of
from ebbtide.recording.state import NODE_GROUP_TYPE, StackState
from ebbtide.recording.values import texts, value_at
from ebbtide.settings.capacity.process_documents import floors_of
from ebbtide.vocabulary.labels import Category

_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_FORCE = "pulumi.com/patchForce"
_NODE_SCALERS = (
    "aws:autoscaling/schedule:Schedule",
    "aws:autoscaling/policy:Policy",
    "aws:autoscalingplans/scalingPlan:ScalingPlan",
)


def _misspelt(state: StackState) -> Hits:
    for resource in state.resources:
        for path in resource.ignore_changes:
            if "_" in path:
                yield resource, f"it ignores {path}, which matches nothing: the provider's own names are camelCase"
            elif not {"*", "["} & set(path) and value_at(resource.inputs, path) is None:
                yield resource, f"it ignores {path}, which it does not declare"


def _not_handed_over(state: StackState) -> Hits:
    for resource, path, owner in _handed_over(state):
        if path not in resource.ignore_changes:
            yield resource, f"{path} belongs to {owner} and is not ignored, so the next update takes it back"


def _handed_over(state: StackState) -> Iterator[tuple[Resource, str, str]]:
    """Resource, field and owner of every field that has a writer other than Pulumi."""
    scaled = _scalers(state)
    for pods in state.pods:
        owner = _declared_owner(pods.resource)
        if pods.is_worker or owner is ReplicasOwner.CONTROLLER:
            yield pods.resource, REPLICAS, "the controller"
        elif owner is ReplicasOwner.HPA or (pods.namespace, pods.kind, pods.name) in scaled:
            yield pods.resource, REPLICAS, "an autoscaler"
    closed = {name for name, workload in state.settings.all_workloads.items() if not workload.opens}
    for budget in state.budgets:
        under = [pods for pods in state.pods_under(budget) if not state.stopped_together(pods)]
        flexible = [pods for pods in under if pods.category is Category.FLEXIBLE]
        if any(pods.name not in closed for pods in flexible) or any(map(state.saves, under)):
            unscaled = any(pods.adopted is not None and not pods.has_scale for pods in flexible)
            yield budget, MIN_AVAILABLE if unscaled else MAX_UNAVAILABLE, "the controller"
    for group in state.of_type(NODE_GROUP_TYPE):
        yield group, DESIRED_SIZE, "the cluster autoscaler"
    floors = {
        (floor.namespace, floor.name): MIN_REPLICA_COUNT if floor.keda else MIN_REPLICAS
        for floor in floors_of(state.settings)
    }
    for scaler in state.of_kind(*_SCALERS):
        if field := floors.get((namespace_of(scaler), name_of(scaler))):
            yield scaler, field, "the workload controller"


def _second_owner(state: StackState) -> Hits:
    scalers = _scalers(state)
    for pods in state.pods:
        scalers_of_pods = scalers.get((pods.namespace, pods.kind, pods.name), [])
        names = " and ".join(display_name(scaler) for scaler in scalers_of_pods)
        owner = _declared_owner(pods.resource)
        if scalers_of_pods and (pods.is_worker or owner is ReplicasOwner.CONTROLLER):
            yield pods.resource, f"the controller scales it, and so does {names}"
        elif len(scalers_of_pods) > 1:
            yield pods.resource, f"{names} all scale it, and work against each other"
        elif scalers_of_pods and owner is not ReplicasOwner.HPA:
            yield pods.resource, f"{names} scales it, while Pulumi writes its replicas"


def _forced(state: StackState) -> Hits:
    for resource in state.resources:
        if kind_of(resource) and texts(value_at(resource.inputs, "metadata.annotations")).get(_FORCE) == "true":
            yield resource, f"the annotation {_FORCE} takes every field back from its owner without a warning"


def _scaled_nodes(state: StackState) -> Hits:
    for resource in state.of_type(*_NODE_SCALERS):
        yield resource, "it changes how many nodes a group has, and so does the cluster autoscaler"


def _scalers(state: StackState) -> Mapping[tuple[str, str, str], list[Resource]]:
    """Autoscalers of pods by the namespace, kind and name of their target."""
    scalers: dict[tuple[str, str, str], list[Resource]] = defaultdict(list)
    for scaler in state.of_kind(*_SCALERS):
        target = texts(value_at(scaler.inputs, "spec.scaleTargetRef"))
        scalers[namespace_of(scaler), target.get("kind", "Deployment"), target.get("name", "")].append(scaler)
    return scalers


def _declared_owner(resource: Resource) -> ReplicasOwner | None:
    declared = texts(value_at(resource.inputs, "metadata.annotations")).get(REPLICAS_OWNER, "")
    return ReplicasOwner(declared) if declared in set(ReplicasOwner) else None


RULES = (
    Rule(
        code="EB007",
        severities=(Severity.BLOCKING,),
        title="an ignored field is named as the provider names it, and exists",
        remedy="write the path in camelCase: spec.maxUnavailable, scalingConfig.desiredSize",
        source="pulumi/pulumi-gcp#485",
        check=_misspelt,
    ),
    Rule(
        code="EB008",
        severities=(Severity.BLOCKING,),
        title="Pulumi ignores the fields that the controller or an autoscaler writes",
        remedy="hand the field over with components.ownership.hand_over, which fills ignore_changes",
        source="pulumi/pulumi-kubernetes#2491; pulumi/pulumi-eks#1293",
        check=_not_handed_over,
    ),
    Rule(
        code="EB009",
        severities=(Severity.BLOCKING,),
        title="exactly one owner writes the number of replicas",
        remedy="delete the autoscaler of a worker pool; for your own service set replicasOwner: hpa and keep one",
        source="kedacore/keda#5572; KanishJebaMathewM/Truxify#13959",
        check=_second_owner,
    ),
    Rule(
        code="EB010",
        severities=(Severity.BLOCKING,),
        title="no object is applied by force",
        remedy="remove the annotation, and ignore the field that conflicts",
        source="pulumi/pulumi-kubernetes#2011",
        check=_forced,
    ),
    Rule(
        code="EB011",
        severities=(Severity.BLOCKING,),
        title="only the cluster autoscaler changes how many nodes a group has",
        remedy="delete it; budgets open outside business hours, and the autoscaler removes the nodes",
        source="terraform-aws-modules/terraform-aws-eks#2285",
        check=_scaled_nodes,
    ),
)
