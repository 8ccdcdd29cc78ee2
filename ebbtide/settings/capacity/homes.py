"""The node group on which a workload's pods run, and the price of a pod there.

A pod costs the share of its node that it keeps from others, by its scarcest resource: if two fit on a node, each costs
half of it. The group is the one that a replay chooses (`packing.grown`), which need not be the cheapest.
"""

from ebbtide.prices import NoPrice, on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.packing import Waiting, grown, nodes_of
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.placement import copies, node_of, pod_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.settings.sections.workloads import WorkloadSettings


def home_group(settings: StackSettings, name: str) -> str | None:
    """Return the group with most of a workload's pods, beside the other workloads, or None if they fit nowhere."""
    pods = [
        Waiting(pod.size, pod.pod.replicas, pod.groups(settings.node_groups), pod.name)
        for pod in placed_pods(settings)
        if isinstance(pod.pod, WorkloadSettings)
    ]
    homes = grown(pods, nodes_of(settings)).homes.get(name)
    return homes.most_common(1)[0][0] if homes else None


def pod_usd_per_hour(settings: StackSettings, name: str, workload: ServedWorkload) -> float | None:
    """Return US dollars, or None if the nodes have no price.

    A group counts with its most expensive type, since AWS chooses, and spot nodes with the typical price of a month.
    """
    home = home_group(settings, name)
    if home is None:
        return None
    group = settings.node_groups[home]
    price = spot_typical if group.kind is NodeKind.SPOT else on_demand
    try:
        return max(price(settings.region, kind) for kind in group.types) / copies(pod_size(workload), node_of(group))
    except NoPrice:
        return None


def pods_per_node(settings: StackSettings, name: str, workload: ServedWorkload) -> int:
    """Return how many of the workload's pods fit on an empty node; at least 1."""
    home = home_group(settings, name)
    return 1 if home is None else copies(pod_size(workload), node_of(settings.node_groups[home]))
