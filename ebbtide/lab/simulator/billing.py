"""The bill of a replay: the cost of its nodes for each local day, and the spans of its business hours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.lab.simulator.results import ClusterSeries
from ebbtide.prices import GroupRate
from ebbtide.text.durations import DAY_S as DAY_S
from ebbtide.vocabulary.windows import BusinessHours, wall_to_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBill:
    """Node-hours by group, and dollars by local day. If a node that ran has no price, days are empty and sums None."""

    node_hours: Mapping[str, float]
    usd_per_day: tuple[float, ...]
    usd_on_demand: float | None
    usd_with_spot: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRates:
    """The rates of each group that has a price: as the stack file assumes, without a commitment, and with flexible
    nodes above the floor on spot (None: a spot price is missing).
    """

    assumed: Mapping[str, GroupRate]
    on_demand: Mapping[str, GroupRate]
    with_spot: Mapping[str, GroupRate] | None
    vcpus: Mapping[str, int]  # per node of each group, including groups without a price


def billed(
    node_hours: Mapping[str, float], series: ClusterSeries, rates: GroupRates, day_ends: Sequence[float]
) -> NodeBill:
    end = day_ends[-1:]
    return NodeBill(
        node_hours=node_hours,
        usd_per_day=usd_per_day(series, rates.assumed, day_ends),
        usd_on_demand=total(usd_per_day(series, rates.on_demand, end)),
        usd_with_spot=None if rates.with_spot is None else total(usd_per_day(series, rates.with_spot, end)),
    )


def total(usd_per_day: Sequence[float]) -> float | None:
    """Return the sum of all days; None without days, since the dollars are then unknown."""
    return sum(usd_per_day) if usd_per_day else None


def usd_per_day(series: ClusterSeries, rates: Mapping[str, GroupRate], day_ends: Sequence[float]) -> tuple[float, ...]:
    """Dollars of each day; empty if a group without a rate had a node. `day_ends`: seconds, increasing; the last one
    ends the series.
    """
    if any(group not in rates and any(counts) for group, counts in series.nodes.items()):
        return ()
    priced = [(rates[group], counts) for group, counts in series.nodes.items() if group in rates]
    days = [0.0] * len(day_ends)
    day = 0
    steps = _steps(series)
    for i, stop in zip(steps, (*(series.at[i] for i in steps[1:]), day_ends[-1]), strict=True):
        begin = series.at[i]
        usd_per_s = sum(rate.usd_per_hour(counts[i]) for rate, counts in priced) / 3600
        at = begin
        while at < stop:
            until = min(stop, day_ends[day])
            days[day] += usd_per_s * (until - at)
            day += until == day_ends[day]
            at = until
    return tuple(days)


def _steps(series: ClusterSeries) -> list[int]:
    """The samples at which the nodes change; most others only count jobs."""
    counts = list(zip(*series.nodes.values(), strict=True))
    return [i for i in range(len(series.at)) if i == 0 or (counts and counts[i] != counts[i - 1])]


def day_ends(start: datetime, timezone: str, end_s: float) -> tuple[float, ...]:
    """Seconds from `start` at which a local calendar day, or the replay, ends: one per day touched, increasing."""
    begin = start.astimezone(UTC)
    ends: list[float] = []
    day = start.date()
    while not ends or ends[-1] < end_s:
        day += timedelta(days=1)
        midnight = (wall_to_instant(timezone, day, 0, last=False) - begin).total_seconds()
        if midnight > 0:
            ends.append(min(midnight, end_s))
    return tuple(ends)


def open_spans(hours: BusinessHours, start: datetime, end_s: float) -> tuple[tuple[float, float], ...]:
    """Business hours in seconds from `start`, clipped to the replay."""
    begin = start.astimezone(UTC)
    spans = hours.open_spans(begin, begin + timedelta(seconds=end_s))
    return tuple(
        (max(0.0, (span.start - begin).total_seconds()), min(end_s, (span.end - begin).total_seconds()))
        for span in spans
    )
