"""What a pod costs: a share of the node that it runs on.

A pod costs nothing by itself; its share is what it keeps others from using. It is that of the nearest resource: a pod
of which two fit on a node costs half of it.
"""

from collections.abc import Iterator

from ebbtide.prices import NoPrice, on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import copies, node_of, pod_size, takes
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.serving.services import ServedWorkload


def pod_usd_per_hour(settings: StackSettings, workload: ServedWorkload) -> float | None:
    """US dollars, on the group of its kind where it costs least; None where no such group has a price.

    The dearest type of a group counts, since AWS chooses. Spot nodes at the typical price of a month.
    """
    offers: list[float] = []
    for group, fitting in _homes(settings, workload):
        try:
            price = spot_typical if group.kind is NodeKind.SPOT else on_demand
            offers.append(max(price(settings.region, it) for it in group.instance_types) / fitting)
        except NoPrice:
            continue
    return min(offers) if offers else None


def pods_per_node(settings: StackSettings, workload: ServedWorkload) -> int:
    """The most of them that fit on an empty node of a group they may go to; at least 1."""
    return max((fitting for _, fitting in _homes(settings, workload)), default=1)


def _homes(settings: StackSettings, workload: ServedWorkload) -> Iterator[tuple[NodeGroupSettings, int]]:
    size = pod_size(workload)
    for group in settings.node_groups.values():
        if takes(group, workload) and (fitting := copies(size, node_of(group))):
            yield group, fitting
