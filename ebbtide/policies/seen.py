"""A stack as the rules see it: its settings, its resources, and what several rules look for among them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ebbtide.policies.pods import Pods, kind_of, namespace_of, pods_of
from ebbtide.policies.values import at, mappings, selects, texts, words
from ebbtide.preview.resources import Resource
from ebbtide.prices import Capacity, UnknownInstanceType
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import smallest_node
from ebbtide.vocabulary.labels import NODE_KIND, Category, NodeKind

NODE_GROUP_TYPE = "aws:eks/nodeGroup:NodeGroup"
AUTOSCALER = "cluster-autoscaler"

_SOFT_TAINT = "PREFER_NO_SCHEDULE"

_WELL_KNOWN = ("topology.kubernetes.io/", "kubernetes.io/", "node.kubernetes.io/", "eks.amazonaws.com/")
"""Labels that every node gets by itself, so no group declares them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A managed node group of one zone."""

    resource: Resource
    kind: str  # the label that says what the group is for; "" without one
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, object], ...]
    room: Capacity | None  # of its smallest node; None where a type is not known


@dataclass(frozen=True)
class Seen:
    """Without slots: what is looked for is found once."""

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
    def budgets(self) -> tuple[Resource, ...]:
        return tuple(self.of_kind("PodDisruptionBudget"))

    def budgets_of(self, pods: Pods) -> list[Resource]:
        return [budget for budget in self.budgets if covers(budget, pods)]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        return tuple(_group(resource) for resource in self.of_type(NODE_GROUP_TYPE))

    @property
    def existing(self) -> bool:
        """The cluster was there already: its nodes and its autoscaler are not among the resources."""
        return self.settings.cluster.context is not None

    def homes(self, pods: Pods) -> list[Group]:
        """The node groups that the pods' selectors and tolerations lead to, whatever room they have."""
        return [group for group in self.groups if _selected(pods, group) and _tolerated(pods, group)]

    def moves_at_night(self, pods: Pods) -> bool:
        """Whether the pods may sit on nodes that are meant to go: all but the fixed ones."""
        if not self.existing:
            return any(group.kind != NodeKind.FIXED for group in self.homes(pods))
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
        given = [*words(containers[0].get("command")), *words(containers[0].get("args"))] if containers else []
        parts = [flag.removeprefix("--").partition("=") for flag in given if flag.startswith("--")]
        return {name: value if equals else "true" for name, equals, value in parts}


def covers(budget: Resource, pods: Pods) -> bool:
    selector = at(budget.inputs, "spec.selector")
    return selector is not None and namespace_of(budget) == pods.namespace and selects(selector, pods.labels)


def _group(resource: Resource) -> Group:
    labels = texts(resource.inputs.get("labels"))
    types = words(resource.inputs.get("instanceTypes"))
    try:
        room = smallest_node(types) if types else None
    except UnknownInstanceType:
        room = None
    taints = mappings(resource.inputs.get("taints"))
    return Group(resource=resource, kind=labels.get(NODE_KIND, ""), labels=labels, taints=taints, room=room)


def _selected(pods: Pods, group: Group) -> bool:
    wanted = {key: value for key, value in pods.node_selector.items() if not key.startswith(_WELL_KNOWN)}
    if not wanted.items() <= group.labels.items():
        return False
    path = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = mappings(at(pods.spec, path))
    return not terms or any(selects({"matchExpressions": t.get("matchExpressions")}, group.labels) for t in terms)


def _tolerated(pods: Pods, group: Group) -> bool:
    tolerations = mappings(pods.spec.get("tolerations"))
    return all(
        taint.get("effect") == _SOFT_TAINT or any(_tolerates(t, taint) for t in tolerations) for taint in group.taints
    )


def _tolerates(toleration: Mapping[str, object], taint: Mapping[str, object]) -> bool:
    """EKS writes NO_SCHEDULE where Kubernetes writes NoSchedule."""
    effect = str(taint.get("effect", "")).replace("_", "").lower()
    if toleration.get("effect") and str(toleration["effect"]).lower() != effect:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and toleration.get("value", "") == taint.get("value", "")
