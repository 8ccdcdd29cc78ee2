"""What the pods do to nodes at night, today and with the proposed rules. Pure.

The estimate packs pods by requests, as the stack's own checks do (`ebbtide.settings.packing`). It knows nothing of
affinities, zones and disks, so it is a first figure and says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from ebbtide.operate.adopt.facts import AdoptFacts
from ebbtide.operate.adopt.proposals import Proposal
from ebbtide.operate.adopt.workloads import has_ended, is_of_a_node
from ebbtide.operate.objects import at, labels_of, max_unavailable_of, quantity, requested
from ebbtide.operate.why.node_pins import PodContext, Rules, judge
from ebbtide.prices import Capacity, InstanceType, NoPrice, on_demand
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.drainable import Item, covers
from ebbtide.settings import StackSettings
from ebbtide.settings.node_sets import with_node_sets
from ebbtide.settings.packing import alike_nodes_needed
from ebbtide.settings.placement import PodSize, fits, home_kind, node_of
from ebbtide.vocabulary.labels import GPU_RESOURCE, NODE_KIND, Category

INSTANCE_TYPE, REGION = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"
_USUAL_PODS = 110


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
    """Nodes of one night, and US dollars of one hour."""

    today: int
    by_kind: Mapping[NodeKind, int]  # with the rules
    like: Mapping[NodeKind, str]  # the node or the group that the nodes of a kind are like
    usd: tuple[float, float] | str  # today and with the rules, or why they are unknown
    too_large: Sequence[str]  # rules whose pods fit no such node, which are left out


def pinning_pods(facts: AdoptFacts, proposals: Sequence[Proposal]) -> list[Pinning]:
    """Return the pods that would keep their nodes tonight, without rules."""
    flags = facts.flags or {}
    rules = Rules(local_storage_pins=flags.get("skip-nodes-with-local-storage", "true") != "false")
    context = PodContext(budgets=facts.budgets, rules=rules)
    groups: dict[tuple[str, tuple[str, ...]], list[Item]] = {}
    for proposal in proposals:
        for pod in proposal.workload.pods:
            if reasons := judge(pod, context).reasons:
                groups.setdefault((str(proposal.workload), reasons), []).append(pod)
    return [Pinning(workload, reasons, tuple(pods)) for (workload, reasons), pods in groups.items()]


def without_budget(facts: AdoptFacts, proposals: Sequence[Proposal]) -> list[Proposal]:
    """Return the workloads of which a drain may move pods by day."""
    return [
        proposal
        for proposal in proposals
        if proposal.workload.owner is not None
        and any(not any(covers(budget, pod) for budget in facts.budgets) for pod in proposal.workload.pods)
    ]


def second_budgets(facts: AdoptFacts, proposals: Sequence[Proposal]) -> Iterator[tuple[Item, list[Proposal]]]:
    """Yield existing budgets that select pods of proposed rules. With the rule's budget, no eviction succeeds."""
    for budget in facts.budgets:
        hit = [each for each in proposals if each.is_rule and any(covers(budget, pod) for pod in each.workload.members)]
        if hit:
            yield budget, hit


def is_closed(budget: Item) -> bool:
    return max_unavailable_of(budget) in (0, "0%")


def reserved_by_daemons(facts: AdoptFacts) -> dict[str, PodSize]:
    """Return the requests of these namespaces' DaemonSets on a node, the largest of each kind of nodes."""
    kinds = {node["metadata"]["name"]: labels_of(node).get(NODE_KIND, "") for node in facts.nodes}
    sums: dict[str, tuple[Decimal, Decimal]] = {}
    for pod in facts.pods:
        if not is_of_a_node(pod) or has_ended(pod):
            continue
        node = str(at(pod, "spec", "nodeName"))
        cpu, memory = sums.get(node, (Decimal(0), Decimal(0)))
        sums[node] = cpu + requested(pod, "cpu"), memory + requested(pod, "memory")
    largest: dict[str, PodSize] = {}
    for node, (cpu, memory) in sums.items():
        size, kind = PodSize(cpu=-int(-cpu * 1000), memory=-int(-memory // 2**20), gpu=0), kinds.get(node, "")
        known = largest.get(kind, PodSize(cpu=0, memory=0, gpu=0))
        largest[kind] = PodSize(cpu=max(size.cpu, known.cpu), memory=max(size.memory, known.memory), gpu=0)
    return largest


def estimate(facts: AdoptFacts, proposals: Sequence[Proposal], settings: StackSettings | None) -> Estimate | None:
    """Compare the nodes that the pods pin tonight with the nodes that they need if the rules apply.

    With the rules: fixed pods packed on fixed nodes, and the others that pin today packed on nodes of their kind. The
    flexible pods that do not pin are left out on both sides. None if no node could be read.
    """
    rules = [each for each in proposals if each.is_rule and each.workload.pods]
    nodes = {str(node["metadata"]["name"]): node for node in facts.nodes}
    if not rules or not nodes:
        return None
    pinned = pinning_pods(facts, rules)
    pinning = {each.workload: len(each.pods) for each in pinned}
    pods: dict[NodeKind, list[tuple[PodSize, int]]] = {}
    for each in rules:
        count = each.count if each.guess.category is Category.FIXED else pinning.get(str(each.workload), 0)
        if count:
            pods.setdefault(_home(each), []).append((each.size, count))
    world = _World(facts, settings)
    like = {kind: world.like(kind) for kind in pods}
    by_kind = {kind: alike_nodes_needed(like[kind].each, sizes) for kind, sizes in pods.items()}
    kept = [nodes[name] for name in sorted({name for each in pinned for name in each.nodes} & nodes.keys())]
    today, then = [world.price(node) for node in kept], [like[kind].price for kind in by_kind]
    unknown = next((price for price in (*today, *then) if isinstance(price, str)), "")
    return Estimate(
        today=len(kept),
        by_kind=by_kind,
        like={kind: each.name for kind, each in like.items()},
        usd=unknown or (_total(today, [1] * len(today)), _total(then, by_kind.values())),
        too_large=[each.name for each in rules if _home(each) in like and not fits(each.size, like[_home(each)].each)],
    )


def _total(prices: Sequence[float | str], counts: Iterable[int]) -> float:
    return sum(float(price) * count for price, count in zip(prices, counts, strict=True))


def _home(proposal: Proposal) -> NodeKind:
    return home_kind(proposal.guess.category, proposal.size.gpu)


class _Like(NamedTuple):
    name: str
    each: Capacity
    price: float | str  # US dollars per hour, or why it is unknown


class _World:
    """What a node of each kind can hold and costs."""

    def __init__(self, facts: AdoptFacts, settings: StackSettings | None) -> None:
        self._nodes, self._reserved = facts.nodes, reserved_by_daemons(facts)
        self._settings = None if settings is None else with_node_sets(settings)

    def like(self, kind: NodeKind) -> _Like:
        """Return an existing node of the kind, or the stack's group of that kind, or the largest node."""
        selectors = {} if self._settings is None else self._settings.cluster.node_selectors
        labels = selectors.get(kind, {NODE_KIND: kind.value})
        node = next((node for node in self._nodes if labels.items() <= labels_of(node).items()), None)
        if node is None and self._settings is not None:
            for name, group in self._settings.node_groups.items():
                if group.kind is kind:
                    return _Like(f"group {name}", node_of(group), self._price(self._settings.region, group.types[0]))
        node = node or max(self._nodes, key=lambda each: quantity(at(each, "status", "allocatable", "cpu")))
        return _Like(str(node["metadata"]["name"]), self._capacity(node), self.price(node))

    def _capacity(self, node: Item) -> Capacity:
        offer, reserved = at(node, "status", "allocatable"), self._reserved.get(labels_of(node).get(NODE_KIND, ""))
        return Capacity(
            cpu=int(quantity(at(offer, "cpu")) * 1000) - (reserved.cpu if reserved else 0),
            memory=int(quantity(at(offer, "memory")) / 2**20) - (reserved.memory if reserved else 0),
            gpu=int(quantity(at(offer, GPU_RESOURCE))),
            pods=int(quantity(at(offer, "pods"))) or _USUAL_PODS,
        )

    def price(self, node: Item) -> float | str:
        labels, groups = labels_of(node), {} if self._settings is None else self._settings.node_groups
        region = "" if self._settings is None else self._settings.region
        for name, selector in ({} if self._settings is None else self._settings.cluster.node_selectors).items():
            if name in groups and selector.items() <= labels.items():
                return self._price(region, groups[name].types[0])
        if INSTANCE_TYPE not in labels or REGION not in labels:
            return f"node {node['metadata']['name']} has no labels {INSTANCE_TYPE} and {REGION}"
        types = {each.name: each for group in groups.values() for each in group.types}
        return self._price(labels[REGION], types.get(labels[INSTANCE_TYPE], labels[INSTANCE_TYPE]))

    @staticmethod
    def _price(region: str, kind: str | InstanceType) -> float | str:
        try:
            return on_demand(region, kind)
        except NoPrice as error:
            return str(error)
