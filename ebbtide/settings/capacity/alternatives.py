"""Other places for the pods of a stack, each a line of the stack file, and the price of the nodes by packing alone.

Three lines choose nodes: `priority` of a node group, the first of its instance types, which AWS launches if it can, and
`nodeGroup` of a pool, a job, a cron job or a group of Ray workers. Packing knows how many nodes the pods need, not how
long: so there are two prices, of the pods that always run and of all pods at their maximum.

Prices are on demand, of the first type of each group, as in a replay.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ebbtide.prices import NoPrice, on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.packing import Waiting, grown, nodes_of, pod_requests
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.placement import disk_holds, fits, node_of, suits
from ebbtide.settings.file.keys import FIELDS
from ebbtide.settings.file.problems import Location
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import MOST_PRIORITY, NodeGroupSettings
from ebbtide.settings.sections.pods.group import GroupPodSettings
from ebbtide.settings.sections.workloads import WorkloadSettings

WORTH_SAYING = 0.03
"""The share of the nodes' cost from which a cheaper place is shown."""
MOST = 3
"""The most cheaper places that are shown, and that a replay tries."""
_STEP = 10  # between priorities, so that another group fits between two

_Places: TypeAlias = Mapping[str, NodeGroupSettings]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyUsd:
    """US dollars an hour of the nodes."""

    always: float  # for the pods that run at any time, and the minimum of each group
    at_most: float  # for all pods
    lacking: int  # nodes that all pods need beyond the maximum of their group


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
        return f"write {self.line} at {self.key}"

    @property
    def share(self) -> float:
        """Return the saved share of the nodes' price."""
        return self.usd_per_hour / (self.before.always if self.for_pods_that_always_run else self.before.at_most)


def cheaper_places(settings: StackSettings) -> tuple[Alternative, ...]:
    """Return the alternatives that cost less by packing, the largest saving first, and at most one for each key.

    Empty if a group has no price.
    """
    before = hourly_usd(settings)
    if before is None:
        return ()
    cheaper: dict[str, Alternative] = {}
    for key, line, changed in _changes(settings):
        after = hourly_usd(changed)
        if after is None or after.lacking > before.lacking:
            continue
        if (after.always, after.at_most) >= (before.always, before.at_most):
            continue
        found = Alternative(key=key, line=line, settings=changed, before=before, after=after)
        if key not in cheaper or found.share > cheaper[key].share:
            cheaper[key] = found
    return tuple(sorted(cheaper.values(), key=lambda alternative: -alternative.share))


def hourly_usd(settings: StackSettings) -> HourlyUsd | None:
    """Return the price of the nodes, or None on an existing cluster and without the price of a group."""
    groups = settings.node_groups
    try:
        usd = {name: _node_usd(group, settings.region) for name, group in groups.items()}
    except NoPrice:
        return None
    if settings.cluster.context is not None:
        return None
    running = {pod.name: pod.pod.replicas for pod in placed_pods(settings) if isinstance(pod.pod, WorkloadSettings)}
    requests = [*pod_requests(settings)]
    always = [Waiting(pod.size, running.get(pod.name, pod.least), pod.groups) for pod in requests]
    at_most = [Waiting(pod.size, pod.most, pod.groups) for pod in requests]
    nodes_always, nodes_at_most = (grown(pods, nodes_of(settings)).opened for pods in (always, at_most))
    return HourlyUsd(
        always=round(sum(usd[name] * nodes for name, nodes in nodes_always.items()), 9),
        at_most=round(sum(usd[name] * nodes for name, nodes in nodes_at_most.items()), 9),
        lacking=sum(max(0, nodes - groups[name].max) for name, nodes in nodes_at_most.items()),
    )


def _node_usd(group: NodeGroupSettings, region: str) -> float:
    first = group.types[0]
    return spot_typical(region, first) if group.kind is NodeKind.SPOT else on_demand(region, first)


def _changes(settings: StackSettings) -> Iterator[tuple[str, str, StackSettings]]:
    groups = settings.node_groups
    for name, group in groups.items():
        for line, changed in (*_earlier(group, groups), *_other_first_type(group, settings.region)):
            yield f"nodeGroups.{name}", line, settings.model_copy(update={"node_groups": {**groups, name: changed}})
    yield from _other_groups(settings)


def _earlier(group: NodeGroupSettings, groups: _Places) -> Iterator[tuple[str, NodeGroupSettings]]:
    """Yield the group with a priority above those of the other groups of its kind."""
    others = [other.priority for other in groups.values() if other.kind is group.kind and other is not group]
    priority = max(others, default=MOST_PRIORITY) + _STEP
    if max(others, default=0) >= group.priority and priority <= MOST_PRIORITY:
        yield f"priority: {priority}", group.model_copy(update={"priority": priority})


def _other_first_type(group: NodeGroupSettings, region: str) -> Iterator[tuple[str, NodeGroupSettings]]:
    """Yield the group with its cheapest type first, of those that are no older generation: work takes longer there.

    EC2 chooses spot capacity, and Karpenter the cheapest type.
    """
    if group.by_karpenter or group.kind is NodeKind.SPOT or group.shape is not None or len(group.instance_types) < 2:
        return
    as_new = [kind for kind in group.types if kind.generation >= group.types[0].generation]
    cheapest = min(as_new, key=lambda kind: on_demand(region, kind)).name
    if cheapest != group.instance_types[0]:
        types = (cheapest, *(name for name in group.instance_types if name != cheapest))
        yield f"instanceTypes: [{', '.join(types)}]", group.model_copy(update={"instance_types": types})


def _other_groups(settings: StackSettings) -> Iterator[tuple[str, str, StackSettings]]:
    groups = settings.node_groups
    for pod in placed_pods(settings):
        entry = pod.pod
        if not isinstance(entry, GroupPodSettings) or pod.group not in groups:
            continue
        for name, group in groups.items():
            other = name != pod.group and group.kind is groups[pod.group].kind
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
