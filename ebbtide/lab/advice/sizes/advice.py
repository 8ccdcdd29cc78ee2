"""Turn recordings into advice on a stack file: requests first, then the nodes that carry them. Pure.

A request is lowered only if one more of the pods then fits on a node, or if cheaper nodes need it: lowering without a
gain is only a risk.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ebbtide.lab.advice.sizes.changes import changes_of_container, gpu_change
from ebbtide.lab.advice.sizes.containers import Container, ContainerLabels, containers
from ebbtide.lab.advice.sizes.evidence import Confidence, ContainerUsage, Evidence, confidence
from ebbtide.lab.advice.sizes.groups import GroupAdvice, Sized, group_advice, group_changes
from ebbtide.lab.advice.sizes.reading import RecordedPod, RecordedUsage
from ebbtide.lab.advice.sizes.rules import ResourceName, SizeVerdict, decide
from ebbtide.lab.advice.sizes.shapes import price
from ebbtide.prices import Capacity, NoPrice, estimates_text
from ebbtide.settings.capacity.placement import copies, fits, gpu_memory, node_of, suits
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.patch import Change
from ebbtide.text.money import HOURS_PER_MONTH

Recommended: TypeAlias = Mapping[ContainerLabels, Mapping[ResourceName, int]]
"""Recommendations of a Vertical Pod Autoscaler."""
Verdicts: TypeAlias = Mapping[ResourceName, SizeVerdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRow:
    """One container. `saves`: US dollars a month, negative if it costs more; None if unknown."""

    container: Container
    use: ContainerUsage
    verdicts: Verdicts
    pods: float  # mean number
    group: str  # of the nodes that the pods ran on; empty if unknown
    saves: float | None
    confidence: Confidence | None  # None without evidence
    recommended: Mapping[ResourceName, int]

    @property
    def changes(self) -> bool:
        return any(verdict.changes for verdict in self.verdicts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesAdvice:
    stack: str
    customer: str
    source: str
    evidence: Evidence
    rows: Sequence[SizeRow]
    groups: Sequence[GroupAdvice]
    changes: Sequence[Change]
    missing: Mapping[str, str]  # unknown facts, each with the reason


def advise(
    settings: StackSettings,
    config: Mapping[str, object],
    recorded: RecordedUsage,
    evidence: Evidence,
    recommended: Recommended | None = None,
) -> SizesAdvice:
    """Advise on each container and node group; `config` is the file's content below `config:`."""
    missing = dict(recorded.missing)
    hours = max((pod.start for pod in recorded.pods), default=0.0)
    drafts = [_draft(settings, container, recorded, hours, evidence) for container in containers(settings)]
    groups = list(group_advice(settings, recorded.pods, hours, [_sized(draft, evidence) for draft in drafts]))
    missing |= {f"what nodes of {group.name} cost": group.unpriced for group in groups if group.unpriced}
    types = [kind for group in settings.node_groups.values() for kind in group.types]
    if estimates := estimates_text(settings.region, types):
        missing["list prices"] = estimates
    replaced = {group.name for group in groups if group.in_patch}
    rows: list[SizeRow] = []
    for draft in drafts:
        verdicts = draft.by_rules if draft.group in replaced else _fitting(settings, draft)
        rows.append(
            SizeRow(
                container=draft.container,
                use=draft.use,
                verdicts=verdicts,
                pods=draft.pods,
                group=draft.group,
                saves=_saves(settings, draft, verdicts),
                confidence=_confidence(draft.use, evidence),
                recommended=(recommended or {}).get(draft.container.place, {}),
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
class _Draft:
    """Verdicts on a container before other nodes are considered: the rules', and those worth doing on present nodes."""

    container: Container
    use: ContainerUsage
    by_rules: Verdicts
    worthwhile: Verdicts
    group: str
    pods: float


def _draft(
    settings: StackSettings, container: Container, recorded: RecordedUsage, hours: float, evidence: Evidence
) -> _Draft:
    place = container.place
    use = recorded.uses[place]
    by_rules = {resource: decide(resource, container.requests, use, evidence) for resource in ResourceName}
    pods = [pod for pod in recorded.pods if (pod.namespace, pod.workload) == (place.namespace, place.workload)]
    group = _main_group(pods)
    node = node_of(settings.node_groups[group]) if group in settings.node_groups else None
    return _Draft(
        container=container,
        use=use,
        by_rules=by_rules,
        worthwhile=by_rules if node is None else _worthwhile(container, by_rules, node, group),
        group=group,
        pods=sum(pod.hours for pod in pods) / hours if hours else 0.0,
    )


def _fitting(settings: StackSettings, draft: _Draft) -> Verdicts:
    """Drop raises that exceed every node's capacity: such a pod would stay pending."""
    container, verdicts = draft.container, draft.worthwhile
    nodes = [
        node_of(group)
        for name, group in settings.node_groups.items()
        if name == container.group
        or (not container.group and group.kind is container.kind and suits(group, container.pod))
    ]
    if not nodes or any(fits(_size(container, verdicts), node) for node in nodes):
        return verdicts
    return {
        resource: _too_large(verdict) if verdict.to > verdict.now else verdict for resource, verdict in verdicts.items()
    }


def _too_large(verdict: SizeVerdict) -> SizeVerdict:
    amount = verdict.resource.text(verdict.to)
    reason = f"{verdict.reason}; {amount} fits no node of its groups: they need larger nodes"
    return replace(verdict, to=verdict.now, reason=reason)


def _sized(draft: _Draft, evidence: Evidence) -> Sized:
    return Sized(
        container=draft.container,
        group=draft.group,
        enough_evidence=draft.use.days >= evidence.least,
        before=draft.container.size,
        after=_size(draft.container, draft.worthwhile),
        lowest=_size(draft.container, draft.by_rules),
    )


def _main_group(pods: Sequence[RecordedPod]) -> str:
    """Return the group with most of the pods' hours."""
    hours: dict[str, float] = {}
    for pod in pods:
        hours[pod.group] = hours.get(pod.group, 0.0) + pod.hours
    return max(sorted(hours), key=lambda group: hours[group], default="")


def _worthwhile(container: Container, verdicts: Verdicts, node: Capacity, group: str) -> Verdicts:
    """Drop the lowerings that let no further pod onto a node."""
    lowered = [resource for resource, verdict in verdicts.items() if verdict.lowers]

    def pods_per_node(lowered: Sequence[ResourceName]) -> int:
        applied = {key: verdict for key, verdict in verdicts.items() if key in lowered or not verdict.lowers}
        return copies(_size(container, applied), node)

    useful = lowered
    for resource in lowered:
        others = [candidate for candidate in useful if candidate is not resource]
        if pods_per_node(others) == pods_per_node(useful):
            useful = others
    return {
        key: verdict if key in useful or not verdict.lowers else _saves_nothing(verdict, group)
        for key, verdict in verdicts.items()
    }


def _saves_nothing(verdict: SizeVerdict, group: str) -> SizeVerdict:
    amount = verdict.resource.text(verdict.to)
    return replace(verdict, to=verdict.now, reason=f"{amount} would suffice, but save nothing on nodes of {group}")


def _size(container: Container, verdicts: Verdicts) -> PodSize:
    """Return the pod's total size with these verdicts applied."""
    cpu, memory = (
        verdicts[resource].to if resource in verdicts else container.requests.amount(resource)
        for resource in (ResourceName.CPU, ResourceName.MEMORY)
    )
    return container.with_requests(cpu, memory).size


def _saves(settings: StackSettings, draft: _Draft, verdicts: Verdicts) -> float | None:
    """Price a pod by its share of a node's scarcest resource, as in `ebbtide.settings.capacity.placement`."""
    group = settings.node_groups.get(draft.group)
    if group is None:
        return None
    node = node_of(group)
    before, after = (copies(size, node) for size in (draft.container.size, _size(draft.container, verdicts)))
    try:
        usd = price(group, settings.region)
    except NoPrice:
        return None
    return usd * (1 / before - 1 / after) * draft.pods * HOURS_PER_MONTH if before and after else None


def _confidence(use: ContainerUsage, evidence: Evidence) -> Confidence | None:
    if use.days < evidence.least:
        return None
    order = list(Confidence)
    levels = [confidence(figure, use.days, evidence) for figure in (use.cpu, use.memory) if figure is not None]
    return max(levels, key=order.index, default=None)


def _changes(
    settings: StackSettings,
    config: Mapping[str, object],
    rows: Sequence[SizeRow],
    groups: Sequence[GroupAdvice],
    evidence: Evidence,
) -> Iterator[Change]:
    for row in rows:
        yield from changes_of_container(config, row.container, row.verdicts)
        group = settings.node_groups.get(row.group)
        most = gpu_memory(group) if group is not None else None
        change = gpu_change(config, row.container, row.use, evidence, most)
        if change is not None:
            yield change
    for group in groups:
        yield from group_changes(settings, config, group)
