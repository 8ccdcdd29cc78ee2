"""Owners of the workloads in a stack file, and workloads past their last day. Pure: no cluster, no clock."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta

from ebbtide.operate.idle.finding import IdleFinding
from ebbtide.operate.idle.pods import PricedPod, usd_of
from ebbtide.settings.declared import owned_entries
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.owned import Owned


def owners(settings: StackSettings) -> Mapping[str, Owned]:
    """Return owner and last day by the name of a workload, a Ray cluster or its pods. A name used twice is left out."""
    owned = [(name, keys) for _, names, keys in owned_entries(settings) for name in names]
    uses = Counter(name for name, _ in owned)
    return {name: keys for name, keys in owned if uses[name] == 1}


def expired(settings: StackSettings, today: date, pods: Sequence[PricedPod] | None) -> Iterator[IdleFinding]:
    """Yield each workload past its last day, with the cost of its running pods. `pods` run now; None if unknown."""
    for _, names, keys in owned_entries(settings):
        if keys.expires is not None and keys.expires < today:
            yield IdleFinding(
                kind="expired",
                name=names[0],
                evidence=f"its last day was {keys.expires}",
                usd=None if pods is None else usd_of([pod for pod in pods if pod.workload in names]),
                since=datetime.combine(keys.expires + timedelta(days=1), time(), UTC),
                owner=keys.owner,
                expires=keys.expires,
            )
