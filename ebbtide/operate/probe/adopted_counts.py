"""Check that Kubernetes can count the pods that a rule's budget covers: its workload's, and others with these labels.

A budget covers each pod with its labels, ended or not. With `maxUnavailable` Kubernetes adds up the scales of the pods'
owners: an owner without a scale, such as a DaemonSet or a Job, makes the whole budget fail (`SyncFailed`), and a pod
without an owner counts as healthy but not as expected. With `minAvailable` it counts healthy pods only. Pure.
Source: Kubernetes 1.36, `getExpectedPodCount` of the disruption controller.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ebbtide.operate.adopt.workloads import common, has_ended, is_lasting, is_of_a_node, rank
from ebbtide.operate.objects import labels_of, sync_failure
from ebbtide.operate.owners import Owner
from ebbtide.operate.probe.adopted_facts import AdoptedWant, RuleFacts
from ebbtide.operate.probe.findings import ProbeFinding, State, note
from ebbtide.operate.why.node_pins import left_alone
from ebbtide.text.counts import several
from ebbtide.vocabulary.labels import Category

Item = Mapping[str, Any]


def counts(want: AdoptedWant, facts: RuleFacts, pods: Sequence[Item], budget: Item | None) -> Iterator[ProbeFinding]:
    """Yield one finding for each owner that the budget counts wrongly. `pods` have the rule's labels, ended or not."""
    subject, rule = f"count of {want.name}", want.rule
    by_owner: dict[Owner, list[Item]] = {}
    for pod in pods:
        by_owner.setdefault(facts.owners[pod["metadata"]["name"]], []).append(pod)
    own = [owner for owner, members in by_owner.items() if not is_of_a_node(members[0])]
    scaled = [owner for owner in own if facts.scales.get(owner)]
    state, failed = (State.MISSING if rule.opens else State.NOTE), False
    for owner, members in sorted(by_owner.items()):
        foreign = owner not in own
        remedy = _remedy([pod for each in (scaled or own) for pod in by_owner[each]], members)
        follows = _of_a_node(want, members) if foreign else ""
        if follows:
            failed = True
            covered = f"{owner} has pods with the rule's labels, which adoption leaves alone and its budget covers"
            yield ProbeFinding(state, subject, f"{covered}: {follows}; {remedy}")
        elif foreign or rule.category is Category.WORKER:
            continue
        elif rule.has_scale and facts.scales.get(owner) is False:
            failed = True
            if fault := _unscaled(want, owner, members, remedy if scaled else ""):
                yield ProbeFinding(state, subject, fault)
        elif not rule.has_scale and facts.scales.get(owner):
            said = f"{owner} has a scale subresource, which a budget by replicas follows"
            yield note(subject, f"{said}; write replicas: {rule.count} instead of pods")
    if not failed and budget is not None and (why := sync_failure(budget)):
        said = f"budget {budget['metadata']['name']} lets no pod go: Kubernetes cannot calculate it (SyncFailed: {why})"
        yield ProbeFinding(state, subject, said)


def _of_a_node(want: AdoptedWant, members: Sequence[Item]) -> str:
    """Return the consequence of DaemonSet pods or static pods; empty if there is none."""
    rule, alive = want.rule, sum(not has_ended(pod) for pod in members)
    if rule.has_scale and rule.category is not Category.WORKER:
        when = "not even at night" if rule.opens else "not even in a maintenance"
        return f"Kubernetes cannot count them, so the budget lets no pod go, {when} (SyncFailed)"
    if rule.opens and alive:
        return f"they count as healthy pods, so at night up to {alive + 1} of the rule's pods may go at once"
    pinning = [pod for pod in members if not has_ended(pod) and not left_alone(pod)]
    return "the budget never opens, so a Karpenter node with such a pod stays" if pinning else ""


def _unscaled(want: AdoptedWant, owner: Owner, members: Sequence[Item], remedy: str) -> str:
    """Return the consequence of an owner without a scale. `remedy` is empty if no other owner has a scale."""
    alive = sum(not has_ended(pod) for pod in members)
    if not owner.kind:
        if not remedy:
            return "its pods have no owner, so a budget by replicas never lets one go; write category: worker"
        counted = "counts as healthy but not as expected" if alive == 1 else "count as healthy but not as expected"
        more = f"{several(alive, 'pod')} without an owner {counted}, so up to {alive} more may go at once"
        return f"{more}; {remedy}" if alive else ""
    refused = f"{owner} has no scale subresource, so a budget by replicas never lets a pod go"
    if not remedy:
        return f"{refused}; write pods: {want.rule.count} instead of replicas"
    return f"{refused}{'' if alive else ' while its ended pods exist'}; {remedy}"


def _remedy(own: Sequence[Item], others: Sequence[Item]) -> str:
    """Return a label that only the rule's pods have, or how to add one."""
    shared = common(map(labels_of, own)) if own else {}
    telling = [
        key
        for key, value in shared.items()
        if is_lasting(key, value) and all(labels_of(pod).get(key) != value for pod in others)
    ]
    if not own:
        return "remove the rule"
    if telling:
        key = min(telling, key=rank)
        return f"add {key}: {shared[key]} to its selector"
    return "give its own pods one more label, such as app, and add that to its selector"
