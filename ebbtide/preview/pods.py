"""The pods and the node groups of a recording, and which of them meet.

A pod is placed by its node selector alone: that is what Ebbtide writes. Numbers are the most there can be, since a
preview asks what is at stake: a pool counts with its maximum, a group with its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.policies.pods import Pods as Template
from ebbtide.policies.pods import pods_of as templates_of
from ebbtide.preview.eviction_rules import Item, covers
from ebbtide.preview.replacing import value_at
from ebbtide.preview.resources import Resource, mapping
from ebbtide.preview.tree import short_type
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import CATEGORY, NODE_GROUP, NODE_KIND, POOL, Category, NodeKind

_NAMED = 6  # names in a line
COME_AND_GO = ("DaemonSet", "CronJob", "Job")
"""What is on a node for a moment, or on every node: nobody misses it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """What one object makes: a Deployment's pods, or the one that a bare Pod is."""

    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    most: int
    urn: str
    budgets: tuple["Budget", ...]

    @property
    def category(self) -> str:
        return self.labels.get(CATEGORY, "")

    @property
    def node_selector(self) -> Mapping[str, str]:
        return self.spec.get("nodeSelector") or {}

    @property
    def as_object(self) -> Item:
        """As the API shows a pod, for the rules that judge one."""
        metadata = {"namespace": self.namespace, "labels": self.labels, "annotations": self.annotations}
        return {"metadata": metadata, "spec": self.spec}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    name: str
    most_unavailable: object  # as declared: 0, "25%", or None where it says something else
    opens: bool  # whether its number is the controller's


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroups:
    """The groups of all zones that are one group in the stack file."""

    name: str
    kind: str
    labels: Mapping[str, str]
    urns: frozenset[str]
    least: int
    most: int


def pods_of(resources: Sequence[Resource], settings: StackSettings | None) -> tuple[Pods, ...]:
    """In the order of registration; pools have their maximum where the settings are known."""
    budgets = [r for r in resources if short_type(r.type) == "PodDisruptionBudget" and not r.read]
    made = [template for resource in resources for template in templates_of(resource)]
    return tuple(_pods(template, budgets, settings) for template in made)


def _pods(made: Template, budgets: Sequence[Resource], settings: StackSettings | None) -> Pods:
    pod: Item = {"metadata": {"namespace": made.namespace, "labels": made.labels}}
    pool = settings.workers.get(made.labels.get(POOL, "")) if settings else None
    return Pods(
        kind=made.kind,
        name=made.name,
        namespace=made.namespace,
        labels=made.labels,
        annotations=made.annotations,
        spec=made.spec,
        most=made.replicas if pool is None else pool.max,
        urn=made.resource.urn,
        budgets=tuple(budget_of(budget) for budget in budgets if covers(budget.inputs, pod)),
    )


def budget_of(resource: Resource) -> Budget:
    return Budget(
        name=str(value_at(resource.inputs, "metadata.name") or resource.name),
        most_unavailable=value_at(resource.inputs, "spec.maxUnavailable"),
        opens="spec.maxUnavailable" in resource.ignore_changes,
    )


def groups_of(resources: Sequence[Resource]) -> dict[str, NodeGroups]:
    """By the name in the stack file; the zones of one are added up."""
    members: dict[str, list[Resource]] = {}
    for resource in resources:
        if resource.type == "aws:eks/nodeGroup:NodeGroup" and not resource.read:
            labels = mapping(resource.inputs.get("labels"))
            members.setdefault(labels.get(NODE_GROUP, resource.name), []).append(resource)
    return {name: _group(name, parts) for name, parts in members.items()}


def _group(name: str, parts: Sequence[Resource]) -> NodeGroups:
    labels = mapping(parts[0].inputs.get("labels"))
    return NodeGroups(
        name=name,
        kind=labels.get(NODE_KIND, ""),
        labels=labels,
        urns=frozenset(part.urn for part in parts),
        least=sum(_size(part, "minSize") for part in parts),
        most=sum(_size(part, "maxSize") for part in parts),
    )


def _size(part: Resource, bound: str) -> int:
    size = value_at(part.inputs, f"scalingConfig.{bound}")
    return size if isinstance(size, int) else 0


def runs_on(pods: Pods, labels: Mapping[str, str]) -> bool:
    """Whether these pods ask for nodes with such labels; what asks for none in particular is on nobody's account."""
    wanted = pods.node_selector
    return pods.kind != "DaemonSet" and bool(wanted) and all(labels.get(key) == wanted[key] for key in wanted)


def stays_on_fixed(pods: Pods, groups: Mapping[str, NodeGroups], settings: StackSettings | None) -> bool:
    """Whether nothing but a fixed node is a place for these pods.

    The nodes of a cluster that was there already are known by the owner's labels alone.
    """
    if groups:
        homes = [group for group in groups.values() if runs_on(pods, group.labels)]
        return bool(homes) and all(group.kind == NodeKind.FIXED for group in homes)
    owners = settings.cluster.node_selectors.get(NodeKind.FIXED.value, {}) if settings else {}
    if not owners:
        return pods.category == Category.FIXED  # any node may be meant
    return all(pods.node_selector.get(key) == value for key, value in owners.items())


def in_words(pods: Iterable[Pods]) -> str:
    """Who runs there and what protects them: `4 services, 2 pools (50 pods at most); 3 closed budgets`."""
    found = [each for each in pods if each.kind not in COME_AND_GO]
    if not found:
        return ""
    pools = sum(POOL in each.labels for each in found)
    who = ", ".join(part for part in (counted(len(found) - pools, "service"), counted(pools, "pool")) if part)
    return f"{who} ({counted(sum(each.most for each in found), 'pod')} at most); {_protection(found)}"


def _protection(pods: Sequence[Pods]) -> str:
    budgets = {(each.namespace, budget.name): budget for each in pods for budget in each.budgets}
    opening = sum(budget.opens for budget in budgets.values())
    closed = counted(len(budgets) - opening, "closed budget")
    night = f"{counted(opening, 'budget')} that open{'s' if opening == 1 else ''} at night" if opening else ""
    return ", ".join(part for part in (closed, night) if part) or "no budget"


def counted(number: int, what: str) -> str:
    """Empty for none of them."""
    return f"{number} {what}{'s' if number > 1 else ''}" if number else ""


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
