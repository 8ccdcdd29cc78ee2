"""From what was recorded to advice on a stack file: requests first, then the nodes that carry them. Pure.

A container is lowered only where one more of its pods then fits on a node, or where other nodes are cheaper that ask
for it: a limit that is lowered for nothing is only a risk.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ebbtide.advice.sizes.changes import changes_of_container
from ebbtide.advice.sizes.containers import Container, Place, containers
from ebbtide.advice.sizes.evidence import Confidence, Evidence, Use, confidence
from ebbtide.advice.sizes.gpus import gpu_change
from ebbtide.advice.sizes.groups import GroupAdvice, Sized, group_advice, group_changes
from ebbtide.advice.sizes.ran import Ran
from ebbtide.advice.sizes.reading import Recorded
from ebbtide.advice.sizes.rules import Resource, Verdict, decide
from ebbtide.advice.sizes.shapes import price
from ebbtide.prices import Capacity, NoPrice
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.patch import Change
from ebbtide.settings.placement import copies, fits, gpu_memory, node_of, suits
from ebbtide.units.money import HOURS_PER_MONTH

Recommended: TypeAlias = Mapping[Place, Mapping[Resource, int]]
"""What a Vertical Pod Autoscaler recommends."""
Verdicts: TypeAlias = Mapping[Resource, Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One container. `saves`: US dollars a month, less than nothing where it costs more; None where nobody knows."""

    of: Container
    use: Use
    verdicts: Verdicts
    pods: float  # in the mean
    group: str  # that they ran on; empty where that is not known
    saves: float | None
    confidence: Confidence | None  # None without evidence
    recommended: Mapping[Resource, int]

    @property
    def changes(self) -> bool:
        return any(it.changes for it in self.verdicts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesAdvice:
    stack: str
    customer: str
    source: str
    evidence: Evidence
    rows: Sequence[Row]
    groups: Sequence[GroupAdvice]
    changes: Sequence[Change]
    missing: Mapping[str, str]  # what is not known, each with why


def advise(
    settings: StackSettings,
    config: Mapping[str, object],
    recorded: Recorded,
    evidence: Evidence,
    recommended: Recommended | None = None,
) -> SizesAdvice:
    """`config` is what the file has below `config:`."""
    missing = dict(recorded.missing)
    hours = max((it.start for it in recorded.ran), default=0.0)
    found = [_first(settings, it, recorded, hours, evidence) for it in containers(settings)]
    groups: list[GroupAdvice] = []
    try:
        sized = [_sized(it, evidence) for it in found]
        groups = list(group_advice(settings, recorded.ran, hours, sized))
    except NoPrice as error:
        missing["what nodes cost"] = str(error)
    renewed = {it.name for it in groups if it.in_patch}
    rows: list[Row] = []
    for it in found:
        verdicts = it.told if it.group in renewed else _within(settings, it)
        rows.append(
            Row(
                of=it.of,
                use=it.use,
                verdicts=verdicts,
                pods=it.pods,
                group=it.group,
                saves=_saves(settings, it, verdicts),
                confidence=_confidence(it.use, evidence),
                recommended=(recommended or {}).get(it.of.place, {}),
            )
        )
    return SizesAdvice(
        stack=settings.stack,
        customer=settings.customer,
        source=recorded.source,
        evidence=evidence,
        rows=rows,
        groups=groups,
        changes=tuple(_changes(settings, config, rows, groups, evidence)),
        missing=missing,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    """A container before its nodes are looked at: all that the rules say, and what of it is worth doing by itself."""

    of: Container
    use: Use
    told: Verdicts
    kept: Verdicts
    group: str
    pods: float


def _first(settings: StackSettings, it: Container, recorded: Recorded, hours: float, evidence: Evidence) -> _First:
    use = recorded.uses[it.place]
    told = {resource: decide(resource, it.asked, use, evidence) for resource in Resource}
    ran = [one for one in recorded.ran if (one.namespace, one.workload) == (it.place.namespace, it.place.workload)]
    group = _home(ran)
    node = node_of(settings.node_groups[group]) if group in settings.node_groups else None
    return _First(
        of=it,
        use=use,
        told=told,
        kept=told if node is None else _worth(it, told, node, group),
        group=group,
        pods=sum(one.hours for one in ran) / hours if hours else 0.0,
    )


def _within(settings: StackSettings, it: _First) -> Verdicts:
    """Without what no node has room for: a pod that asks for it would wait for ever."""
    nodes = [
        node_of(group)
        for name, group in settings.node_groups.items()
        if name == it.of.group or (not it.of.group and group.kind is it.of.kind and suits(group, it.of.pod))
    ]
    if not nodes or any(fits(_size(it.of, it.kept), node) for node in nodes):
        return it.kept
    return {resource: _too_large(one) if one.to > one.now else one for resource, one in it.kept.items()}


def _too_large(verdict: Verdict) -> Verdict:
    wanted = verdict.resource.text(verdict.to)
    return replace(
        verdict, to=verdict.now, reason=f"{verdict.reason}; {wanted} fits no node of its groups: larger ones"
    )


def _sized(it: _First, evidence: Evidence) -> Sized:
    return Sized(
        of=it.of,
        group=it.group,
        known=it.use.days >= evidence.least,
        before=it.of.size,
        after=_size(it.of, it.kept),
        lowest=_size(it.of, it.told),
    )


def _home(ran: Sequence[Ran]) -> str:
    """The group with most of its pods' hours."""
    hours: dict[str, float] = {}
    for it in ran:
        hours[it.group] = hours.get(it.group, 0.0) + it.hours
    return max(sorted(hours), key=lambda group: hours[group], default="")


def _worth(it: Container, told: Verdicts, node: Capacity, group: str) -> Verdicts:
    """Without those lowerings that let no further pod onto a node."""
    lowered = [resource for resource, verdict in told.items() if verdict.lowers]

    def fitting(kept: Sequence[Resource]) -> int:
        return copies(_size(it, {key: one for key, one in told.items() if key in kept or not one.lowers}), node)

    kept = lowered
    for resource in lowered:
        rest = [other for other in kept if other is not resource]
        if fitting(rest) == fitting(kept):
            kept = rest
    return {key: one if key in kept or not one.lowers else _left(one, group) for key, one in told.items()}


def _left(verdict: Verdict, group: str) -> Verdict:
    amount = verdict.resource.text(verdict.to)
    return replace(verdict, to=verdict.now, reason=f"{amount} would do, and save nothing on nodes of {group}")


def _size(it: Container, verdicts: Verdicts) -> PodSize:
    """Of a whole pod once these verdicts are followed."""
    asked = {
        resource: verdicts[resource].to if resource in verdicts else it.asked.amount(resource) for resource in Resource
    }
    return it.with_requests(asked[Resource.CPU], asked[Resource.MEMORY]).size


def _saves(settings: StackSettings, it: _First, verdicts: Verdicts) -> float | None:
    """A pod costs its share of a node, that of the nearest resource, as in `ebbtide.settings.placement`."""
    group = settings.node_groups.get(it.group)
    if group is None:
        return None
    node = node_of(group)
    before, after = (copies(size, node) for size in (it.of.size, _size(it.of, verdicts)))
    try:
        usd = price(group.kind, settings.region, group.instance_types)
    except NoPrice:
        return None
    return usd * (1 / before - 1 / after) * it.pods * HOURS_PER_MONTH if before and after else None


def _confidence(use: Use, evidence: Evidence) -> Confidence | None:
    if use.days < evidence.least:
        return None
    order = list(Confidence)
    found = [confidence(figure, use.days, evidence) for figure in (use.cpu, use.memory) if figure is not None]
    return max(found, key=order.index, default=None)


def _changes(
    settings: StackSettings,
    config: Mapping[str, object],
    rows: Sequence[Row],
    groups: Sequence[GroupAdvice],
    evidence: Evidence,
) -> Iterator[Change]:
    for row in rows:
        yield from changes_of_container(config, row.of, row.verdicts)
        group = settings.node_groups.get(row.group)
        most = gpu_memory(group.instance_types) if group is not None else None
        change = gpu_change(config, row.of, row.use, evidence, most)
        if change is not None:
            yield change
    for group in groups:
        yield from group_changes(settings, config, group)
