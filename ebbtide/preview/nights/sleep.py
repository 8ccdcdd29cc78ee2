"""Workloads that sleep: when, and the nodes and dollars that this saves.

The number of nodes is an estimate: each group's remaining pods, packed onto nodes, and never fewer nodes than its
minimum. A walk through four weeks, from one change to the next, counts all workloads together, since a single one that
sleeps often frees no node. The estimate leaves out the time until the autoscaler removes a node, and pools above their
minimum.

Pure: the instant is an argument.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from controllers.workloads.sleep.calendar import sleep_at
from ebbtide.preview.cost.monthly import disk_usd_per_node_hour, group_costs
from ebbtide.preview.nights.windows import short_date
from ebbtide.prices import NoPrice
from ebbtide.settings.capacity.packing import lasting_pods
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.never_asleep import never_asleep
from ebbtide.text.durations import format_duration
from ebbtide.text.money import HOURS_PER_MONTH, dollars
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
    hours = _node_hours_saved(settings, now)
    if not hours:
        return "sleep saves no node: other pods, or the groups' min, keep the nodes"
    rates = {line.name: line.rate for line in group_costs(settings, now.date())}
    try:
        usd = sum(
            number * (rate.above_usd + disk_usd_per_node_hour(settings, settings.node_groups[name]))
            for name, number in hours.items()
            if (rate := rates[name]) is not None
        )
    except NoPrice:
        usd = 0.0
    nodes = ", ".join(f"{number:,.0f} node-hours of {name}" for name, number in hours.items())
    amount = f"about {dollars(usd)}, " if usd and all(rates[name] is not None for name in hours) else ""
    most = "at most " if any(policy.idle_after for policy in sleepers_of(settings)) else ""
    return f"sleep saves {most}{amount}{nodes} a month, if no worker needs these nodes"


def _node_hours_saved(settings: StackSettings, now: datetime) -> Mapping[str, float]:
    """Return the node-hours a month that sleep saves, by group."""
    hours, policies = settings.business_hours.hours(), [*sleepers_of(settings)]
    awake, saved = lasting_pods(settings).opened, dict.fromkeys(settings.node_groups, 0.0)
    at, end = now, now + _WALKED
    while at < end:
        calendars = {policy: sleep_at(at, policy, hours) for policy in policies}
        following = min((c.until for c in calendars.values() if c.until is not None), default=end)
        fewer = {policy.name: policy.asleep for policy, calendar in calendars.items() if not calendar.awake}
        lasting = (min(following, end) - at) / timedelta(hours=1)
        for name, nodes in lasting_pods(settings, fewer).opened.items():
            saved[name] += (awake[name] - nodes) * lasting
        at = following
    month = HOURS_PER_MONTH / (_WALKED / timedelta(hours=1))
    return {name: number * month for name, number in saved.items() if number > 0}
