"""Placement: every pod has a category and fits a node, and no pod keeps a flexible node by accident."""

import json
from collections.abc import Mapping

from components.ownership import REPLICAS_OWNER
from components.pods.rules import ZONE
from ebbtide.findings import Severity
from ebbtide.policies.rule import Hits, Rule
from ebbtide.provisioning_labels import POOL, SAFE_TO_EVICT, NodeKind, ReplicasOwner
from ebbtide.recording.drainable import SAFE_VOLUMES, SYSTEM_NAMESPACE, Pin, local_volumes, pins
from ebbtide.recording.pods import Pods
from ebbtide.recording.record import UNKNOWN
from ebbtide.recording.state import NODE_GROUP_TYPE, GroupInZone, StackState
from ebbtide.recording.values import mappings, texts, value_at, whole_number
from ebbtide.settings.capacity.placement import fits, room_text
from ebbtide.vocabulary.labels import CATEGORY, NODE_GROUP, NODE_KIND, Category

_ON_DEMAND = "ON_DEMAND"
_PLACED_ADD_ONS: Mapping[str, str] = {
    "aws-ebs-csi-driver": "controller.nodeSelector",
    "coredns": "nodeSelector",
    "metrics-server": "nodeSelector",
}
"""Add-ons with pods other than a DaemonSet's, and the key that places them: `components.aws.add_ons`."""


def _without_category(state: StackState) -> Hits:
    for pods in state.pods:
        if pods.lasting and pods.in_own_namespace and pods.category is None:
            label = pods.labels.get(CATEGORY)
            description = "without the label" if label is None else f"with the value {label!r} in the label"
            yield pods.resource, f"its pods are {description} {CATEGORY}, so nothing keeps them apart from fixed ones"


def _without_node(state: StackState) -> Hits:
    for pods in state.pods if state.groups else ():
        if pods.kind == "DaemonSet":
            continue
        groups = state.groups_for(pods)
        if not groups:
            selector = ", ".join(f"{key}={value}" for key, value in pods.node_selector.items())
            yield (
                pods.resource,
                f"no node group has the labels that it selects and only taints that it tolerates ({selector})",
            )
        elif not any(_has_room(group, pods) for group in groups):
            rooms = [group.room for group in groups if group.room]
            room = room_text(max(rooms, key=lambda offer: (offer.gpu, offer.memory, offer.cpu)))
            yield pods.resource, f"a pod requests {pods.size}, and its nodes have capacity for {room}"


def _has_room(group: GroupInZone, pods: Pods) -> bool:
    return group.room is None or fits(pods.size, group.room)


def _pinned(state: StackState) -> Hits:
    for pods in state.pods:
        if pods.kind == "DaemonSet" or not state.moves_at_night(pods):
            continue
        reasons = _pins(state, pods)
        if Pin.ANNOTATED in reasons and not state.stopped_together(pods):
            yield pods.resource, f"the annotation {SAFE_TO_EVICT} keeps its nodes all night, whatever its budget allows"
        elif Pin.BARE in reasons:
            yield (
                pods.resource,
                "a bare pod: no controller would create it again, so the autoscaler never removes its node",
            )


def _pinned_by_volumes(state: StackState) -> Hits:
    for pods in state.pods:
        moves = pods.kind != "DaemonSet" and state.moves_at_night(pods)
        if moves and Pin.LOCAL_VOLUMES in _pins(state, pods):
            volumes = ", ".join(local_volumes(pods.as_pod))
            yield pods.resource, f"the local volumes {volumes} keep its nodes all night"


def _pins(state: StackState, pods: Pods) -> list[Pin]:
    has_budget = bool(state.budgets_of(pods))
    return list(pins(pods.as_pod, state.autoscaler_rules, bare=pods.kind == "Pod", has_budget=has_budget))


def _preempting(state: StackState) -> Hits:
    non_preempting = {
        value_at(priority_class.inputs, "metadata.name")
        for priority_class in state.of_kind("PriorityClass")
        if priority_class.inputs.get("preemptionPolicy") == "Never"
        or (whole_number(priority_class.inputs.get("value")) or 0) < 0
    }
    for pods in state.pods:
        name = pods.spec.get("priorityClassName")
        if name and name not in non_preempting and pods.kind != "DaemonSet" and state.moves_at_night(pods):
            yield pods.resource, f"with the priority class {name} it preempts workers, whatever their budgets allow"


def _on_spot(state: StackState) -> Hits:
    for group in state.of_type(NODE_GROUP_TYPE):
        kind = texts(group.inputs.get("labels")).get(NODE_KIND)
        capacity = group.inputs.get("capacityType", _ON_DEMAND)
        if kind != NodeKind.SPOT and capacity != _ON_DEMAND:
            yield group, f"a group of kind {kind} buys {capacity} nodes, which AWS takes back with two minutes' notice"
    for pods in state.pods:
        keeps_state = pods.category is Category.FIXED or pods.kind == "StatefulSet"
        if keeps_state and any(group.kind == NodeKind.SPOT for group in state.groups_for(pods)):
            yield pods.resource, "it keeps state and may land on spot nodes"


def _in_one_zone(state: StackState) -> Hits:
    for pods in state.pods:
        if not pods.lasting or pods.is_worker or pods.replicas < 2:
            continue
        if ZONE in pods.node_selector:
            yield pods.resource, f"all {pods.replicas} replicas are bound to the zone {pods.node_selector[ZONE]}"
        elif ZONE not in _spread_over(pods):
            yield pods.resource, f"nothing spreads its {pods.replicas} replicas over zones"


def _spread_over(pods: Pods) -> set[str]:
    anti = "affinity.podAntiAffinity"
    soft = mappings(value_at(pods.spec, f"{anti}.preferredDuringSchedulingIgnoredDuringExecution"))
    terms = [
        *mappings(pods.spec.get("topologySpreadConstraints")),
        *mappings(value_at(pods.spec, f"{anti}.requiredDuringSchedulingIgnoredDuringExecution")),
        *(texts(term.get("podAffinityTerm")) for term in soft),
    ]
    return {str(term.get("topologyKey")) for term in terms}


def _alone(state: StackState) -> Hits:
    settings = state.settings
    closed = {name for name, workload in settings.all_workloads.items() if not workload.opens or workload.gone_at_night}
    closed |= {name for name, rule in settings.adopted.items() if rule.gone_at_night}
    for pods in state.covered:
        owner = texts(value_at(pods.resource.inputs, "metadata.annotations")).get(REPLICAS_OWNER)
        single = pods.kind != "Pod" and pods.replicas == 1
        moves = pods.category is Category.FLEXIBLE and pods.name not in closed
        if moves and single and owner != ReplicasOwner.HPA:
            yield pods.resource, "flexible with one replica: each night that its node goes is an outage"


def _fixed_elsewhere(state: StackState) -> Hits:
    for pods in state.covered if state.groups else ():
        lasting = pods.lasting or pods.adopted is not None
        if lasting and pods.category is Category.FIXED and state.moves_at_night(pods):
            yield (
                pods.resource,
                "fixed, and may run on nodes that are not: its budget never opens, so they stay all night",
            )


def _system_elsewhere(state: StackState) -> Hits:
    if not state.groups:
        return
    for pods in state.pods:
        system = pods.lasting and pods.category is None and pods.namespace == SYSTEM_NAMESPACE
        if system and state.moves_at_night(pods):
            yield pods.resource, "a system pod that may run on nodes that are not fixed, which then stay all night"
    for add_on in state.of_type("aws:eks/addon:Addon"):
        path = _PLACED_ADD_ONS.get(str(add_on.inputs.get("addonName")))
        configuration = add_on.inputs.get("configurationValues")
        if path and configuration != UNKNOWN and _selector(configuration, path).get(NODE_KIND) != NodeKind.FIXED:
            yield add_on, f"its pods may run on nodes that are not fixed, which then stay all night: {path} is not set"


def _selector(configuration: object, path: str) -> Mapping[str, str]:
    try:
        return texts(value_at(json.loads(configuration), path)) if isinstance(configuration, str) else {}
    except ValueError:
        return {}


def _least_numbers(state: StackState) -> Hits:
    for pods in state.pods:
        pool = state.settings.workers.get(pods.labels.get(POOL, ""))
        if pool is not None and pool.min:
            yield pods.resource, f"its minimum is {pool.min}, and workers are never moved: their nodes stay all night"
    for group in state.groups_over_zones.values():
        if group.kind != NodeKind.FIXED and group.least:
            yield group.zones[0].resource, f"the minimum of group {group.name} is {group.least}, which stay all night"


RULES = (
    Rule(
        code="EB012",
        severities=(Severity.BLOCKING,),
        title="every long-running pod in Ebbtide's namespaces has a category",
        remedy=f"set the label {CATEGORY} on the pod template: fixed, flexible or worker",
        source="2i2c-org/infrastructure#202",
        check=_without_category,
    ),
    Rule(
        code="EB013",
        severities=(Severity.BLOCKING,),
        title="every pod fits a node of a group that it may run on",
        remedy=f"select by {NODE_KIND} or {NODE_GROUP}, tolerate the group's taints, request less or take a larger "
        "type",
        source="kubernetes/autoscaler#1291; kubernetes/autoscaler#6086",
        check=_without_node,
    ),
    Rule(
        code="EB014",
        severities=(Severity.WARNING,),
        title="no pod forbids the autoscaler to remove a node that is not fixed, except pods on spot nodes whose "
        "budget is open",
        remedy="remove the annotation (the budget protects the pod), or make it fixed; put a bare pod into a "
        "Deployment",
        source="beacon-biosignals/julia_pod#13",
        check=_pinned,
    ),
    Rule(
        code="EB015",
        severities=(Severity.WARNING,),
        title="no local volume keeps a node that is not fixed",
        remedy=f"name the volumes in the annotation {SAFE_VOLUMES}, or run the autoscaler with "
        "--skip-nodes-with-local-storage=false",
        source="kubernetes/autoscaler#2048; alphagov/gsp#1005",
        check=_pinned_by_volumes,
    ),
    Rule(
        code="EB016",
        severities=(Severity.BLOCKING,),
        title="no pod on flexible nodes preempts others",
        remedy="remove the priority class, or use one with preemptionPolicy: Never",
        source="kubernetes/kubernetes#91492",
        check=_preempting,
    ),
    Rule(
        code="EB017",
        severities=(Severity.BLOCKING,),
        title="pods that keep state do not run on spot nodes",
        remedy="set capacityType ON_DEMAND, or select the fixed nodes",
        source="cost/cost_opt_compute, spot",
        check=_on_spot,
    ),
    Rule(
        code="EB018",
        severities=(Severity.WARNING,),
        title="the replicas of a service are spread over zones",
        remedy=f"add a topology spread constraint over {ZONE}, with ScheduleAnyway",
        source="kubernetes-sigs/aws-load-balancer-controller#3118; reliability/application, spread",
        check=_in_one_zone,
    ),
    Rule(
        code="EB019",
        severities=(Severity.WARNING,),
        title="a flexible service has more than one replica",
        remedy="set replicas: 2, or make it fixed",
        source="kubernetes/kubernetes#93476",
        check=_alone,
    ),
    Rule(
        code="EB041",
        severities=(Severity.WARNING,),
        title="fixed pods run on fixed nodes",
        remedy="select the fixed nodes, or make it flexible",
        source="autoscaling/cluster-autoscaler",
        check=_fixed_elsewhere,
    ),
    Rule(
        code="EB042",
        severities=(Severity.WARNING,),
        title="system pods and add-ons run on fixed nodes",
        remedy=f"set nodeSelector {NODE_KIND}: {NodeKind.FIXED.value}, for an add-on in its configurationValues",
        source="kubernetes/autoscaler#64",
        check=_system_elsewhere,
    ),
    Rule(
        code="EB043",
        severities=(Severity.NOTE,),
        title="no declared minimum keeps nodes at night, except fixed ones",
        remedy="set min: 0; `morning` of a pool has workers ready when people come",
        source="autoscaling/cluster-autoscaler",
        check=_least_numbers,
    ),
)
