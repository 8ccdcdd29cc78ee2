"""Which nodes would carry the pods of each group cheaper, at the sizes that are advised.

Other types are tried with every lowering that the evidence allows, since a smaller node is often what makes it worth
anything; they then come together. A fixed group is told of and left as it is: other types replace its nodes, which
moves the pods that are never moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.advice.sizes.containers import Container
from ebbtide.advice.sizes.ran import Ran
from ebbtide.advice.sizes.shapes import LEAST_GAIN, Shape, Stay, cheaper, most_nodes, shape_of
from ebbtide.labels import NodeKind
from ebbtide.prices import NoPrice
from ebbtide.settings.checks.draft import GROUPS
from ebbtide.settings.file.problems import value_at
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.patch import Change
from ebbtide.settings.placement import fits, node_of
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.units.money import HOURS_PER_MONTH, dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """The pods of one container: as the file has them, as advised, and with every lowering that may be."""

    of: Container
    group: str  # that they ran on
    before: PodSize
    after: PodSize
    lowest: PodSize


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAdvice:
    name: str
    kind: NodeKind
    hours: float  # of the evidence
    now: Shape | None  # None: a pod that ran does not fit the file's nodes any more
    sized: Shape | None  # the same nodes, the advised sizes
    other: Shape | None  # other nodes, if they save enough
    most: int  # `max` with other nodes

    @property
    def in_patch(self) -> bool:
        return self.other is not None and self.kind is not NodeKind.FIXED

    def monthly(self, shape: Shape | None) -> float | None:
        return None if shape is None else shape.usd / self.hours * HOURS_PER_MONTH


def group_advice(
    settings: StackSettings, ran: Sequence[Ran], hours: float, sized: Sequence[Sized]
) -> Iterator[GroupAdvice]:
    """Of groups that had pods. A group without a price is left out, for `NoPrice` is raised."""
    for name, group in settings.node_groups.items():
        here = [it for it in ran if it.group == name]
        if here:
            yield _advice(settings, name, group, here, hours, sized)


def _advice(
    settings: StackSettings,
    name: str,
    group: NodeGroupSettings,
    ran: Sequence[Ran],
    hours: float,
    sized: Sequence[Sized],
) -> GroupAdvice:
    fixed = group.kind is NodeKind.FIXED
    before, after, lowest = (
        {(it.of.place.namespace, it.of.place.workload): size for it in sized for size in [getattr(it, part)]}
        for part in ("before", "after", "after" if fixed else "lowest")
    )
    region, types = settings.region, group.instance_types
    now = shape_of(group, region, _stays(ran, before, hours), hours, types)
    then = shape_of(group, region, _stays(ran, after, hours), hours, types)
    node = node_of(group)
    may_come = [
        lowest[it.of.place.namespace, it.of.place.workload]
        for it in sized
        if it.of.group == name or (not it.of.group and it.of.kind is group.kind and fits(it.after, node))
    ]
    other = cheaper(group, region, _stays(ran, lowest, hours), hours, may_come)
    if other is not None and (then is None or other.usd > then.usd * (1 - LEAST_GAIN)):
        other = None
    most = group.max if other is None else most_nodes(group, other.types, len(settings.cluster.zones))
    return GroupAdvice(name=name, kind=group.kind, hours=hours, now=now, sized=then, other=other, most=most)


def _stays(ran: Sequence[Ran], sizes: Mapping[tuple[str, str], PodSize], hours: float) -> list[Stay]:
    """In hours from the beginning."""
    return [
        (hours - it.start, hours - it.end, sizes.get((it.namespace, it.workload), it.size)) for it in ran if it.hours > 0
    ]


def group_changes(settings: StackSettings, config: Mapping[str, object], it: GroupAdvice) -> Iterator[Change]:
    if it.other is None or not it.in_patch:
        return
    saved = (it.monthly(it.sized) or 0.0) - (it.monthly(it.other) or 0.0)
    reason = f"what ran would cost {dollars(saved)} a month less there; its nodes are replaced"
    at = (GROUPS, it.name, "instanceTypes")
    yield Change(at=at, before=value_at(config, at), after=list(it.other.types), reason=reason)
    if it.most != settings.node_groups[it.name].max:
        at = (GROUPS, it.name, "max")
        yield Change(at=at, before=value_at(config, at), after=it.most, reason="as much room at most as before")


def missing_prices(settings: StackSettings) -> str:
    """Why there is no advice on nodes; empty where there may be."""
    from ebbtide.advice.sizes.shapes import price

    for group in settings.node_groups.values():
        try:
            price(group.kind, settings.region, group.instance_types)
        except NoPrice as error:
            return str(error)
    return ""
