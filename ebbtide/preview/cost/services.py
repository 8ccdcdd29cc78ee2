"""What services cost in a month, at their fewest and at their most pods: a share of the nodes that they run on.

Not a line of the estimate, which is of nodes: a pod costs nothing by itself, and its share is what it keeps others from
using. It is that of the nearest resource: a pod of which two fit on a node costs half of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.labels import NodeKind
from ebbtide.prices import NoPrice, on_demand, spot_typical
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import copies, home_of, node_of, pod_size
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.units.money import HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCost:
    """US dollars a month; None where a node has no price."""

    pods: str
    least: int
    most: int
    usd_at_min: float | None
    usd_at_max: float | None


def service_costs(settings: StackSettings) -> tuple[ServiceCost, ...]:
    """None on an existing cluster: what its nodes cost is its owner's to know."""
    return () if settings.cluster.context is not None else tuple(_costs(settings))


def _costs(settings: StackSettings) -> Iterator[ServiceCost]:
    workloads = settings.all_workloads
    for name, service in settings.services.items():
        for pods, variant in service.pods(name).items():
            workload = workloads[pods]
            each = _pod_usd(settings, workload) if isinstance(workload, ServedWorkload) else None
            least, most = variant.scale.min, variant.scale.max
            yield ServiceCost(
                pods=pods,
                least=least,
                most=most,
                usd_at_min=None if each is None else each * least,
                usd_at_max=None if each is None else each * most,
            )


def _pod_usd(settings: StackSettings, workload: ServedWorkload) -> float | None:
    """Of the group of its kind where it costs least; the dearest type counts, since AWS chooses. Spot nodes at the
    typical price of a month."""
    size, kind = pod_size(workload), home_of(workload)
    price = spot_typical if kind is NodeKind.SPOT else on_demand
    offers: list[float] = []
    for group in settings.node_groups.values():
        fitting = copies(size, node_of(group)) if group.kind is kind else 0
        if fitting:
            try:
                offers.append(max(price(settings.region, it) for it in group.instance_types) / fitting)
            except NoPrice:
                continue
    return min(offers) * HOURS_PER_MONTH if offers else None
