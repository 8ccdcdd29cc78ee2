"""The stack of a constant fleet: its nodes stay all the time, so none is a spot node.

A pool with a fallback has the nodes of its fallback. All other pods of a spot group have nodes of one type: the
cheapest on demand that each of them fits, whatever the order of the types in the stack file.
"""

from collections.abc import Iterator

from ebbtide.lab.simulator.strategies.plans import Topology, list_price, sizes_on, topology_of
from ebbtide.prices import InstanceType
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import fits, node_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings


def steady_nodes(settings: StackSettings) -> Topology:
    """The node groups of the stack file, each with nodes of one type that stay."""
    stays = with_steady_nodes(settings)
    return topology_of(stays, stays.node_groups, {name: name for name in stays.node_groups})


def with_steady_nodes(settings: StackSettings) -> StackSettings:
    """Return the stack whose pools use their fallback, and whose spot groups have one type and are paid on demand."""
    if not any(group.kind is NodeKind.SPOT for group in settings.node_groups.values()):
        return settings
    workers = {
        name: pool.model_copy(update={"node_group": pool.fallback, "fallback": ""}) if pool.fallback else pool
        for name, pool in settings.workers.items()
    }
    moved = settings.model_copy(update={"workers": workers})
    groups = {name: _steady(moved, name, group) for name, group in settings.node_groups.items()}
    return moved.model_copy(update={"node_groups": groups})


def _steady(settings: StackSettings, name: str, group: NodeGroupSettings) -> NodeGroupSettings:
    if group.kind is not NodeKind.SPOT or group.existing:
        return group
    sizes = sizes_on(settings, name)

    def order(kind: InstanceType) -> tuple[bool, bool, float, str]:
        node, usd = node_of(group.of_type(kind)), list_price(settings.region, kind)
        return not all(fits(size, node) for size in sizes), usd is None, kind.vcpu if usd is None else usd, kind.name

    return group.of_type(min(group.types, key=order))


def steady_sentence(settings: StackSettings) -> str:
    """Name the nodes that the constant fleets have in place of spot nodes."""
    return "; ".join(
        (
            "fixed-fleet and peak-fleet, whose nodes must stay, have on-demand nodes in place of spot nodes",
            *fleet_places(settings),
        )
    )


def fleet_places(settings: StackSettings) -> Iterator[str]:
    """Yield the nodes that pods of spot groups have in a constant fleet."""
    stays = with_steady_nodes(settings)
    for name, pool in settings.workers.items():
        if pool.fallback:
            yield f"{name} has those of its fallback {pool.fallback}"
    for name, group in stays.node_groups.items():
        if group.kind is NodeKind.SPOT and sizes_on(stays, name):
            yield f"{name} has {group.types[0].name}, its cheapest type that its pods fit"
