"""Estimate which nodes the pods keep at night, today and with the proposed rules. Pure.

The estimate packs pods by requests, as the stack's own checks do (`ebbtide.settings.capacity.packing`). It ignores
affinities, zones and disks, so it is a first figure and says so.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.operate.adopt.facts import AdoptFacts
from ebbtide.operate.adopt.proposals import Proposal
from ebbtide.operate.objects import at, labels_of, quantity
from ebbtide.operate.why.node_pins import PodContext, judge, node_marks, rules_of
from ebbtide.prices import Capacity, NoPrice, on_demand
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.drainable import Item
from ebbtide.settings import StackSettings
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.capacity.packing import alike_nodes_needed
from ebbtide.settings.capacity.placement import PodSize, home_kind
from ebbtide.vocabulary.labels import GPU_RESOURCE, NODE_KIND, Category

INSTANCE_TYPE, REGION = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"


@dataclass(frozen=True, slots=True)
class Pinning:
    """Pods of one workload that keep their nodes for the same reasons."""

    workload: str
    reasons: tuple[str, ...]
    pods: tuple[Item, ...]

    @property
    def nodes(self) -> set[str]:
        return {node for pod in self.pods if (node := at(pod, "spec", "nodeName"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Node counts for one night, and US dollars per hour."""

    today: int
    staying: int  # nodes of `today` that stay with or without rules
    by_kind: Mapping[NodeKind, int]  # with the rules
    like: Mapping[NodeKind, str]  # an existing node whose size is assumed for the kind
    usd: tuple[float, float] | str  # today and with the rules, or why the prices are unknown


def pinning_pods(facts: AdoptFacts, proposals: Sequence[Proposal]) -> list[Pinning]:
    """Return the pods that would keep their nodes tonight, without rules. A pod without a node keeps none."""
    nodes = {node["metadata"]["name"]: node for node in facts.nodes}
    groups: dict[tuple[str, tuple[str, ...]], list[Item]] = {}
    for proposal in proposals:
        for pod in proposal.workload.pods:
            name = at(pod, "spec", "nodeName")
            context = PodContext(budgets=facts.budgets, rules=rules_of(nodes.get(name), facts.flags))
            if name and (reasons := judge(pod, context).reasons):
                groups.setdefault((str(proposal.workload), reasons), []).append(pod)
    return [Pinning(workload, reasons, tuple(pods)) for (workload, reasons), pods in groups.items()]


def staying_nodes(facts: AdoptFacts, proposals: Sequence[Proposal]) -> dict[str, str]:
    """Return the nodes of these pods that stay with or without rules: the name, and the annotation that keeps it."""
    names = {at(pod, "spec", "nodeName") for proposal in proposals for pod in proposal.workload.pods}
    return {
        node["metadata"]["name"]: mark
        for node in facts.nodes
        if node["metadata"]["name"] in names
        for mark in node_marks(node, rules_of(node, facts.flags))
    }


def estimate(facts: AdoptFacts, proposals: Sequence[Proposal], settings: StackSettings | None) -> Estimate | None:
    """Compare the nodes that the pods pin tonight with the nodes that they need if the rules apply.

    With the rules, fixed pods are packed on fixed nodes; workers (whose budget never opens) and the flexible pods that
    pin a node today are packed on nodes of their kind. Flexible pods that pin no node are left out on both sides. Nodes
    kept by their own annotation count on both sides. None if no node could be read.
    """
    rules = [each for each in proposals if each.is_rule and each.workload.pods]
    if not rules or not facts.nodes:
        return None
    pinned, staying = pinning_pods(facts, rules), staying_nodes(facts, rules)
    pods: dict[NodeKind, list[tuple[PodSize, int]]] = {}
    for each in rules:
        if count := _keeping(each, pinned, staying):
            pods.setdefault(home_kind(each.guess.category, each.size.gpu), []).append((each.size, count))
    stack = None if settings is None else with_node_sets(settings)
    like = {kind: _like(kind, facts.nodes, stack) for kind in pods}
    by_kind = {kind: alike_nodes_needed(_capacity(like[kind]), sizes) for kind, sizes in pods.items()}
    names = staying.keys() | {name for each in pinned for name in each.nodes}
    kept = [node for node in facts.nodes if node["metadata"]["name"] in names]
    usd: tuple[float, float] | str
    try:
        then = sum(_price(like[kind], stack) * count for kind, count in by_kind.items())
        then += sum(_price(node, stack) for node in kept if node["metadata"]["name"] in staying)
        usd = sum(_price(node, stack) for node in kept), then
    except NoPrice as error:
        usd = str(error)
    return Estimate(
        today=len(kept),
        staying=len(staying),
        by_kind=by_kind,
        like={kind: node["metadata"]["name"] for kind, node in like.items()},
        usd=usd,
    )


def _keeping(proposal: Proposal, pinned: Sequence[Pinning], staying: Collection[str]) -> int:
    """Return how many of the rule's pods keep a node at night, not counting pods on nodes that stay anyway."""
    match proposal.guess.category:
        case Category.FIXED:
            return proposal.count
        case Category.WORKER:
            pods = proposal.workload.pods
        case _:
            pods = [pod for each in pinned if each.workload == str(proposal.workload) for pod in each.pods]
    nodes = (at(pod, "spec", "nodeName") for pod in pods)
    return sum(1 for node in nodes if node and node not in staying)


def _like(kind: NodeKind, nodes: Sequence[Item], stack: StackSettings | None) -> Item:
    """Return a node of the kind, or the largest node if there is none."""
    selectors = {} if stack is None else stack.cluster.node_selectors
    labels = selectors.get(kind, {NODE_KIND: kind.value})
    of_kind = (node for node in nodes if labels.items() <= labels_of(node).items())
    return next(of_kind, None) or max(nodes, key=lambda node: quantity(at(node, "status", "allocatable", "cpu")))


def _capacity(node: Item) -> Capacity:
    offer = at(node, "status", "allocatable")
    return Capacity(
        cpu=int(quantity(at(offer, "cpu")) * 1000),
        memory=int(quantity(at(offer, "memory")) / 2**20),
        gpu=int(quantity(at(offer, GPU_RESOURCE))),
        pods=int(quantity(at(offer, "pods"))),
    )


def _price(node: Item, stack: StackSettings | None) -> float:
    """Return US dollars per hour: the price in the stack file, or its type's in the file's region or its own.

    A type that the node's set does not list has its own price. Raises `NoPrice`.
    """
    labels = labels_of(node)
    name, region = labels.get(INSTANCE_TYPE, ""), labels.get(REGION, "")
    for group, selector in ({} if stack is None else stack.cluster.node_selectors).items():
        if stack is not None and group in stack.node_groups and selector.items() <= labels.items():
            kind = stack.node_groups[group].type_like(name)
            if kind is not None and kind.usd_per_hour is not None:
                return kind.usd_per_hour
            region = stack.region or region
            name = name or ("" if kind is None else kind.name)
    if not (name and region):
        raise NoPrice(f"node {node['metadata']['name']} has no labels {INSTANCE_TYPE} and {REGION}")
    return on_demand(region, name)
