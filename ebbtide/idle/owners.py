"""Owners of the workloads in a stack file, and those after their last day. Pure: no cluster, no clock."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta

from ebbtide.idle.finding import Finding
from ebbtide.settings.model import StackSettings
from ebbtide.settings.packing import pod_requests
from ebbtide.settings.placement import size_usd_per_hour
from ebbtide.settings.pods import owned_entries
from ebbtide.settings.sections.owned import Owned
from ebbtide.units.money import HOURS_PER_MONTH


def owners(settings: StackSettings) -> Mapping[str, Owned]:
    """Return owner and last day by the name of a workload, a Ray cluster or its pods. A name used twice is left out."""
    owned = [(name, keys) for _, names, keys in owned_entries(settings) for name in names]
    uses = Counter(name for name, _ in owned)
    return {name: keys for name, keys in owned if uses[name] == 1}


def expired(settings: StackSettings, today: date) -> Iterator[Finding]:
    """Yield each workload after its last day. Its dollars are those of the pods that run without jobs and requests."""
    for _, names, keys in owned_entries(settings):
        if keys.expires is not None and keys.expired(today):
            yield Finding(
                kind="expired",
                name=names[0],
                evidence=f"its last day was {keys.expires}",
                usd=_usd(settings, names),
                since=datetime.combine(keys.expires + timedelta(days=1), time(), UTC),
                owner=keys.owner,
                expires=keys.expires,
            )


def _usd(settings: StackSettings, names: Collection[str]) -> float | None:
    """Return US dollars a month, or None on an existing cluster, without a price, and for two workloads of one name."""
    if settings.cluster.context is not None:
        return None
    requests = [request for request in pod_requests(settings) if request.name in names]
    workloads, total = settings.modelled_workloads, 0.0
    for request in requests:
        groups = [settings.node_groups[name] for name in request.groups]
        hourly = size_usd_per_hour(settings.region, request.size, groups)
        if hourly is None or len(requests) > len(names):
            return None
        number = workloads[request.name].replicas if request.name in workloads else request.least
        total += hourly * number * HOURS_PER_MONTH
    return total
