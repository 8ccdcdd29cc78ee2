"""The cost of a month before and after a change, line by line, and the confidence in the figures.

If lines lack a price, the total is shown as "at least", and without a difference between the sides.

Business hours: a stack file states node-hours per month, not when they fall. Their split is bounded: at any time a
group has at least `min` and at most `max` nodes. If the bounds settle the split, as for groups of constant size, it is
shown; otherwise the amounts stay open and `confidence` gives the bounds. A split in proportion to the hours would be
wrong for every stack that shrinks at night.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from ebbtide.preview.cost.always import what_always_runs
from ebbtide.preview.cost.floors import local_year
from ebbtide.preview.cost.monthly import (
    DISKS,
    HOURS_PER_MONTH,
    SPOT,
    GroupCost,
    disk_usd_per_node_hour,
    group_costs,
    not_in_figures,
    price_hint,
    sum_known,
    unpriced,
)
from ebbtide.preview.cost.places import about_places
from ebbtide.preview.cost.shares import ServiceCost, about_adopted_pods, about_cron_jobs, service_costs
from ebbtide.preview.document import Amounts, CostComparison, CostLine, ServiceCostLine, line_key, line_number
from ebbtide.prices import GroupRate, plans_are_derived
from ebbtide.prices.missing import named
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings

_SETTLED = 0.005
"""Bounds closer together than this share of the total count as one figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One side's estimate."""

    lines: tuple[GroupCost, ...]
    services: tuple[ServiceCost, ...]
    total: Amounts
    open_hours: float
    open_usd: tuple[float, float] | None  # at least and at most, at the stated usage


def compare_costs(before: StackSettings | None, after: StackSettings, day: date) -> CostComparison:
    """`day` decides the support of the cluster's version, and its year the weekdays and holidays of the mean month."""
    new = _side(after, day)
    old = None if before is None else _side(before, day)
    sides = [side for side in (old, new) if side is not None]
    hours = (old or new).open_hours, new.open_hours
    opened, closed = (None if old is None else _split(old)), _split(new)
    return CostComparison(
        lines=_joined(() if old is None else old.lines, new.lines),
        before=None if old is None else old.total,
        after=new.total,
        open_hours=hours,
        closed_hours=(HOURS_PER_MONTH - hours[0], HOURS_PER_MONTH - hours[1]),
        open_usd=(opened and opened[0], closed and closed[0]),
        closed_usd=(opened and opened[1], closed and closed[1]),
        prices_of=tuple(sorted({line.price_date for side in sides for line in side.lines})),
        confidence="; ".join(_confidence(after, new, [line for side in sides for line in side.lines], day.year)),
        without=(() if old is None else _without(old), _without(new)),
        services=_services(() if old is None else old.services, new.services),
        cheaper=tuple(about_places(after, day.year)),
    )


def _without(side: _Side) -> tuple[str, ...]:
    return tuple(map(line_key, unpriced(side.lines)))


def _services(before: Sequence[ServiceCost], after: Sequence[ServiceCost]) -> tuple[ServiceCostLine, ...]:
    """The services of `after` in order, then the removed ones."""
    old, new = {cost.pods: cost for cost in before}, {cost.pods: cost for cost in after}
    return tuple(_service(name, old.get(name), new.get(name)) for name in {**new, **old})


def _service(name: str, old: ServiceCost | None, new: ServiceCost | None) -> ServiceCostLine:
    return ServiceCostLine(
        name=name,
        pods_before=old and (old.least, old.most),
        pods_after=new and (new.least, new.most),
        before=old and _of_service(old),
        after=new and _of_service(new),
    )


def _of_service(cost: ServiceCost) -> Amounts:
    return Amounts(always=cost.usd_always, at_min=cost.usd_at_min, at_max=cost.usd_at_max, at_usage=None)


def _side(settings: StackSettings, day: date) -> _Side:
    always = what_always_runs(settings, day.year) if settings.cluster.context is None else None
    lines = group_costs(settings, day, always=always)
    open_hours = business_hours_a_month(settings.business_hours, day.year)
    return _Side(
        lines=lines,
        services=service_costs(settings, day.year, always),
        total=Amounts(
            always=sum_known(lines, lambda line: line.usd_always),
            at_min=sum_known(lines, lambda line: line.usd_at_min),
            at_max=sum_known(lines, lambda line: line.usd_at_max),
            at_usage=sum_known(lines, lambda line: line.usd_at_usage),
        ),
        open_hours=open_hours,
        open_usd=_usd_in_business_hours(settings, lines, open_hours),
    )


def business_hours_a_month(hours: BusinessHoursSettings, year: int) -> float:
    """Business hours of a mean month of 730 hours, counted over the local year with holidays and clock changes."""
    resolved = hours.hours((year,))
    whole = local_year(resolved, year)
    spans = resolved.open_spans(whole.start, whole.end)
    inside = sum((min(span.end, whole.end) - max(span.start, whole.start) for span in spans), timedelta())
    return inside / (whole.end - whole.start) * HOURS_PER_MONTH


def _joined(before: Sequence[GroupCost], after: Sequence[GroupCost]) -> tuple[CostLine, ...]:
    """The lines of `after` in order, each with its line of `before`; then the removed ones."""
    old = {line_key(line.name): line for line in before}
    new = {line_key(line.name): line for line in after}
    return tuple(_line(old.get(key), new.get(key)) for key in (*new, *(key for key in old if key not in new)))


def _line(before: GroupCost | None, after: GroupCost | None) -> CostLine:
    present = [line for line in (after, before) if line is not None]
    shown = present[0]
    notes = [text for text in (_was(before, after), *dict.fromkeys(line.note for line in present)) if text]
    return CostLine(
        name=shown.name,
        before=before and _amounts(before),
        after=after and _amounts(after),
        assumption=f"about {shown.assumption}" if shown.approximate else shown.assumption,
        note="; ".join(notes),
        estimated=any(line.estimated for line in present),
    )


def _was(before: GroupCost | None, after: GroupCost | None) -> str:
    if before is None or after is None:
        return ""
    if before.name != after.name:
        return f"{line_number(before.name)} before"
    return f"{before.assumption} before" if before.assumption != after.assumption else ""


def _amounts(line: GroupCost) -> Amounts:
    return Amounts(always=line.usd_always, at_min=line.usd_at_min, at_max=line.usd_at_max, at_usage=line.usd_at_usage)


def _usd_in_business_hours(
    settings: StackSettings, lines: Sequence[GroupCost], open_hours: float
) -> tuple[float, float] | None:
    """Lower and upper bound; None without a stated usage, or if a price is missing."""
    if not lines or any(line.usd_at_usage is None for line in lines):
        return None
    least = most = sum(line.usd_at_usage or 0 for line in lines if not line.node_group and line.name != DISKS)
    least, most = (amount * open_hours / HOURS_PER_MONTH for amount in (least, most))
    for line in lines:
        if line.node_group and line.rate is not None and line.node_hours is not None:
            group = settings.node_groups[line.name]
            disk = disk_usd_per_node_hour(settings, group)
            low, high = _node_hours_open(group, line.node_hours, open_hours)
            least += _cost_open(line.rate, low, open_hours) + low * disk
            most += _cost_open(line.rate, high, open_hours) + high * disk
    return least, most


def _node_hours_open(group: NodeGroupSettings, used: float, open_hours: float) -> tuple[float, float]:
    """Bounds on the node-hours of a month that can lie in business hours.

    A stated usage below the group's `min` or above its `max` is impossible; then an even spread is assumed.
    """
    closed_hours = HOURS_PER_MONTH - open_hours
    if not group.min * HOURS_PER_MONTH <= used <= group.max * HOURS_PER_MONTH:
        even = used * open_hours / HOURS_PER_MONTH
        return even, even
    return (
        max(group.min * open_hours, used - group.max * closed_hours),
        min(group.max * open_hours, used - group.min * closed_hours),
    )


def _cost_open(rate: GroupRate, node_hours: float, open_hours: float) -> float:
    return rate.usd_per_hour(node_hours / open_hours) * open_hours if open_hours else 0.0


def _split(side: _Side) -> tuple[float, float] | None:
    """Dollars of the stated usage in business hours and outside them; None if the bounds are too far apart."""
    total = side.total.at_usage
    if total is None or side.open_usd is None:
        return None
    least, most = side.open_usd
    if most - least > _SETTLED * total:
        return None
    opened = (least + most) / 2
    return opened, total - opened


def _confidence(after: StackSettings, new: _Side, lines: Sequence[GroupCost], year: int) -> list[str]:
    if after.cluster.context is not None:
        return ["not estimated: the cost of an existing cluster's nodes is not known here"]
    parts = ["list prices before tax"]
    if any("-no-upfront" in line.assumption for line in lines):
        derived = "plan rates derived from the discounts of reserved instances"
        parts.append(derived if plans_are_derived(after.region) else "AWS's own plan rates")
    if any(line.assumption.startswith(SPOT) for line in lines):
        parts.append("spot at a month's mean saving; zones and days differ widely")
    parts += [*_unpriced(new, after.region), *not_in_figures(after)]
    parts += [*about_cron_jobs(after, year), *about_adopted_pods(after)]
    return [*parts, *_about_usage(after.costs.expected_node_hours, after.node_groups, new)]


def _unpriced(side: _Side, region: str) -> list[str]:
    names = _without(side)
    hint = price_hint(side.lines, region)
    return [f"without {named(names)}, whose prices are not known{hint and f' ({hint})'}"] if names else []


def _about_usage(stated: Mapping[str, float], groups: Mapping[str, NodeGroupSettings], new: _Side) -> list[str]:
    unstated = [name for name in groups if name not in stated]
    if unstated:
        return [f"no usage is stated for {', '.join(unstated)} (costs.expectedNodeHours)"]
    if new.open_usd is None or _split(new) is not None:
        return []
    least, most = new.open_usd
    split = f"{least:,.0f} to {most:,.0f} USD fall into business hours"
    return [f"of the stated usage {split}: the file says how many node-hours, not when"]
