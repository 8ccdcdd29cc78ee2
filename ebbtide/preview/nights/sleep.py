"""Workloads that sleep: when, and the nodes and dollars that this saves.

The number of nodes is an estimate: each group's remaining pods, packed onto nodes, and never fewer nodes than its
minimum. Each node is of the type that the provisioner launches for its pods (`ebbtide.preview.cost.always`): Karpenter
may take a smaller one for the pods that remain. A walk through four weeks, from one change to the next, counts all
workloads together, since a single one that sleeps often frees no node. The estimate leaves out the time until the
autoscaler removes a node, and pools above their minimum. Where idleness decides, the saving is an upper bound.

Pure: the instant is an argument.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeAlias

from controllers.workloads.sleep.calendar import sleep_at
from ebbtide.preview.cost.always import launched
from ebbtide.preview.cost.monthly import disk_usd_per_node_hour
from ebbtide.preview.nights.windows import short_date
from ebbtide.prices import InstanceType, NoPrice, on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.packing import Packing, lasting_pods
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.never_asleep import never_asleep
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.text.durations import format_duration
from ebbtide.text.money import HOURS_PER_MONTH, about_dollars
from ebbtide.vocabulary.windows import BusinessHours

_WALKED = timedelta(days=28)  # whole weeks, so that each weekday counts as often


def sleep_lines(settings: StackSettings, now: datetime) -> Iterator[str]:
    """Yield when each workload sleeps next, and the savings of all together."""
    hours, policies = settings.business_hours.hours(), [*sleepers_of(settings)]
    for policy in policies:
        calendar = sleep_at(now, policy, hours)
        start = calendar.until if calendar.awake else now
        end = None if start is None else sleep_at(start, policy, hours).until
        if start is None:
            why = never_asleep(policy, hours, hours.local(now).date()) or "it is awake at all hours"
            yield f"{policy.name} never sleeps: {why}"
        else:
            begin = f"from {_local(hours, start)}" if calendar.awake else "now"
            idle = "" if policy.idle_after is None else f", once idle for {format_duration(policy.idle_after)},"
            pods = f"{policy.asleep} of {policy.replicas} pods"
            until = "for good" if end is None else f"to {_local(hours, end)}"
            yield f"{policy.name}{idle} sleeps {begin} {until} with {pods}"
    if policies:
        yield _savings_text(settings, now)


def _local(hours: BusinessHours, instant: datetime) -> str:
    at = hours.local(instant)
    return f"{short_date(at)} {at:%H:%M}"


def _savings_text(settings: StackSettings, now: datetime) -> str:
    if settings.cluster.context is not None:
        if settings.cluster.node_shapes and not with_adopted_pools(settings).workers:
            return f"sleep: `ebbtide simulate {settings.stack}` shows which nodes go and what that saves"
        return "sleep: the cost of an existing cluster's nodes is not known here"
    prices = {name: _usd_by_type(settings, group) for name, group in settings.node_groups.items()}
    saved = _node_hours_saved(settings, now, {name: _or_size(usd) for name, usd in prices.items()})
    nodes = [_hours_text(*entry) for entry in saved.items() if entry[1] > 0]
    if not nodes:
        return "sleep saves no node: other pods, or the groups' min, keep the nodes"
    more = [_hours_text(kind, -hours) for kind, hours in saved.items() if hours < 0]
    usd = _usd_saved(settings, prices, saved)
    idle = any(policy.idle_after for policy in sleepers_of(settings))
    amount = "" if usd is None else f"{'' if idle else 'about '}{about_dollars(usd, at_most=idle)}, "
    instead = f" and takes {', '.join(more)} instead" if more else ""
    return (
        f"sleep saves {'at most ' if idle else ''}{amount}{', '.join(nodes)}{instead} a month, "
        "if no worker needs these nodes"
    )


_Kind: TypeAlias = tuple[str, InstanceType]
"""The nodes of a group with one instance type."""


def _hours_text(kind: _Kind, hours: float) -> str:
    return f"{hours:,.0f} node-hours of {kind[0]} ({kind[1].name})"


def _usd_by_type(settings: StackSettings, group: NodeGroupSettings) -> Mapping[InstanceType, float | None]:
    """Return the price of a node above the group's `min`, which no plan covers; None if it is not known."""
    usd: dict[InstanceType, float | None] = {}
    for kind in group.types:
        usd[kind] = None
        with suppress(NoPrice):
            usd[kind] = (spot_typical if group.kind is NodeKind.SPOT else on_demand)(settings.region, kind)
    return usd


def _or_size(usd: Mapping[InstanceType, float | None]) -> Mapping[InstanceType, float]:
    """Return what the cheapest type is chosen by: prices, or vCPUs if a price is not known."""
    known = {kind: price for kind, price in usd.items() if price is not None}
    return known if len(known) == len(usd) else {kind: float(kind.vcpu) for kind in usd}


def _usd_saved(
    settings: StackSettings,
    prices: Mapping[str, Mapping[InstanceType, float | None]],
    saved: Mapping[_Kind, float],
) -> float | None:
    """Return dollars a month, with the nodes' disks; None if a price is not known."""
    usd = 0.0
    for (name, kind), hours in saved.items():
        price = prices[name][kind]
        if price is None:
            return None
        try:
            usd += hours * (price + disk_usd_per_node_hour(settings, settings.node_groups[name]))
        except NoPrice:
            return None
    return usd


def _node_hours_saved(
    settings: StackSettings, now: datetime, prices: Mapping[str, Mapping[InstanceType, float]]
) -> Mapping[_Kind, float]:
    """Return the node-hours a month that sleep saves. They are negative for a type of smaller nodes that take over."""
    hours, policies = settings.business_hours.hours(), [*sleepers_of(settings)]
    awake, saved = _nodes(settings, prices, lasting_pods(settings)), Counter[_Kind]()
    at, end = now, now + _WALKED
    seconds: Counter[tuple[tuple[str, int], ...]] = Counter()
    while at < end:
        calendars = {policy: sleep_at(at, policy, hours) for policy in policies}
        following = min((c.until for c in calendars.values() if c.until is not None), default=end)
        fewer = {policy.name: policy.asleep for policy, calendar in calendars.items() if not calendar.awake}
        seconds[tuple(fewer.items())] += round((min(following, end) - at).total_seconds())
        at = following
    for fewer, lasting in seconds.items():
        asleep = _nodes(settings, prices, lasting_pods(settings, dict(fewer)))
        for kind in {*awake, *asleep}:
            saved[kind] += (awake[kind] - asleep[kind]) * lasting
    month = HOURS_PER_MONTH / _WALKED.total_seconds()
    return {kind: number * month for kind, number in sorted(saved.items(), key=_place) if number}


def _place(entry: tuple[_Kind, float]) -> tuple[str, str]:
    (group, kind), _ = entry
    return group, kind.name


def _nodes(
    settings: StackSettings, prices: Mapping[str, Mapping[InstanceType, float]], packing: Packing
) -> Counter[_Kind]:
    """Return the number of nodes of each type that the provisioners launch for these pods."""
    nodes: Counter[_Kind] = Counter()
    for name, group in settings.node_groups.items():
        for load, count in packing.loads(name):
            nodes[name, launched(group, prices[name], load)] += count
    return nodes
