"""Owners and last days of the workloads in a stack file, and which of them have expired. Pure: no cluster, no clock."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta

from ebbtide.idle.finding import Finding
from ebbtide.settings.model import StackSettings
from ebbtide.settings.packing import PodRequests, pod_requests
from ebbtide.settings.placement import size_usd_per_hour
from ebbtide.settings.pods import OwnedEntry, owned_entries
from ebbtide.settings.sections.owned import Owned
from ebbtide.units.counts import several
from ebbtide.units.money import HOURS_PER_MONTH

EXPIRED = "expired"
_SECTIONS = ("workloads", "workers", "jobs", "cron_jobs", "ray", "services", "adopted")


def owners(settings: StackSettings) -> Mapping[str, Owned]:
    """Return owner and last day by the name of pods, of a service and of a Ray cluster.

    A name in two sections with different owners is left out.
    """
    owned: dict[str, Owned] = {}
    ambiguous: set[str] = set()
    for entry in owned_entries(settings):
        for name in {entry.path.split(".")[1], *entry.pods}:
            known = owned.setdefault(name, entry.keys)
            if (known.owner, known.expires) != (entry.keys.owner, entry.keys.expires):
                ambiguous.add(name)
    return {name: keys for name, keys in owned.items() if name not in ambiguous}


def expired(settings: StackSettings, today: date) -> Iterator[Finding]:
    """Yield each workload after its last day, with the dollars of the pods that run without jobs and requests."""
    for entry in owned_entries(settings):
        last_day = entry.keys.expires
        if last_day is None or not entry.keys.expired(today):
            continue
        pods = [*_lasting(settings, entry)]
        number = several(sum(count for _, count in pods), "pod")
        yield Finding(
            kind=EXPIRED,
            name=entry.path,
            evidence=f"Its last day was {last_day}, and the stack file keeps {number} of it running without work.",
            usd=_month(settings, pods),
            since=datetime.combine(last_day + timedelta(days=1), time(), UTC),
            owner=entry.keys.owner,
            expires=last_day,
        )


def _lasting(settings: StackSettings, entry: OwnedEntry) -> Iterator[tuple[PodRequests, int]]:
    """Yield the entry's pods and how many of them run at least."""
    section, name = entry.path.split(".")[:2]
    only: dict[str, object] = {key: {} for key in _SECTIONS}
    stack = settings.model_copy(update=only | {section: {name: getattr(settings, section)[name]}})
    workloads = stack.modelled_workloads
    for request in pod_requests(stack):
        if request.name in entry.pods:
            yield request, workloads[request.name].replicas if request.name in workloads else request.least


def _month(settings: StackSettings, pods: list[tuple[PodRequests, int]]) -> float | None:
    """Return US dollars a month; None on an existing cluster, whose nodes' cost is not known, and without a price."""
    if settings.cluster.context is not None:
        return None
    total = 0.0
    for request, number in pods:
        groups = [settings.node_groups[name] for name in request.groups]
        hourly = size_usd_per_hour(settings.region, request.size, groups) if number else 0.0
        if hourly is None:
            return None
        total += number * hourly * HOURS_PER_MONTH
    return total
