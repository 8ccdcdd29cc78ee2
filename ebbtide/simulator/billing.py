"""The bill of a replay: what the nodes of a series cost, local day by local day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.prices import GroupRate
from ebbtide.simulator.results import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What the nodes cost: hours by group in the replay, dollars by local day."""

    node_hours: Mapping[str, float]
    usd_per_day: tuple[float, ...]


def usd_per_day(series: Series, rates: Mapping[str, GroupRate], day_ends: Sequence[float]) -> tuple[float, ...]:
    """Dollars of each day. `day_ends` are seconds that increase, the last one the end of the series."""
    days = [0.0] * len(day_ends)
    day = 0
    for i, (begin, stop) in enumerate(zip(series.at, (*series.at[1:], day_ends[-1]), strict=True)):
        usd_per_s = sum(rates[group].usd_per_hour(counts[i]) for group, counts in series.nodes.items()) / 3600
        at = begin
        while at < stop:
            until = min(stop, day_ends[day])
            days[day] += usd_per_s * (until - at)
            day += until == day_ends[day]
            at = until
    return tuple(days)
