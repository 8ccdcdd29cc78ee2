"""Places: every pod has a category and a node that it fits, and nothing keeps a flexible node by accident."""

from components.ownership import REPLICAS_OWNER
from components.pod_rules import ZONE
from ebbtide.policies.pods import Pods
from ebbtide.policies.rule import Hits, Rule
from ebbtide.policies.seen import NODE_GROUP_TYPE, Group, Seen
from ebbtide.policies.values import at, mappings, texts, whole
from ebbtide.preview.document import Severity
from ebbtide.preview.eviction_rules import SAFE_TO_EVICT, SAFE_VOLUMES, local_volumes
from ebbtide.settings.placement import fits, room_text
from ebbtide.vocabulary.labels import CATEGORY, NODE_GROUP, NODE_KIND, Category, NodeKind, ReplicasOwner

_SKIPS_LOCAL_STORAGE = "skip-nodes-with-local-storage"
_ON_DEMAND = "ON_DEMAND"


def _without_category(seen: Seen) -> Hits:
    for pods in seen.pods:
        if pods.lasting and pods.ours and pods.category is None:
            label = pods.labels.get(CATEGORY)
            found = "without the label" if label is None else f"with the value {label!r} in the label"
            yield pods.resource, f"its pods are {found} {CATEGORY}, so nothing keeps them apart from fixed ones"


def _without_node(seen: Seen) -> Hits:
    for pods in seen.pods if seen.groups else ():
        if pods.kind == "DaemonSet":
            continue
        homes = seen.homes(pods)
        if not homes:
            wanted = ", ".join(f"{key}={value}" for key, value in pods.node_selector.items())
            yield pods.resource, f"no node group has the labels that it wants and only taints it tolerates ({wanted})"
        elif not any(_has_room(group, pods) for group in homes):
            rooms = [group.room for group in homes if group.room]
            room = room_text(max(rooms, key=lambda offer: (offer.gpu, offer.memory, offer.cpu)))
            yield pods.resource, f"a pod asks for {pods.size}, and its nodes have room for {room}"


def _has_room(group: Group, pods: Pods) -> bool:
    return group.room is None or fits(pods.size, group.room)


def _pinned(seen: Seen) -> Hits:
    for pods in seen.pods:
        if pods.kind == "DaemonSet" or not seen.moves_at_night(pods):
            continue
        if pods.annotations.get(SAFE_TO_EVICT) == "false":
            yield pods.resource, f"the annotation {SAFE_TO_EVICT} keeps its nodes all night, whatever its budget allows"
        elif pods.kind == "Pod":
            yield pods.resource, "a bare pod: nobody would make it anew, so the autoscaler never removes its node"


def _pinned_by_volumes(seen: Seen) -> Hits:
    if seen.autoscaler_flags.get(_SKIPS_LOCAL_STORAGE) == "false":
        return
    for pods in seen.pods:
        if pods.kind == "DaemonSet" or pods.annotations.get(SAFE_TO_EVICT) == "true" or not seen.moves_at_night(pods):
            continue
        left = local_volumes({"spec": pods.spec}, pods.annotations.get(SAFE_VOLUMES, ""))
        if left:
            yield pods.resource, f"the local volumes {', '.join(left)} keep its nodes all night"


def _preempting(seen: Seen) -> Hits:
    polite = {
        at(it.inputs, "metadata.name")
        for it in seen.of_kind("PriorityClass")
        if it.inputs.get("preemptionPolicy") == "Never" or (whole(it.inputs.get("value")) or 0) < 0
    }
    for pods in seen.pods:
        name = pods.spec.get("priorityClassName")
        if name and name not in polite and pods.kind != "DaemonSet" and seen.moves_at_night(pods):
            yield pods.resource, f"with the priority class {name} it drives workers off their nodes, budget or not"


def _on_spot(seen: Seen) -> Hits:
    for group in seen.of_type(NODE_GROUP_TYPE):
        kind = texts(group.inputs.get("labels")).get(NODE_KIND)
        capacity = group.inputs.get("capacityType", _ON_DEMAND)
        if kind != NodeKind.SPOT and capacity != _ON_DEMAND:
            yield group, f"a group of kind {kind} buys {capacity} nodes, which AWS takes back with two minutes' notice"
    for pods in seen.pods:
        keeps_state = pods.category is Category.FIXED or pods.kind == "StatefulSet"
        if keeps_state and any(group.kind == NodeKind.SPOT for group in seen.homes(pods)):
            yield pods.resource, "it keeps state and may land on spot nodes"


def _in_one_zone(seen: Seen) -> Hits:
    for pods in seen.pods:
        if not pods.lasting or pods.is_worker or pods.replicas < 2:
            continue
        if ZONE in pods.node_selector:
            yield pods.resource, f"all {pods.replicas} replicas are bound to the zone {pods.node_selector[ZONE]}"
        elif ZONE not in _spread_over(pods):
            yield pods.resource, f"nothing spreads its {pods.replicas} replicas over zones"


def _spread_over(pods: Pods) -> set[str]:
    anti = "affinity.podAntiAffinity"
    soft = mappings(at(pods.spec, f"{anti}.preferredDuringSchedulingIgnoredDuringExecution"))
    terms = [
        *mappings(pods.spec.get("topologySpreadConstraints")),
        *mappings(at(pods.spec, f"{anti}.requiredDuringSchedulingIgnoredDuringExecution")),
        *(texts(term.get("podAffinityTerm")) for term in soft),
    ]
    return {str(term.get("topologyKey")) for term in terms}


def _alone(seen: Seen) -> Hits:
    for pods in seen.pods:
        owner = texts(at(pods.resource.inputs, "metadata.annotations")).get(REPLICAS_OWNER)
        one = pods.kind != "Pod" and pods.replicas == 1
        if pods.category is Category.FLEXIBLE and one and owner != ReplicasOwner.HPA:
            yield pods.resource, "flexible with one replica: each night that its node goes is an outage"


RULES = (
    Rule(
        id="EB012",
        severity=Severity.BLOCKING,
        law="every lasting pod in Ebbtide's namespaces has a category",
        fix=f"set the label {CATEGORY} on the pod template: fixed, flexible or worker",
        source="2i2c-org/infrastructure#202",
        check=_without_category,
    ),
    Rule(
        id="EB013",
        severity=Severity.BLOCKING,
        law="every pod fits a node of a group that it may go to",
        fix=f"select by {NODE_KIND} or {NODE_GROUP}, tolerate the group's taints, ask for less or take a larger type",
        source="kubernetes/autoscaler#1291; kubernetes/autoscaler#6086",
        check=_without_node,
    ),
    Rule(
        id="EB014",
        severity=Severity.WARNING,
        law="no pod forbids the autoscaler to remove a node that is not fixed",
        fix="remove the annotation (the budget protects the pod), or make it fixed; put a bare pod into a Deployment",
        source="beacon-biosignals/julia_pod#13",
        check=_pinned,
    ),
    Rule(
        id="EB015",
        severity=Severity.WARNING,
        law="no local volume keeps a node that is not fixed",
        fix=f"name the volumes in the annotation {SAFE_VOLUMES}, or run the autoscaler with "
        f"--{_SKIPS_LOCAL_STORAGE}=false",
        source="kubernetes/autoscaler#2048; alphagov/gsp#1005",
        check=_pinned_by_volumes,
    ),
    Rule(
        id="EB016",
        severity=Severity.BLOCKING,
        law="no pod on flexible nodes preempts others",
        fix="take the priority class away, or one with preemptionPolicy: Never",
        source="kubernetes/kubernetes#91492",
        check=_preempting,
    ),
    Rule(
        id="EB017",
        severity=Severity.BLOCKING,
        law="what keeps state is not on spot nodes",
        fix="set capacityType ON_DEMAND, or select the fixed nodes",
        source="cost/cost_opt_compute, spot",
        check=_on_spot,
    ),
    Rule(
        id="EB018",
        severity=Severity.WARNING,
        law="the replicas of a service are spread over zones",
        fix=f"add a topology spread constraint over {ZONE}, with ScheduleAnyway",
        source="kubernetes-sigs/aws-load-balancer-controller#3118; reliability/application, spread",
        check=_in_one_zone,
    ),
    Rule(
        id="EB019",
        severity=Severity.WARNING,
        law="a flexible service has more than one replica",
        fix="set replicas: 2, or make it fixed",
        source="kubernetes/kubernetes#93476",
        check=_alone,
    ),
)
