"""How many nodes each group could have and had in a month. Pure.

A stack file may have changed since the month. Its `max` counts only where `ebbtide_group_max_nodes` was not recorded,
and its `min` only up to the nodes that usually ran.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from ebbtide.lab.ledger.lives import Span
from ebbtide.lab.ledger.month import Amount, Hourly
from ebbtide.lab.ledger.reading import PRICE_STEP, Steps
from ebbtide.settings.capacity.node_sets import sets_without_autoscaler
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import number_of

_RARE = 0.05
"""Share of hours in which a group may have fewer nodes than usual: nodes that are replaced are missing for minutes."""
_ROUNDING = 0.05  # of a node: an hour's mean without the minutes of one replacement
_LEAST_OF_HOUR = 0.5  # recorded share from which on an hour's mean says how many nodes ran


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSizes:
    """Numbers of nodes by group. `stated`: the file's `max`; `most` and `least`: nodes at once, ever and usually."""

    stated: Mapping[str, int]
    recorded: Mapping[str, Steps]
    most: Mapping[str, int]
    least: Mapping[str, int]

    def was_recorded(self, group: str, since: float) -> bool:
        steps = self.recorded.get(group, ())
        return bool(steps) and steps[0][0] <= since

    def max_within(self, group: str, span: Span) -> int:
        """Return a group's highest `max` in a span: the recorded one, or the higher of the file's and the month's most.

        The first sample after the span counts, too: a change within it is seen there.
        """
        recorded = _values_within(self.recorded.get(group, ()), (span[0], span[1] + PRICE_STEP.total_seconds()))
        if self.was_recorded(group, span[0]):
            return round(max(recorded))
        return round(max(self.stated.get(group, 0), self.most.get(group, 0), *recorded))

    def of_month(self, settings: StackSettings, span: Span) -> tuple[StackSettings, tuple[str, ...]]:
        """Return the stack whose groups have the sizes of the month, and a sentence for those that differ by the file.

        `settings` are with node groups. A lower `max` removes no node, so a group never has less than ran at once. A
        set of an existing cluster without an autoscaler has the nodes that ran. If their number changed, something
        scales it, and so does the replay.
        """
        groups, texts = dict(settings.node_groups), list[str]()
        constant = sets_without_autoscaler(settings)
        for name, group in settings.node_groups.items():
            ran, usual = self.most.get(name, 0), self.least.get(name, 0)
            least = usual if name in constant else min(group.min, usual)
            most = ran if name in constant else max(ran, self.max_within(name, span))
            groups[name] = group.model_copy(update={"min": least, "max": most})
            if name in constant and (least, most) != (group.min, group.max):
                numbers = f"{most}" if least == most else f"{least} to {most}"
                texts.append(f"{name} had {numbers} nodes, and {group.max} by the stack file, without an autoscaler")
                continue
            if most != group.max:
                texts.append(f"{name} may have {number_of(most, 'node')} as in the month, max is {group.max} by now")
            if least != group.min:
                texts.append(f"{name} keeps {number_of(least, 'node')} as in the month, min is {group.min} by now")
        return settings.model_copy(update={"node_groups": groups}), tuple(texts)


def usual_least(hourly: Hourly, recorded: Mapping[int, float]) -> Mapping[str, int]:
    """Return the nodes that each group had at least in all but a few recorded hours."""
    hours = [hour for hour, share in recorded.items() if share >= _LEAST_OF_HOUR]
    return {
        group: _usual([hourly.get((group, hour), Amount()).hours / recorded[hour] for hour in hours])
        for group in sorted({group for group, _ in hourly})
    }


def _usual(means: Sequence[float]) -> int:
    ordered = sorted(means)
    return int(ordered[int(len(ordered) * _RARE)] + _ROUNDING) if ordered else 0


def _values_within(steps: Steps, span: Span) -> Iterator[float]:
    first = max(0, bisect_right(steps, (span[0], inf)) - 1)
    yield from (value for at, value in steps[first:] if at <= span[1])
