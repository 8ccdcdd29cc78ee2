"""What services cost in a month, at their fewest and at their most pods: a share of the nodes that they run on.

Not a line of the estimate, which is of nodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import pod_usd_per_hour
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
            hourly = pod_usd_per_hour(settings, workload) if isinstance(workload, ServedWorkload) else None
            each = None if hourly is None else hourly * HOURS_PER_MONTH
            least, most = variant.scale.min, variant.scale.max
            yield ServiceCost(
                pods=pods,
                least=least,
                most=most,
                usd_at_min=None if each is None else each * least,
                usd_at_max=None if each is None else each * most,
            )
