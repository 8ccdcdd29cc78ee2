"""Other places for the pods of a stack, each a line of the stack file, and the price of the nodes by packing alone.

Three lines choose nodes: `priority` of a node group, the first of its instance types, which AWS launches if it can, and
`nodeGroup` of a pool, a job, a cron job or a group of Ray workers. Packing gives the number of nodes but no duration.
So there are two prices: of what always runs, by the calendar, and of all pods at their maximum.

Prices are on demand or the typical ones on spot.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.preview.cost.always import karpenter_usd, what_always_runs
from ebbtide.prices import Capacity, NoPrice, on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.packing import nodes_at_maximum
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.placement import disk_holds, fits, node_of, suits
from ebbtide.settings.file.keys import FIELDS
from ebbtide.settings.file.problems import Location
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import MOST_PRIORITY, NodeGroupSettings
from ebbtide.settings.sections.pods.group import GroupPodSettings
from ebbtide.text.money import HOURS_PER_MONTH

WORTH_SAYING = 0.03
"""The share of the nodes' cost from which a cheaper place is shown."""
MOST = 3
"""The most cheaper places that are shown, and that a replay tries."""
_TYPES = "instanceTypes:"
_STEP = 10  # between priorities, so that another group fits between two


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyUsd:
    """US dollars an hour of the nodes."""

    always: float  # for what always runs, on average over a year
    at_most: float  # for all pods
    lacking: int  # nodes that all pods need beyond the maximum of their group

    def is_at_most(self, other: "HourlyUsd") -> bool:
        """True if no amount is higher."""
        return self.always <= other.always and self.at_most <= other.at_most and self.lacking <= other.lacking


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The stack with one more line, below `key` of the file."""

    key: str
    line: str
    settings: StackSettings
    before: HourlyUsd
    after: HourlyUsd

    @property
    def for_pods_that_always_run(self) -> bool:
        """True if it lowers the price of the pods that always run; False if only that of all pods at their maximum."""
        return self.after.always < self.before.always

    @property
    def usd_per_hour(self) -> float:
        if self.for_pods_that_always_run:
            return self.before.always - self.after.always
        return self.before.at_most - self.after.at_most

    @property
    def written(self) -> str:
        effect = ", which replaces its nodes" if self.line.startswith(_TYPES) else ""
        return f"write {self.line} at {self.key}{effect}"

    @property
    def share(self) -> float:
        """Return the saved share of the nodes' price."""
        return self.usd_per_hour / (self.before.always if self.for_pods_that_always_run else self.before.at_most)


def cheaper_places(settings: StackSettings, year: int) -> tuple[Alternative, ...]:
    """Return the alternatives that cost less by packing, the largest saving first, and at most one for each key.

    `year` is that of the calendar. Empty if a group has no price.
    """
    before = hourly_usd(settings, year)
    if before is None:
        return ()
    cheaper: dict[str, Alternative] = {}
    for key, line, changed in _changes(settings):
        after = hourly_usd(changed, year)
        if after is None or after == before or not after.is_at_most(before):
            continue
        alternative = Alternative(key=key, line=line, settings=changed, before=before, after=after)
        if key not in cheaper or alternative.share > cheaper[key].share:
            cheaper[key] = alternative
    return tuple(sorted(cheaper.values(), key=lambda alternative: -alternative.share))


def hourly_usd(settings: StackSettings, year: int) -> HourlyUsd | None:
    """Return the price of the nodes, or None on an existing cluster and without the price of a group."""
    groups = settings.node_groups
    if settings.cluster.context is not None:
        return None
    always, nodes = what_always_runs(settings, year).node_hours, nodes_at_maximum(settings)
    try:
        usd_always = [_always_usd(group, settings.region, always[name]) for name, group in groups.items()]
        usd_at_most = [_node_usd(groups[name], settings.region) * count for name, count in nodes.items()]
    except NoPrice:
        return None
    return HourlyUsd(
        always=round(sum(usd_always) / HOURS_PER_MONTH, 9),
        at_most=round(sum(usd_at_most), 9),
        lacking=sum(max(0, count - groups[name].max) for name, count in nodes.items()),
    )


def _always_usd(group: NodeGroupSettings, region: str, node_hours: Mapping[Capacity, float]) -> float:
    """Return US dollars a month."""
    if group.by_karpenter:
        return karpenter_usd(group, _usd_by_type(group, region), node_hours)
    return _node_usd(group, region) * sum(node_hours.values())


def _node_usd(group: NodeGroupSettings, region: str) -> float:
    """Return the price of the type that the provisioner launches: the first one, if it goes by the order of the types.

    Karpenter takes the cheapest of the largest. Which type EC2 takes on spot is unknown, so the most expensive counts.
    """
    prices = _usd_by_type(group, region)
    if group.by_karpenter:
        return min(prices[: len(group.types_to_fit)])
    return max(prices) if group.kind is NodeKind.SPOT else prices[0]


def _usd_by_type(group: NodeGroupSettings, region: str) -> Sequence[float]:
    price = spot_typical if group.kind is NodeKind.SPOT else on_demand
    return [price(region, kind) for kind in group.types]


def _changes(settings: StackSettings) -> Iterator[tuple[str, str, StackSettings]]:
    groups = settings.node_groups
    for name, group in groups.items():
        for line, changed in (*_earlier(group, groups), *_other_first_type(group, settings.region)):
            yield f"nodeGroups.{name}", line, settings.model_copy(update={"node_groups": {**groups, name: changed}})
    yield from _other_groups(settings)


def _earlier(
    group: NodeGroupSettings, groups: Mapping[str, NodeGroupSettings]
) -> Iterator[tuple[str, NodeGroupSettings]]:
    """Yield the group with a priority above those of the other groups of its kind."""
    others = [other.priority for other in groups.values() if other.kind is group.kind and other is not group]
    highest = max(others, default=MOST_PRIORITY)
    priority = min(highest + _STEP, MOST_PRIORITY)
    if group.priority <= highest < priority:
        yield f"priority: {priority}", group.model_copy(update={"priority": priority})


def _other_first_type(group: NodeGroupSettings, region: str) -> Iterator[tuple[str, NodeGroupSettings]]:
    """Yield the group with its cheapest type first, of those that are no older generation: work takes longer there.

    EC2 chooses spot capacity, and Karpenter the cheapest type. Another list of types replaces the group's nodes, so
    none is proposed for fixed nodes.
    """
    ordered = group.kind not in (NodeKind.SPOT, NodeKind.FIXED) and not group.by_karpenter
    if not ordered or group.shape is not None or len(group.instance_types) < 2:
        return
    prices: dict[str, float] = {}
    for kind in group.types:
        if kind.generation >= group.types[0].generation:
            with suppress(NoPrice):
                prices[kind.name] = on_demand(region, kind)
    cheapest = min(prices, key=prices.__getitem__)
    if cheapest != group.instance_types[0]:
        types = (cheapest, *(name for name in group.instance_types if name != cheapest))
        yield f"{_TYPES} [{', '.join(types)}]", group.model_copy(update={"instance_types": types})


def _other_groups(settings: StackSettings) -> Iterator[tuple[str, str, StackSettings]]:
    groups = settings.node_groups
    for pod in placed_pods(settings):
        entry = pod.pod
        if not isinstance(entry, GroupPodSettings) or pod.group not in groups:
            continue
        for name, group in groups.items():
            alike = group.kind is groups[pod.group].kind and group.has_gpus is groups[pod.group].has_gpus
            other = name != pod.group and alike
            holds = fits(pod.size, node_of(group)) and disk_holds(group, entry.ephemeral_storage)
            if other and holds and suits(group, entry):
                yield pod.path, f"nodeGroup: {name}", _moved(settings, pod.at, name)


def _moved(settings: StackSettings, at: Location, group: str) -> StackSettings:
    """Return the stack with the entry at this location of the file on another group."""
    section, name, *inner = map(str, at)
    field = FIELDS[section]
    entries = getattr(settings, field)
    if inner:
        of_cluster = entries[name].groups
        moved = entries[name].model_copy(
            update={"groups": {**of_cluster, inner[-1]: of_cluster[inner[-1]].model_copy(update={"node_group": group})}}
        )
    else:
        moved = entries[name].model_copy(update={"node_group": group})
    return settings.model_copy(update={field: {**entries, name: moved}})
