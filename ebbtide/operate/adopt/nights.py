"""What the pods do to nodes at night, today and with the proposed rules. Pure.

The estimate packs pods by requests, as the stack's own checks do (`ebbtide.settings.packing`). It knows nothing of
affinities, zones and disks, so it is a first figure and says so.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.operate.adopt.facts import AdoptFacts, key_of
from ebbtide.operate.adopt.proposals import Proposal
from ebbtide.operate.adopt.workloads import daemon_pods, has_ended, is_of_a_node
from ebbtide.operate.objects import at, labels_of, max_unavailable_of, quantity, requested
from ebbtide.operate.why.node_pins import PodContext, Rules, judge
from ebbtide.prices import Capacity, NoPrice, on_demand
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.drainable import Item, covers
from ebbtide.settings import StackSettings
from ebbtide.settings.node_sets import with_node_sets
from ebbtide.settings.packing import Nodes, alike_nodes_needed, packed
from ebbtide.settings.placement import PodSize, fits, home_kind, node_of
from ebbtide.vocabulary.labels import GPU_RESOURCE, NODE_KIND

INSTANCE_TYPE, REGION = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"
_USUAL_PODS = 110
_MORE = "more"
_MOST = 10_000


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
    """Nodes of one night, and US dollars of one hour; None: unknown."""

    today: int
    by_kind: Mapping[NodeKind, int]  # with the rules
    like: Mapping[NodeKind, str]  # the node or the group that each kind's nodes are like
    usd_today: float | None
    usd_then: float | None
    no_price: str  # why a price is unknown
    too_large: Sequence[str]  # rules whose pods fit no such node, which are left out

    @property
    def then(self) -> int:
        return sum(self.by_kind.values())


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
    for pod in daemon_pods(facts):
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
    """Compare the nodes that these pods keep tonight with the nodes that they need if the rules apply.

    Today: nodes with a pod that pins, and nodes for the other pods beyond the free room of those. With rules: the pods
    of each kind of nodes packed by themselves, first fit. None without nodes to compare.
    """
    rules = [proposal for proposal in proposals if proposal.is_rule and proposal.workload.pods]
    nodes = {node["metadata"]["name"]: node for node in facts.nodes}
    pinned = pinning_pods(facts, rules)
    kept = sorted({name for each in pinned for name in each.nodes if name in nodes})
    if not rules or not nodes:
        return None
    world = _World(facts, nodes, settings)
    pinning = {key_of(pod) for each in pinned for pod in each.pods}
    free = [(each.size, sum(key_of(pod) not in pinning for pod in each.workload.pods)) for each in rules]
    largest = max(nodes.values(), key=lambda node: quantity(at(node, "status", "allocatable", "cpu")))
    groups = {name: Nodes(each=world.left_on(name), most=1) for name in kept}
    groups[_MORE] = Nodes(each=world.empty(largest), most=_MOST)
    more = packed([(size, count, groups) for size, count in free if count], groups).opened[_MORE]
    pods: dict[NodeKind, list[tuple[PodSize, int]]] = {}
    for each in rules:
        pods.setdefault(_home(each), []).append((each.size, each.count))
    like = {kind: world.like(kind, largest) for kind in pods}
    by_kind = {kind: alike_nodes_needed(like[kind].each, sizes) for kind, sizes in pods.items()}
    prices = [*(world.price(nodes[name]) for name in kept), *[world.price(largest)] * more]
    then = [like[kind].price for kind, count in by_kind.items() for _ in range(count)]
    unknown = next((price for price in (*prices, *then) if isinstance(price, str)), "")
    return Estimate(
        today=len(kept) + more,
        by_kind=by_kind,
        like={kind: each.name for kind, each in like.items()},
        usd_today=None if unknown else sum(map(float, prices)),
        usd_then=None if unknown else sum(map(float, then)),
        no_price=unknown,
        too_large=[each.name for each in rules if not fits(each.size, like[_home(each)].each)],
    )


def _home(proposal: Proposal) -> NodeKind:
    return home_kind(proposal.guess.category, proposal.size.gpu)


@dataclass(frozen=True, slots=True)
class _Like:
    name: str
    each: Capacity
    price: float | str  # US dollars per hour, or why it is unknown


class _World:
    """Nodes with their pods, and what a node of each kind can hold and costs."""

    def __init__(self, facts: AdoptFacts, nodes: Mapping[str, Item], settings: StackSettings | None) -> None:
        self._nodes = nodes
        self._settings = None if settings is None else with_node_sets(settings)
        self._pods: dict[str, list[Item]] = {}
        for pod in facts.pods if facts.all_pods is None else facts.all_pods:
            if not has_ended(pod):
                self._pods.setdefault(str(at(pod, "spec", "nodeName")), []).append(pod)

    def empty(self, node: Item) -> Capacity:
        return self._less(node, is_of_a_node)

    def left_on(self, name: str) -> Capacity:
        return self._less(self._nodes[name], lambda _: True)

    def _less(self, node: Item, counts: Callable[[Item], bool]) -> Capacity:
        pods = [pod for pod in self._pods.get(node["metadata"]["name"], ()) if counts(pod)]

        def left(resource: str, unit: Decimal) -> int:
            used = sum((requested(pod, resource) for pod in pods), Decimal(0))
            return max(0, int((quantity(at(node, "status", "allocatable", resource)) - used) / unit))

        slots = int(quantity(at(node, "status", "allocatable", "pods"))) or _USUAL_PODS
        return Capacity(
            cpu=left("cpu", Decimal("0.001")),
            memory=left("memory", Decimal(2**20)),
            gpu=left(GPU_RESOURCE, Decimal(1)),
            pods=max(0, slots - len(pods)),
        )

    def like(self, kind: NodeKind, largest: Item) -> _Like:
        """Return an existing node of the kind, or the stack's group of that kind, or the largest node."""
        selectors = {} if self._settings is None else self._settings.cluster.node_selectors
        labels = selectors.get(kind, {NODE_KIND: kind.value})
        node = next((node for node in self._nodes.values() if labels.items() <= labels_of(node).items()), None)
        if node is None and self._settings is not None:
            for name, group in self._settings.node_groups.items():
                if group.kind is kind:
                    price = self._price(self._settings.region, group.types[0].name)
                    return _Like(f"group {name}", node_of(group), price)
        node = node or largest
        return _Like(str(node["metadata"]["name"]), self.empty(node), self.price(node))

    def price(self, node: Item) -> float | str:
        labels = labels_of(node)
        if self._settings is not None:
            for name, selector in self._settings.cluster.node_selectors.items():
                if name in self._settings.node_groups and selector.items() <= labels.items():
                    return self._price(self._settings.region, self._settings.node_groups[name].types[0].name)
        region = labels.get(REGION) or ("" if self._settings is None else self._settings.region)
        if INSTANCE_TYPE not in labels or not region:
            return f"node {node['metadata']['name']} has no labels of an instance type and a region"
        return self._price(region, labels[INSTANCE_TYPE])

    def _price(self, region: str, kind: str) -> float | str:
        groups = () if self._settings is None else self._settings.node_groups.values()
        types = {each.name: each for group in groups for each in group.types}
        try:
            return on_demand(region, types.get(kind, kind))
        except NoPrice as error:
            return str(error)
