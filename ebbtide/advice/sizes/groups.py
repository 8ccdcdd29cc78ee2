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
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.file.keys import GROUPS
from ebbtide.settings.file.problems import value_at
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.patch import Change
from ebbtide.settings.placement import fits, node_of, suits
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.units.money import HOURS_PER_MONTH, dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """The pods of one container: as the file has them, as advised, and with every lowering that may be."""

    of: Container
    group: str  # that they ran on
    known: bool  # whether there is enough evidence
    before: PodSize
    after: PodSize
    lowest: PodSize

    @property
    def pods(self) -> tuple[str, str]:
        return self.of.place.namespace, self.of.place.workload


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAdvice:
    name: str
    kind: NodeKind
    hours: float  # of the evidence
    now: Shape | None  # None: a pod that ran does not fit the file's nodes any more
    sized: Shape | None  # the same nodes, the advised sizes
    other: Shape | None  # other nodes, if they save enough
    most: int  # `max` with other nodes
    why: str = ""  # there is nothing to say of other nodes

    @property
    def in_patch(self) -> bool:
        return self.other is not None and self.kind is not NodeKind.FIXED

    def monthly(self, shape: Shape | None) -> float | None:
        return None if shape is None else shape.usd / self.hours * HOURS_PER_MONTH


def group_advice(
    settings: StackSettings, ran: Sequence[Ran], hours: float, sized: Sequence[Sized]
) -> Iterator[GroupAdvice]:
    """Of groups that had pods, over so many hours. Raises `NoPrice`."""
    for name, group in settings.node_groups.items():
        here = [it for it in ran if it.group == name]
        if here:
            yield _Trial(settings, name, group, here, hours, sized).advice()


@dataclass(frozen=True, slots=True)
class _Trial:
    settings: StackSettings
    name: str
    group: NodeGroupSettings
    ran: Sequence[Ran]
    hours: float
    sized: Sequence[Sized]

    def advice(self) -> GroupAdvice:
        before, after = (self._on(self.group.instance_types, self._stays(part)) for part in ("before", "after"))
        why = self._unknown()
        other = None if why else self._other(after)
        most = self.group.max if other is None else most_nodes(self.group, other.types, self._zones)
        return GroupAdvice(
            name=self.name,
            kind=self.group.kind,
            hours=self.hours,
            now=before,
            sized=after,
            other=other,
            most=most,
            why=why or ("" if other else "none cheaper"),
        )

    def _other(self, after: Shape | None) -> Shape | None:
        part = "after" if self.group.kind is NodeKind.FIXED else "lowest"
        may_come = [getattr(it, part) for it in self._may_come()]
        region = self.settings.region
        found = cheaper(self.group, region, self._stays(part), self.hours, may_come, self._least)
        enough = found is not None and (after is None or found.usd <= after.usd * (1 - LEAST_GAIN))
        return found if enough else None

    def _on(self, types: tuple[str, ...], stays: Sequence[Stay]) -> Shape | None:
        return shape_of(self.group, self.settings.region, stays, self.hours, types, self._least)

    def _stays(self, part: str) -> list[Stay]:
        """In hours from the beginning; pods of nobody in the file at the size that they had."""
        sizes: dict[tuple[str, str], PodSize] = {it.pods: getattr(it, part) for it in self.sized}
        return [
            (self.hours - it.start, self.hours - it.end, sizes.get((it.namespace, it.workload), it.size))
            for it in self.ran
            if it.hours > 0
        ]

    def _may_come(self) -> Iterator[Sized]:
        node = node_of(self.group)
        for it in self.sized:
            of_kind = it.of.kind is self.group.kind and suits(self.group, it.of.pod)
            anywhere = not it.of.group and of_kind and fits(it.after, node)
            if it.of.group == self.name or anywhere:
                yield it

    def _unknown(self) -> str:
        """Of what runs always and has not been seen for long enough: nodes without it would be too small for it."""
        here = {(it.namespace, it.workload) for it in self.ran}
        if not any(it.known for it in self.sized if it.pods in here):
            return "not enough evidence yet"
        missing = [it.of.path for it in self._may_come() if it.of.always and not it.known]
        if not missing:
            return ""
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"not enough evidence yet of {missing[0]}{others}"

    @property
    def _least(self) -> int:
        """With several pods of one workload at least two nodes: they are apart for a reason."""
        here = {(it.namespace, it.workload) for it in self.ran}
        several = any(it.of.several and it.pods in here for it in self.sized)
        return max(self.group.min, 2 if several else 0)

    @property
    def _zones(self) -> int:
        return len(self.settings.cluster.zones)


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
