"""Build the ledger of a month from what Prometheus recorded."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ebbtide.lab.advice.savings.usage import Usage, usage_of_counts
from ebbtide.lab.ledger.alternatives import alternatives_of
from ebbtide.lab.ledger.month import (
    CLOSED_WITHIN,
    NO_POD,
    NOT_RECORDED,
    SPOT,
    UNKNOWN_REQUESTS,
    CostShare,
    LabelShare,
    Ledger,
    LedgerError,
    Month,
)
from ebbtide.lab.ledger.paid import Amount, Hourly, Paid, paid_of
from ebbtide.lab.ledger.rates import SPOT_IS_A_RANGE, basis_of, described, rates_of
from ebbtide.lab.ledger.reading import VALUE, RecordedMonth, Requests
from ebbtide.lab.simulator.strategies.plans import NODE_BOOT_S
from ebbtide.prices import PricingAssumption
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.pods.kubernetes import own_namespace, started_by
from ebbtide.text.counts import count

IDLE = "idle"


def ledger_of(recording: RecordedMonth, settings: StackSettings, month: Month, now: datetime) -> Ledger:
    """Calculate a ledger. Raises `LedgerError` if a node that ran has no price."""
    rates = rates_of(settings, recording)
    paid = paid_of(settings, month, recording, rates)
    ledger = Ledger(
        stack=settings.stack,
        customer=settings.customer,
        region=settings.stated_region,
        month=month,
        incomplete=_incomplete(month, paid, now),
        paid=paid.rows,
        plan_usd=paid.plan_usd,
        gaps=paid.gaps,
        alternatives=(),
        shares=tuple(_shares(paid.hourly, recording.requests, _namespaces(settings))),
        prices=described(settings),
        source=recording.source,
        notes=tuple(_notes(settings, paid, rates.spot_share)),
        basis=basis_of(settings),
        beyond_min_usd=_beyond_min_usd(settings, paid, recording.requests),
        plan_assumed=settings.costs.pricing_assumption is not PricingAssumption.ON_DEMAND,
        labels={label: tuple(_label_shares(paid.hourly, requests)) for label, requests in recording.labels.items()},
    )
    return replace(ledger, alternatives=alternatives_of(settings, ledger, paid.peaks, rates, recording))


def usage_of_month(recording: RecordedMonth, settings: StackSettings, month: Month) -> Usage:
    """Return mean nodes by hour and group, and by type for Karpenter's groups. Raises `LedgerError`.

    Hours with a gap are left out. A Karpenter group without a type counts nodes of types that the stack file no longer
    lists.
    """
    paid = paid_of(settings, month, recording, rates_of(settings, recording))
    sized = settings.by_type
    counts: dict[tuple[datetime, str], float] = {}
    for hour in (hour for hour, share in paid.recorded.items() if share == 1):
        begin = month.begin + hour * timedelta(hours=1)
        for group in settings.node_groups:
            counts[begin, group] = paid.hourly.get((group, hour), Amount()).hours
        for name in sized.node_groups.keys() - settings.node_groups.keys():  # of Karpenter's groups, by type
            group, hours = name.partition("/")[0], paid.by_type.get((name, hour), 0.0)
            counts[begin, name] = hours
            counts[begin, group] = max(0.0, round(counts[begin, group] - hours, 9))  # sums of floats differ by order
    if not counts:
        raise LedgerError(f"{recording.source} has no complete hour of {month.name}")
    return usage_of_counts(counts, sized, f"{month.name}, recorded by {recording.source}")


def _incomplete(month: Month, paid: Paid, now: datetime) -> str:
    if now > month.end + CLOSED_WITHIN:
        return f"read more than {CLOSED_WITHIN.days} days after the end of {month.name}"
    if not paid.rows:
        return "no node was recorded"
    return ""


def _notes(settings: StackSettings, paid: Paid, spot_share: Mapping[str, float]) -> Iterator[str]:
    yield f"Boots: {NODE_BOOT_S:.0f} s from launch until the node joined, at the node's price: an estimate."
    yield "Nodes only: no disks, cluster fee, NAT, load balancers, traffic or taxes."
    rows = [row for row in paid.rows if row.is_priced]
    if hours := sum(row.hours for row in paid.rows if not row.is_priced):
        yield f"{count(hours)} node-hours of unknown instance types, such as Fargate's, have no price and no dollars."
    spot = sorted({row.instance_type for row in rows if row.capacity_type == SPOT})
    if spot:
        yield (f"{SPOT_IS_A_RANGE} Days and causes have the typical one; a bill has the real one.")
    if bare := [name for name in spot if name not in spot_share]:
        yield f"No typical spot saving is known for {', '.join(bare)}: priced on demand."
    unlimited = {row.group or "no group" for row in rows} - with_node_sets(settings).node_groups.keys()
    if unlimited and paid.gaps:
        groups = ", ".join(sorted(unlimited))
        yield f"No max is known for nodes of {groups}: in gaps their upper bound is the highest recorded number."
    yield from paid.notes


def _beyond_min_usd(settings: StackSettings, paid: Paid, requests: Requests) -> float:
    """Return the idle dollars of nodes above each group's `min`: fewer nodes cannot save the others.

    Hours without recorded requests count as fully requested.
    """
    groups, usd = with_node_sets(settings).node_groups, 0.0
    for (group, hour), amount in paid.hourly.items():
        parts = [shares[hour] for key, shares in requests.items() if key[0] == group and hour in shares]
        if parts and amount.hours:
            least = groups[group].min * paid.recorded[hour] if group in groups else 0.0
            usd += amount.usd * max(0.0, min(1 - sum(parts), 1 - least / amount.hours))
    return usd


def _shares(hourly: Hourly, requests: Requests, namespaces: Mapping[str, str]) -> Iterator[CostShare]:
    for (group, category, workload), usd in _divided(hourly, requests, UNKNOWN_REQUESTS):
        idle = not category and workload == IDLE
        namespace = "" if idle else namespaces.get(workload, "")
        yield CostShare(group=group, category=category, workload=workload, usd=usd, idle=idle, namespace=namespace)


def _label_shares(hourly: Hourly, requests: Requests) -> Iterator[LabelShare]:
    """Yield the dollars of each value in all groups together, the highest first."""
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    for (_, category, value), usd in _divided(hourly, requests, NOT_RECORDED):
        sums[category, NO_POD if (category, value) == ("", IDLE) else value] += usd
    for (category, value), usd in sorted(sums.items(), key=lambda entry: -entry[1]):
        yield LabelShare(value=value, usd=usd, pods=category == VALUE)


def _divided(hourly: Hourly, requests: Requests, unknown: str) -> Sequence[tuple[tuple[str, str, str], float]]:
    """Divide each group's hourly dollars by requests, the highest first; `unknown`: hours without any."""
    usd: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for (group, hour), amount in hourly.items():
        parts = {key: shares[hour] for key, shares in requests.items() if key[0] == group and hour in shares}
        requested = sum(parts.values())
        parts[group, "", IDLE if parts else unknown] = max(0.0, 1 - requested)
        for key, part in parts.items():
            usd[key] += amount.usd * part / max(1.0, requested)
    return [(key, dollars) for key, dollars in sorted(usd.items(), key=lambda entry: -entry[1]) if dollars]


def _namespaces(settings: StackSettings) -> Mapping[str, str]:
    """Return the namespace of each workload of the stack, by the value of Ebbtide's label on its pods."""
    starting = [name for name, workload in settings.workloads.items() if workload.starts_pods]
    return {
        **{pod.name: pod.namespace for pod in declared_pods(settings)},
        **{started_by(name): own_namespace(name) for name in starting},
    }
