"""Cautions about spot nodes: pools whose workers get no notice, few or too many pools of capacity, and types without a
price.
"""

from collections.abc import Iterator

from ebbtide.kube.autoscaler import LONGEST_BACKOFF
from ebbtide.prices import unknown_spot_prices
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.fallbacks import MOST_GROUPS, groups_before_fallback
from ebbtide.settings.capacity.shapes_of_group import parts_of
from ebbtide.settings.file.problems import Caution
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import several
from ebbtide.text.pages import page_command

FEWEST_POOLS = 6
"""Types times zones: AWS reclaims spot nodes by type and zone. No source says how many are enough for GPUs. AWS advises
ten types for each workload (EC2 User Guide, "Best practices for Amazon EC2 Spot"), more than GPUs of one size have.
"""
MOST_MANAGED_GROUPS = 30
"""Default for one cluster. Source: Amazon EKS User Guide, "Service quotas"; AWS raises it on request."""


def spot_cautions(settings: StackSettings) -> Iterator[Caution]:
    yield from workers_without_notice(settings)
    yield from _few_pools(settings)
    yield from _many_groups(settings)
    yield from _late_fallbacks(settings)
    yield from _first_for_all_pods(settings)
    yield from _without_price(settings)


def workers_without_notice(settings: StackSettings) -> Iterator[Caution]:
    """Workers on spot nodes: their closed budgets refuse the drain (docs/explanation/spot.md)."""
    for name, pool in settings.workers.items():
        if settings.on_spot(pool) and not settings.stopped_together(pool):
            text = (
                f"{pool.node_group} has spot nodes, whose workers get no stop signal before their node goes: "
                "EKS obeys the budget, which is closed. They take jobs until then, so run only jobs there that may be "
                f"started again, or give the pool checkpoints with required: true ({page_command('spot')})"
            )
            yield Caution("spot.workers-not-told", f"workers.{name}.nodeGroup", text)


def _few_pools(settings: StackSettings) -> Iterator[Caution]:
    zones = len(settings.cluster.zones)
    for name, group in settings.node_groups.items():
        types = len(group.instance_types)
        if group.gpus_on_spot and types * zones < FEWEST_POOLS:
            meanwhile = "jobs without a fallback wait" if group.has_fallback else "jobs wait"
            text = (
                f"{several(types, 'type')} in {several(zones, 'zone')}: AWS takes spot nodes back by type and zone, "
                f"and while none of these {types * zones} has capacity, {meanwhile}. Name types or zones for at least "
                f"{FEWEST_POOLS}; the types may have several sizes ({page_command('spot#with-gpus')})"
            )
            yield Caution("spot.few-pools", f"nodeGroups.{name}.instanceTypes", text)


def _many_groups(settings: StackSettings) -> Iterator[Caution]:
    groups = settings.autoscaled_groups.items()
    managed = len(settings.cluster.zones) * sum(len(parts_of(name, group)) for name, group in groups)
    if managed > MOST_MANAGED_GROUPS:
        text = (
            f"they become {managed} managed node groups, one for each zone and, with GPUs on spot, each size; EKS "
            f"allows {MOST_MANAGED_GROUPS} in a cluster, unless AWS has raised your quota"
        )
        yield Caution("node-groups.above-quota", "nodeGroups", text)


def _late_fallbacks(settings: StackSettings) -> Iterator[Caution]:
    minutes = int(LONGEST_BACKOFF.total_seconds()) // 60
    for name, count in groups_before_fallback(settings).items():
        if count > MOST_GROUPS:
            text = (
                f"it becomes {count} Auto Scaling groups, one for each size and zone. Without spot capacity the "
                "cluster autoscaler tries all of them before the fallback, and the first one again after at most "
                f"{minutes} minutes, so the fallback may come hours late. Name types of fewer sizes: at most "
                f"{MOST_GROUPS} sizes times zones ({page_command('spot#when-spot-has-no-capacity')})"
            )
            yield Caution("spot.late-fallback", f"nodeGroups.{name}.instanceTypes", text)


def _first_for_all_pods(settings: StackSettings) -> Iterator[Caution]:
    """Nodes with GPUs have a taint, so no other pods go there."""
    for name, group in settings.node_groups.items():
        if group.has_fallback and not group.has_gpus:
            text = (
                "a pool's fallback makes it grow before all other groups, for every pod that names no nodes, such as "
                "pods of your own namespaces. Give those that must not run on spot nodes a node selector "
                f"({page_command('spot#when-spot-has-no-capacity')})"
            )
            yield Caution("spot.grows-first", f"nodeGroups.{name}", text)


def _without_price(settings: StackSettings) -> Iterator[Caution]:
    """A type without a list price has a caution in any group."""
    for name, group in settings.node_groups.items():
        if group.kind is not NodeKind.SPOT:
            continue
        if unknown := unknown_spot_prices(settings.region, group.types):
            text = f"{unknown}, so no cost is calculated for the group"
            yield Caution("spot.no-price", f"nodeGroups.{name}.instanceTypes", text)
