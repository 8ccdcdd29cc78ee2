"""The node groups on which workloads run, and the price of a pod there.

A pod costs the share of its node that it keeps from others, by its scarcest resource: if two fit on a node, each costs
half of it. The group is the one that a replay chooses (`packing.grown`), which need not be the cheapest.
"""

from collections.abc import Mapping

from ebbtide.prices import NoPrice, on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.packing import Waiting, grown, nodes_of
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.placement import copies, node_of, pod_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.settings.sections.workloads import WorkloadSettings


def home_groups(settings: StackSettings) -> Mapping[str, str]:
    """Return the group with most of each workload's pods, beside the other workloads. Workloads that fit nowhere are
    left out.
    """
    pods = [
        Waiting(pod.size, pod.pod.replicas, pod.groups(settings.node_groups), pod.name)
        for pod in placed_pods(settings)
        if isinstance(pod.pod, WorkloadSettings)
    ]
    return {name: homes.most_common(1)[0][0] for name, homes in grown(pods, nodes_of(settings)).homes.items() if homes}


def pod_usd_per_hour(settings: StackSettings, home: str | None, workload: ServedWorkload) -> float | None:
    """Return US dollars, or None without a home group or if its nodes have no price.

    A group counts with its most expensive type, since AWS chooses, and spot nodes with the typical price of a month.
    """
    if home is None:
        return None
    group = settings.node_groups[home]
    price = spot_typical if group.kind is NodeKind.SPOT else on_demand
    try:
        return max(price(settings.region, kind) for kind in group.types) / copies(pod_size(workload), node_of(group))
    except NoPrice:
        return None


def pods_per_node(settings: StackSettings, home: str | None, workload: ServedWorkload) -> int:
    """Return how many of the workload's pods fit on an empty node of its home group; at least 1."""
    return 1 if home is None else copies(pod_size(workload), node_of(settings.node_groups[home]))
