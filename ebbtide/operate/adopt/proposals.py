"""Turn workloads into proposed rules: a name, a selector, a guessed category with its reason, and requests. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, groupby
from typing import NamedTuple

from ebbtide.operate.adopt.facts import AdoptFacts
from ebbtide.operate.adopt.programs import DEFAULT_PLACE
from ebbtide.operate.adopt.selectors import Chosen, Other, RuleCandidate, choose
from ebbtide.operate.adopt.workloads import AdoptableWorkload, workloads_of
from ebbtide.operate.objects import at, labels_of, requested_units, rows_at
from ebbtide.recording.drainable import Item, covers
from ebbtide.settings import StackSettings
from ebbtide.settings.capacity.placement import PodSize
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.file.keys import PODS_IN
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.settings.sections.types import NAME
from ebbtide.text.counts import several
from ebbtide.vocabulary.labels import GPU_RESOURCE, PREFIX, WORKLOAD, Category

PLACEHOLDER = PodSize(cpu=100, memory=128, gpu=0)
"""Requests in a rule whose pods request nothing: small, and marked by a comment in the output."""


class Guess(NamedTuple):
    category: Category
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed rule for one workload; without a selector, `why_not` gives the reason."""

    name: str
    workload: AdoptableWorkload
    selector: Mapping[str, str]
    why_not: str
    guess: Guess
    counted_by: str  # "replicas", "pods" or "usually"
    count: int
    size: PodSize
    gpu_resource: str
    notes: tuple[str, ...]  # on placeholders and budgets

    @property
    def is_rule(self) -> bool:
        return bool(self.selector)


def proposals_of(facts: AdoptFacts, settings: StackSettings | None = None) -> list[Proposal]:
    """Return a proposal for each workload that no rule of the stack selects, by namespace and name."""
    rules: Mapping[str, AdoptedSettings] = {} if settings is None else settings.adopted
    used: set[str] = set() if settings is None else {pod.name for pod in declared_pods(settings, PODS_IN)}
    found = workloads_of(facts)
    workloads = [each for each in found if any(rule_of(pod, rules) is None for pod in each.members)]
    return [
        _proposal(_unused(workload, used), workload, choice, facts.budgets)
        for namespace, group in groupby(workloads, key=lambda each: each.namespace)
        for workload, choice in _chosen(namespace, list(group), facts, rules)
    ]


def rule_of(pod: Item, rules: Mapping[str, AdoptedSettings]) -> str | None:
    """Return the name of the rule that selects the pod."""
    namespace, labels = pod["metadata"]["namespace"], labels_of(pod)
    for name, rule in sorted(rules.items()):
        if rule.namespace == namespace and all(labels.get(key) in values for key, values in rule.selector.items()):
            return name
    return None


def _chosen(
    namespace: str, workloads: Sequence[AdoptableWorkload], facts: AdoptFacts, rules: Mapping[str, AdoptedSettings]
) -> Iterator[tuple[AdoptableWorkload, Chosen]]:
    names = {id(pod): str(workload) for workload in workloads for pod in workload.members}
    pods = [
        Other(names.get(id(pod), f"{namespace}/{pod['metadata']['name']}"), labels_of(pod))
        for pod in facts.pods
        if pod["metadata"]["namespace"] == namespace
    ]
    selectors = {name: rule.selector for name, rule in rules.items() if rule.namespace == namespace}
    candidates = [
        RuleCandidate(
            str(each),
            bool(each.pods),
            each.labels,
            each.changing,
            DEFAULT_PLACE if each.program is None else each.program.place,
        )
        for each in workloads
    ]
    yield from zip(workloads, choose(candidates, pods, selectors), strict=True)


def _proposal(name: str, workload: AdoptableWorkload, chosen: Chosen, budgets: Sequence[Item]) -> Proposal:
    guess, unscaled = guess_of(workload), workload.owner is not None and workload.owner.has_scale is False
    size, resource, notes = _requests(workload)
    by = "usually" if guess.category is Category.WORKER else "pods" if unscaled else "replicas"
    return Proposal(
        name=name,
        workload=workload,
        selector=chosen.selector,
        why_not=chosen.why_not,
        guess=guess,
        counted_by=by,
        count=len(workload.pods) if by == "usually" else _replicas(workload),
        size=size,
        gpu_resource=resource,
        notes=(
            *notes,
            *_budget_notes(workload, budgets, may_keep=guess.category is Category.FLEXIBLE and by == "replicas"),
        ),
    )


def _budget_notes(workload: AdoptableWorkload, budgets: Sequence[Item], *, may_keep: bool) -> Iterator[str]:
    for budget in budgets:
        name = budget["metadata"]["name"]
        if WORKLOAD not in labels_of(budget) and any(covers(budget, pod) for pod in workload.members):
            keep = f", or add budget: {name}" if may_keep and not rows_at(budget, "metadata", "ownerReferences") else ""
            yield f"switch off its budget {name}{keep}"


def guess_of(workload: AdoptableWorkload) -> Guess:
    """Guess the category; when in doubt, choose the one whose pods move less."""
    if workload.program is not None and workload.program.kind:
        return Guess(Category.WORKER, f"pods of a {workload.kind} are a user's session: an eviction ends it")
    if workload.owner is None:
        return Guess(Category.WORKER, "bare pods: no controller would create an evicted one again")
    if workload.is_task:
        return Guess(Category.WORKER, f"pods of a {workload.kind} run tasks: an evicted one loses its work")
    if workload.kind == "StatefulSet":
        return Guess(Category.FIXED, "a StatefulSet, which usually keeps state")
    volumes = [volume for pod in workload.pods for volume in rows_at(pod, "spec", "volumes")]
    claims = {name for volume in volumes if (name := at(volume, "persistentVolumeClaim", "claimName"))}
    if claims:
        return Guess(Category.FIXED, f"mounts {several(len(claims), 'claim')} ({min(claims)})")
    replicas = _replicas(workload)
    if replicas == 1:
        return Guess(Category.FIXED, "one replica: moving it interrupts it")
    return Guess(Category.FLEXIBLE, f"{several(replicas, 'replica')}, no claim")


def _replicas(workload: AdoptableWorkload) -> int:
    """Return the owner's `spec.replicas`, or else the number of pods, which is higher during a rollout."""
    item = None if workload.owner is None else workload.owner.item
    stated = at(item, "spec", "replicas")
    return stated if isinstance(stated, int) and stated > 0 else len(workload.pods)


def _requests(workload: AdoptableWorkload) -> tuple[PodSize, str, tuple[str, ...]]:
    """Return the largest requests of any pod, the GPU resource name, and notes on placeholders."""
    pods = workload.pods or workload.members
    resource = _gpu_resource(pods)
    cpu, memory, gpu = (max(requested_units(pod, each) for pod in pods) for each in ("cpu", "memory", resource))
    lacking = [name for name, amount in (("CPU", cpu), ("memory", memory)) if not amount]
    notes = (f"its pods request no {' and no '.join(lacking)}: the value here is a placeholder",) if lacking else ()
    return PodSize(cpu=cpu or PLACEHOLDER.cpu, memory=memory or PLACEHOLDER.memory, gpu=gpu), resource, notes


def _gpu_resource(pods: Sequence[Item]) -> str:
    names = {
        str(name)
        for pod in pods
        for kind in ("containers", "initContainers")
        for container in rows_at(pod, "spec", kind)
        for name in at(container, "resources", "requests") or ()
        if "gpu" in str(name).rpartition("/")[2] or str(name).startswith("nvidia.com/")
    }
    return GPU_RESOURCE if GPU_RESOURCE in names else min(names, default=GPU_RESOURCE)


def _unused(workload: AdoptableWorkload, used: set[str]) -> str:
    """Return an unused name for the rule, and add it to `used`."""
    base = _as_name(workload.name)
    numbered = (_as_name(f"{base[:36]}-{number}") for number in count(2))
    options = chain([base, _as_name(f"{workload.namespace}-{base}")], numbered)
    name = next(one for one in options if one not in used)
    used.add(name)
    return name


def _as_name(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-").removeprefix(PREFIX.partition(".")[0] + "-")
    name = words[:40].rstrip("-")
    return name if re.fullmatch(NAME, name) else f"pods-{name}"[:40].rstrip("-")
