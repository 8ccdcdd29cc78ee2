"""One state of a stack: its settings, its resources, and the queries that policies and preview share."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from ebbtide.kube.taints import Taint, taint_of, toleration_of
from ebbtide.prices import Capacity, UnknownInstanceType, instance_type
from ebbtide.provisioning_labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, POOL, NodeKind
from ebbtide.recording.drainable import AutoscalerRules, covers
from ebbtide.recording.pods import Pods, adopted_pods, pods_of
from ebbtide.recording.resources import Resource, kind_of, name_of, namespace_of
from ebbtide.recording.values import mappings, selects, texts, value_at, whole_number, words
from ebbtide.settings.capacity.placement import architecture, home_of, node_of, offered, smallest_node
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.adopted import adopted_budget
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.ray import RayGroup, group_name, namespace_of_ray
from ebbtide.settings.sections.shapes import Reserved
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.vocabulary.labels import NAMESPACE, NODE_GROUP, NODE_KIND, Category

NODE_GROUP_TYPE = "aws:eks/nodeGroup:NodeGroup"
NODE_POOL_TYPE = "kubernetes:karpenter.sh/v1:NodePool"
AUTOSCALER = "cluster-autoscaler"


_WELL_KNOWN = ("topology.kubernetes.io/", "kubernetes.io/", "node.kubernetes.io/", "eks.amazonaws.com/")
"""Prefixes of labels that nodes get automatically, so that no group declares them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInZone:
    """A managed node group of one zone, or a NodePool of all zones."""

    resource: Resource
    name: str  # in the stack file
    kind: str  # the node-kind label; "" without one
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    least: int
    most: int
    room: Capacity | None  # capacity of its smallest node; None for an unknown type
    arch: str = ""  # of its nodes' processors; "" for an unknown type


@dataclass(frozen=True, slots=True)
class GroupOverZones:
    """The managed groups of all zones, or the NodePool, that form one group in the stack file."""

    zones: tuple[GroupInZone, ...]

    @property
    def name(self) -> str:
        return self.zones[0].name

    @property
    def kind(self) -> str:
        return self.zones[0].kind

    @property
    def least(self) -> int:
        return sum(zone.least for zone in self.zones)

    @property
    def most(self) -> int:
        return sum(zone.most for zone in self.zones)


@dataclass(frozen=True)
class StackState:
    """Without slots, since results are cached."""

    settings: StackSettings
    resources: tuple[Resource, ...]

    def of_kind(self, *kinds: str) -> list[Resource]:
        return [resource for resource in self.resources if kind_of(resource) in kinds and not resource.read]

    def of_type(self, *types: str) -> list[Resource]:
        return [resource for resource in self.resources if resource.type in types and not resource.read]

    @cached_property
    def pods(self) -> tuple[Pods, ...]:
        return tuple(pods for resource in self.resources for pods in pods_of(resource))

    @cached_property
    def adopted(self) -> tuple[Pods, ...]:
        """The pods of the rules for adoption. Only their budgets are among the resources, and represent their owner."""
        budgets = {(namespace_of(budget), name_of(budget)): budget for budget in self.budgets}
        return tuple(
            adopted_pods(
                name,
                rule,
                budgets.get((rule.namespace, adopted_budget(name, rule)), _undeclared(name)),
                home_of(rule.modelled()),
            )
            for name, rule in sorted(self.settings.adopted.items())
        )

    @property
    def covered(self) -> tuple[Pods, ...]:
        """All pods that budgets of the stack may cover."""
        return (*self.pods, *self.adopted)

    def most_pods(self, pods: Pods) -> int:
        """The maximum number of the pods: the `max` of a pool or group, otherwise the replicas."""
        adopted_pool = None if pods.adopted is None else pods.adopted.pool
        bounded = adopted_pool or self.pool_of(pods) or self.ray_group_of(pods)
        return pods.replicas if bounded is None else bounded.max

    def pool_of(self, pods: Pods) -> WorkerSettings | None:
        return self.settings.workers.get(pods.labels.get(POOL, ""))

    def ray_group_of(self, pods: Pods) -> RayGroup | None:
        return self._ray_groups.get((pods.namespace, pods.name))

    @cached_property
    def _ray_groups(self) -> Mapping[tuple[str, str], RayGroup]:
        return {
            (namespace_of_ray(cluster), group_name(cluster, key)): group
            for cluster, ray in self.settings.ray.items()
            for key, group in ray.groups.items()
        }

    def saves(self, pods: Pods) -> bool:
        """True if the pods' jobs have checkpoints, so that the controller may open the budget."""
        pool = self.pool_of(pods)
        return pool is not None and pool.checkpoints is not None and not self.settings.stopped_together(pool)

    def stopped_together(self, pods: Pods) -> bool:
        """True if the budget is always open, for the drain of a spot node."""
        pool, group = self.pool_of(pods), self.ray_group_of(pods)
        if (pods.namespace, pods.name) in self._variants_on_spot:
            return True
        return (pool is not None and self.settings.stopped_together(pool)) or (group is not None and group.spot)

    @cached_property
    def _variants_on_spot(self) -> Collection[tuple[str, str]]:
        return {(NAMESPACE, name) for name, workload in self.settings.all_workloads.items() if workload.on_spot}

    @cached_property
    def budgets(self) -> tuple[Resource, ...]:
        return tuple(self.of_kind("PodDisruptionBudget"))

    def budgets_of(self, pods: Pods) -> list[Resource]:
        return [budget for budget in self.budgets if covers(budget.inputs, pods.as_pod)]

    def pods_under(self, budget: Resource) -> list[Pods]:
        return [pods for pods in self.covered if covers(budget.inputs, pods.as_pod)]

    @cached_property
    def groups(self) -> tuple[GroupInZone, ...]:
        return tuple(
            _group(resource, self.settings.node_groups.get(node_group_name(resource)))
            for node_type in (NODE_GROUP_TYPE, NODE_POOL_TYPE)
            for resource in self.of_type(node_type)
        )

    @cached_property
    def groups_over_zones(self) -> Mapping[str, GroupOverZones]:
        """The groups, by their name in the stack file."""
        names = dict.fromkeys(group.name for group in self.groups)
        return {name: GroupOverZones(tuple(group for group in self.groups if group.name == name)) for name in names}

    @property
    def control_plane_minor(self) -> int | None:
        """The cluster's version in the stack; None on an existing cluster."""
        clusters = self.of_type("aws:eks/cluster:Cluster")
        return kubernetes_minor(clusters[0].inputs.get("version")) if clusters else None

    @property
    def existing(self) -> bool:
        """True on an existing cluster, whose nodes and autoscaler are not among the resources."""
        return self.settings.cluster.context is not None

    def groups_for(self, pods: Pods) -> list[GroupInZone]:
        """The node groups that match the pods' selectors and tolerations, regardless of size."""
        return [group for group in self.groups if _selected(pods, group) and _tolerated(pods, group)]

    def pods_on(self, names: Collection[str]) -> list[Pods]:
        """Pods that select or require nodes of these groups, without DaemonSets."""
        selecting = [pods for pods in self.covered if pods.selects_nodes and pods.kind != "DaemonSet"]
        return [pods for pods in selecting if any(group.name in names for group in self.groups_for(pods))]

    def moves_at_night(self, pods: Pods) -> bool:
        """True if the pods may run on nodes that are not fixed, which go at night."""
        if not self.existing:
            return any(group.kind != NodeKind.FIXED for group in self.groups_for(pods))
        if pods.category is not None:
            return pods.category is not Category.FIXED
        fixed = self.settings.cluster.node_selectors.get(NodeKind.FIXED.value, {})
        return bool(fixed) and not fixed.items() <= pods.node_selector.items()

    @cached_property
    def autoscaler(self) -> Pods | None:
        return next((pods for pods in self.pods if pods.kind == "Deployment" and pods.name == AUTOSCALER), None)

    @cached_property
    def autoscaler_flags(self) -> Mapping[str, str]:
        """The flags of the stack's own autoscaler; a bare one is true."""
        containers = self.autoscaler.containers if self.autoscaler else ()
        arguments = [*words(containers[0].get("command")), *words(containers[0].get("args"))] if containers else []
        parts = [flag.removeprefix("--").partition("=") for flag in arguments if flag.startswith("--")]
        return {name: value if equals else "true" for name, equals, value in parts}

    @property
    def autoscaler_rules(self) -> AutoscalerRules:
        return AutoscalerRules(
            local_storage_pins=self.autoscaler_flags.get("skip-nodes-with-local-storage") != "false",
            system_pods_pin=self.autoscaler_flags.get("skip-nodes-with-system-pods") != "false",
        )


def _undeclared(name: str) -> Resource:
    return Resource(urn="", type="ebbtide:adopted", name=name, parent="", custom=False, inputs={})


def node_group_name(resource: Resource) -> str:
    """The stack file's name of a managed node group or a NodePool."""
    return texts(_of_nodes(resource, "labels")).get(NODE_GROUP, resource.name)


def _of_nodes(resource: Resource, field: str) -> object:
    """Labels, taints or instance types of the nodes of a managed group or a NodePool."""
    if resource.type == NODE_GROUP_TYPE:
        return resource.inputs.get(field)
    if field == "labels":
        return value_at(resource.inputs, "spec.template.metadata.labels")
    if field == "taints":
        return value_at(resource.inputs, "spec.template.spec.taints")
    return _required(resource, INSTANCE_TYPE)


def _required(node_pool: Resource, key: str) -> object:
    requirements = mappings(value_at(node_pool.inputs, "spec.template.spec.requirements"))
    return next((it.get("values") for it in requirements if it.get("key") == key), None)


def kubernetes_minor(version: object) -> int | None:
    """The minor version; EKS has only versions of Kubernetes 1."""
    _, dot, minor = str(version).partition(".")
    return int(minor) if dot and minor.isdecimal() else None


def _group(resource: Resource, of_file: NodeGroupSettings | None) -> GroupInZone:
    labels = dict(texts(_of_nodes(resource, "labels")))
    if resource.type == NODE_POOL_TYPE:  # Karpenter's label on its nodes, by which pods choose
        labels |= {CAPACITY_TYPE: value for value in words(_required(resource, CAPACITY_TYPE))[:1]}  # noqa: B035
    names = tuple(words(_of_nodes(resource, "instanceTypes")))
    in_pool = value_at(resource.inputs, "spec.limits.nodes")
    reserved = Reserved() if of_file is None else of_file.reserved
    try:
        if of_file is not None and of_file.instance_types == names:
            room, arch = node_of(of_file), architecture(of_file).value
        else:
            kinds = tuple(map(instance_type, names))
            room = offered(smallest_node(kinds), reserved) if kinds else None
            arch = kinds[0].arch if kinds else ""
    except UnknownInstanceType:
        room, arch = None, ""
    return GroupInZone(
        resource=resource,
        name=node_group_name(resource),
        kind=labels.get(NODE_KIND, ""),
        labels=labels,
        taints=tuple(map(taint_of, mappings(_of_nodes(resource, "taints")))),
        least=whole_number(value_at(resource.inputs, "scalingConfig.minSize")) or 0,
        most=whole_number(value_at(resource.inputs, "scalingConfig.maxSize")) or int(str(in_pool or 0)),
        room=room,
        arch=arch,
    )


def _selected(pods: Pods, group: GroupInZone) -> bool:
    if group.arch and pods.node_selector.get(ARCH, group.arch) != group.arch:
        return False
    selector = {key: value for key, value in pods.node_selector.items() if not key.startswith(_WELL_KNOWN)}
    if not selector.items() <= group.labels.items():
        return False
    terms = pods.node_terms
    return not terms or any(selects({"matchExpressions": t.get("matchExpressions")}, group.labels) for t in terms)


def _tolerated(pods: Pods, group: GroupInZone) -> bool:
    tolerations = [*map(toleration_of, mappings(pods.spec.get("tolerations")))]
    return all(taint.tolerated_by(tolerations) for taint in group.taints if taint.repels)
