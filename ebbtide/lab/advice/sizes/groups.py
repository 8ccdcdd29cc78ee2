"""Find nodes that would carry each group's pods cheaper, at the advised sizes.

Other types are tried with every lowering that the evidence allows, since lowering often pays only on smaller nodes; the
patch then contains both. A fixed group is reported but not changed: other types replace its nodes, which would move
pods that are never moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.lab.advice.sizes.containers import Container
from ebbtide.lab.advice.sizes.reading import RecordedPod
from ebbtide.lab.advice.sizes.shapes import LEAST_GAIN, Shape, Stay, cheaper, most_nodes, shape_of
from ebbtide.prices import NoPrice
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import fits, node_of, suits
from ebbtide.settings.file.keys import GROUPS
from ebbtide.settings.file.problems import value_at
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.patch import Change
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.text.money import HOURS_PER_MONTH, dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """Pod sizes of one container: present, advised, and with every allowed lowering."""

    container: Container
    group: str  # of the nodes that the pods ran on
    enough_evidence: bool
    before: PodSize
    after: PodSize
    lowest: PodSize

    @property
    def workload(self) -> tuple[str, str]:
        return self.container.place.namespace, self.container.place.workload


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAdvice:
    name: str
    kind: NodeKind
    hours: float  # of the evidence
    now: Shape | None  # None: a recorded pod does not fit the file's present nodes
    sized: Shape | None  # the same nodes, the advised sizes
    other: Shape | None  # other nodes, if they save enough
    most: int  # `max` with other nodes
    why: str = ""  # the reason why no other nodes are advised
    unpriced: str = ""  # the reason why a node has no price; then there are no shapes

    @property
    def in_patch(self) -> bool:
        return self.other is not None and self.kind is not NodeKind.FIXED

    def monthly(self, shape: Shape | None) -> float | None:
        return None if shape is None else shape.usd / self.hours * HOURS_PER_MONTH


def group_advice(
    settings: StackSettings, pods: Sequence[RecordedPod], hours: float, sized: Sequence[Sized]
) -> Iterator[GroupAdvice]:
    """Advise on each group that had pods in the last `hours` hours."""
    for name, group in settings.node_groups.items():
        of_group = [pod for pod in pods if pod.group == name]
        if of_group:
            yield _Trial(settings, name, group, of_group, hours, sized).advice()


@dataclass(frozen=True, slots=True)
class _Trial:
    settings: StackSettings
    name: str
    group: NodeGroupSettings
    pods: Sequence[RecordedPod]
    hours: float
    sized: Sequence[Sized]

    def advice(self) -> GroupAdvice:
        unpriced, now, after, other, why = "", None, None, None, self._lacking_evidence()
        try:
            types, region = self.group.instance_types, self.settings.region
            now, after = (
                shape_of(self.group, region, self._stays(part), self.hours, types, self._least)
                for part in ("before", "after")
            )
            other = None if why else self._other(after)
            why = why or ("" if other else "none cheaper")
        except NoPrice as error:
            unpriced, why, now, after = str(error), "no price", None, None
        return GroupAdvice(
            name=self.name,
            kind=self.group.kind,
            hours=self.hours,
            now=now,
            sized=after,
            other=other,
            most=self.group.max if other is None else most_nodes(self.group, other.types, self._zones),
            why=why,
            unpriced=unpriced,
        )

    def _other(self, after: Shape | None) -> Shape | None:
        part = "after" if self.group.kind is NodeKind.FIXED else "lowest"
        eligible = [getattr(sized, part) for sized in self._eligible()]
        region = self.settings.region
        shape = cheaper(self.group, region, self._stays(part), self.hours, eligible, self._least)
        enough = shape is not None and (after is None or shape.usd <= after.usd * (1 - LEAST_GAIN))
        return shape if enough else None

    def _stays(self, part: str) -> list[Stay]:
        """Return stays in hours from the beginning; pods that the file does not name keep the size that they had."""
        sizes: dict[tuple[str, str], PodSize] = {sized.workload: getattr(sized, part) for sized in self.sized}
        return [
            (self.hours - pod.start, self.hours - pod.end, sizes.get((pod.namespace, pod.workload), pod.size))
            for pod in self.pods
            if pod.hours > 0
        ]

    def _eligible(self) -> Iterator[Sized]:
        """Yield the containers whose pods may run on this group."""
        node = node_of(self.group)
        for sized in self.sized:
            container = sized.container
            suitable = (
                container.kind is self.group.kind and suits(self.group, container.pod) and fits(sized.after, node)
            )
            if container.group == self.name or (not container.group and suitable):
                yield sized

    def _lacking_evidence(self) -> str:
        """Name permanent pods without enough evidence: nodes chosen without them would be too small."""
        if self.group.shape is not None:
            return "its shape in the stack file describes its nodes"
        if not any(sized.enough_evidence for sized in self.sized if sized.workload in self._workloads):
            return "not enough evidence yet"
        missing = [
            sized.container.path for sized in self._eligible() if sized.container.always and not sized.enough_evidence
        ]
        if not missing:
            return ""
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"not enough evidence yet of {missing[0]}{others}"

    @property
    def _least(self) -> int:
        """Fewest nodes: two for a workload with several pods, which are spread over nodes on purpose."""
        several = any(sized.container.several and sized.workload in self._workloads for sized in self.sized)
        return max(self.group.min, 2 if several else 0)

    @property
    def _workloads(self) -> set[tuple[str, str]]:
        return {(pod.namespace, pod.workload) for pod in self.pods}

    @property
    def _zones(self) -> int:
        return len(self.settings.cluster.zones)


def group_changes(settings: StackSettings, config: Mapping[str, object], advice: GroupAdvice) -> Iterator[Change]:
    if advice.other is None or not advice.in_patch:
        return
    saved = (advice.monthly(advice.sized) or 0.0) - (advice.monthly(advice.other) or 0.0)
    reason = f"the recorded pods would cost {dollars(saved)} a month less there; the group's nodes are replaced"
    at = (GROUPS, advice.name, "instanceTypes")
    yield Change(at=at, before=value_at(config, at), after=list(advice.other.types), reason=reason)
    if advice.most != settings.node_groups[advice.name].max:
        at = (GROUPS, advice.name, "max")
        reason = "the same maximum capacity as before"
        yield Change(at=at, before=value_at(config, at), after=advice.most, reason=reason)
