"""Check the rules for adopted pods against the cluster: the selected pods, their owners, and their budgets. Pure.

Kubernetes refuses every eviction of a pod with two budgets, so a second budget is a finding `missing`. Other
differences are notes: the stack file states the intention, and packing, costs and replays use it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controllers.adapters.kube_api import Json
from controllers.adapters.replica_writers import conflicting_manager, writers_of
from controllers.workloads.sleep.scales import ScaleTarget, scale_target
from ebbtide.operate.adopt.workloads import has_ended, is_of_a_node, is_optional
from ebbtide.operate.objects import at, labels_of, requested_units, rows_at, words_at
from ebbtide.operate.owners import Owner
from ebbtide.operate.probe.adopted_counts import counts
from ebbtide.operate.probe.adopted_facts import AdoptedFacts, AdoptedWant, RuleFacts, knows
from ebbtide.operate.probe.facts import Answer, Denied
from ebbtide.operate.probe.findings import Probed, ProbeFinding, missing, note, ok
from ebbtide.recording.drainable import covers
from ebbtide.settings.sections.adopted import (
    MINIMUM_VERSION,
    Replicas,
    adopted_budget,
    deployment_of,
    selector_text,
    without_replicas,
)
from ebbtide.text.counts import several
from ebbtide.text.quantities import cpu_text, memory_text
from ebbtide.vocabulary.labels import CATEGORY, WORKLOAD, Category

Item = Mapping[str, Any]


def adopted_pods(probed: Probed) -> Iterator[ProbeFinding]:
    adopted = probed.adopted
    if adopted is None:
        return
    if not adopted.has_policies:
        version = ".".join(probed.facts.version.lstrip("v").split(".")[:2])
        needed = f"adoption needs Kubernetes {MINIMUM_VERSION} or later: this cluster has {version}"
        yield missing("adoption", f"{needed}, where the API server does not have MutatingAdmissionPolicy v1")
    elif adopted.policy is None:
        yield note("adoption", "pulumi up creates its policy, which labels and places pods that are created after it")
    elif isinstance(adopted.policy, Denied):
        yield note("adoption", "its policy cannot be read: you need the right to get mutatingadmissionpolicies")
    else:
        yield ok("adoption", "its policy is installed")
    for want in probed.wants.adopted:
        yield from _rule(want, adopted)


def _rule(want: AdoptedWant, adopted: AdoptedFacts) -> Iterator[ProbeFinding]:
    subject, space, facts = f"rule {want.name}", want.rule.namespace, adopted.rules[want.name]
    if adopted.namespaces[space] is None:
        yield missing(subject, f"no namespace {space}; create it: pulumi up does not create a team's namespace")
        return
    if facts.pods is None or isinstance(facts.pods, Denied):
        yield note(subject, f"its pods cannot be read: you need the right to list pods in {space}")
        return
    every_pod = rows_at(facts.pods, "items")
    pods = [pod for pod in every_pod if not has_ended(pod) and not is_of_a_node(pod)]
    if pods or not any(is_of_a_node(pod) for pod in every_pod):
        yield _selection(want, facts, pods)
    yield from counts(want, facts, every_pod, _budget(adopted.budgets[space], adopted_budget(want.name, want.rule)))
    yield from _pool(want, facts, pods)
    yield from _sleep(want, facts, pods)
    yield from _charts_budget(want, adopted, pods)
    yield from _second_budgets(want, adopted, pods)
    if pods:
        yield from _drift(want, facts, pods)
    yield from _admission(want, adopted, pods)


def _selection(want: AdoptedWant, facts: RuleFacts, pods: Sequence[Item]) -> ProbeFinding:
    subject, rule = f"rule {want.name}", want.rule
    worker = rule.category is Category.WORKER
    if not pods:
        none = f"no pod in {rule.namespace} has {selector_text(rule.selector)}"
        if worker or _sleeps_now(want, facts):
            return note(subject, f"{none} now{'' if worker else ': it sleeps'}")
        shown = f"kubectl --namespace {rule.namespace} get pods --show-labels"
        return missing(subject, f"{none}; correct the selector ({shown}), or start the workload")
    owners = _owners(facts, pods)
    if len(owners) > 1 and not worker:
        names = ", ".join(map(str, owners))
        return missing(subject, f"wanted the pods of one owner, found those of {names}; write a rule for each")
    whose = str(owners[0]) if len(owners) == 1 else f"{len(owners)} owners"
    return ok(subject, f"{several(len(pods), 'pod')} of {whose}")


def _owners(facts: RuleFacts, pods: Sequence[Item]) -> list[Owner]:
    return sorted({facts.owners[pod["metadata"]["name"]] for pod in pods})


def _pool(want: AdoptedWant, facts: RuleFacts, pods: Sequence[Item]) -> Iterator[ProbeFinding]:
    pool, subject = want.rule.pool, f"pool {want.name}"
    if pool is None or isinstance(facts.deployment, Denied):
        return
    name = deployment_of(want.name, want.rule)
    title = f"Deployment {want.rule.namespace}/{name}"
    if facts.deployment is None:
        yield missing(subject, f"no {title}, whose replicas the pool sets; name another one in pool.deployment")
        return
    others = [str(owner) for owner in _owners(facts, pods) if str(owner) != title]
    if others:
        yield missing(subject, f"the rule selects pods of {others[0]}, and the pool sets the replicas of {title}")
    metadata: Json = facts.deployment["metadata"]
    writer = conflicting_manager(writers_of(metadata), adopted=True, differs=True)
    if writer and pool.replicas is Replicas.ABSENT:
        yield missing(subject, f"{writer} writes spec.replicas of {title}. {without_replicas(name)}")
    grace = at(facts.deployment, "spec", "template", "spec", "terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < pool.longest_job.total_seconds():
        wanted = f"terminationGracePeriodSeconds {int(pool.longest_job.total_seconds())} in the template of {title}"
        yield note(subject, f"it only grows: wanted {wanted}, as long as longestJob, found {grace}")


def _sleep(want: AdoptedWant, facts: RuleFacts, pods: Sequence[Item]) -> Iterator[ProbeFinding]:
    """Check the object whose replicas sleep writes: it must exist, create the pods, and have no other writer."""
    sleep, subject = want.rule.sleep, f"sleep of {want.name}"
    if sleep is None:
        return
    title = f"{sleep.scale.kind} {want.rule.namespace}/{sleep.scale.name}"
    if facts.scaled is None:
        yield missing(subject, f"no {title}, whose replicas it writes; name another one in sleep.scale")
        return
    if isinstance(facts.scaled, Denied):
        yield note(subject, f"{title} cannot be read: you need the right to get {sleep.scale.kind.lower()}s")
        return
    metadata: Json = facts.scaled["metadata"]
    others = [str(owner) for owner in _owners(facts, pods) if str(owner) != title]
    if others:
        yield missing(subject, f"the rule selects pods of {others[0]}, and sleep writes the replicas of {title}")
    for owner in rows_at(metadata, "ownerReferences")[:1]:
        why = f"{owner['kind']} {owner['name']} owns {title}, and its operator writes the replicas"
        yield missing(subject, f"{why}: it does not sleep; remove sleep from the rule")
    if isinstance(facts.autoscalers, Denied):
        yield note(subject, "autoscalers cannot be read: you need the right to list horizontalpodautoscalers")
    for autoscaler in rows_at(facts.autoscalers, "items"):
        if scale_target(autoscaler) == ScaleTarget(sleep.scale.kind, sleep.scale.name):
            why = f"HorizontalPodAutoscaler {autoscaler['metadata']['name']} scales {title}"
            yield missing(subject, f"{why}: it does not sleep; remove sleep from the rule, or the autoscaler")
    writer = conflicting_manager(writers_of(metadata), adopted=True, differs=True)
    if writer and not sleep.keeps:
        text = f"{writer} writes spec.replicas of {title}; if it writes at each sync, set sleep.scale.replicas: kept"
        yield note(subject, text)


def _sleeps_now(want: AdoptedWant, facts: RuleFacts) -> bool:
    """True if the object has the number of pods that the rule has for sleep."""
    sleep = want.rule.sleep
    return sleep is not None and at(facts.scaled, "spec", "replicas") == sleep.replicas


def _charts_budget(want: AdoptedWant, adopted: AdoptedFacts, pods: Sequence[Item]) -> Iterator[ProbeFinding]:
    """Check the budget that a rule names: it must exist, cover all of the rule's pods, and not be an operator's."""
    subject, space, name = f"budget of {want.name}", want.rule.namespace, want.rule.budget
    budgets = adopted.budgets[space]
    if name is None or isinstance(budgets, Denied):
        return
    budget = _budget(budgets, name)
    ours = "remove budget from the rule, so that Ebbtide creates one"
    if budget is None:
        yield missing(subject, f"no budget {space}/{name}: let the chart create it, or {ours}")
    elif rows_at(budget, "metadata", "ownerReferences"):
        yield missing(subject, f"an operator writes {name}: {_switch_off(budget)}, and {ours}")
    elif others := [pod["metadata"]["name"] for pod in pods if not covers(budget, pod)]:
        yield missing(subject, f"{name} does not cover pod {others[0]}: correct its selector or the rule's, or {ours}")


def _budget(budgets: Answer, name: str) -> Item | None:
    return next((each for each in rows_at(budgets, "items") if each["metadata"]["name"] == name), None)


def _second_budgets(want: AdoptedWant, adopted: AdoptedFacts, pods: Sequence[Item]) -> Iterator[ProbeFinding]:
    subject, space = f"budget of {want.name}", want.rule.namespace
    budgets, own = adopted.budgets[space], adopted_budget(want.name, want.rule)
    if isinstance(budgets, Denied):
        yield note(subject, f"budgets cannot be read: you need the right to list poddisruptionbudgets in {space}")
    for budget in rows_at(budgets, "items"):
        if budget["metadata"]["name"] != own and any(covers(budget, pod) for pod in pods):
            second = f"{budget['metadata']['name']} covers the same pods, and a pod with two budgets cannot be evicted"
            yield missing(subject, f"{second}; {_switch_off(budget)}")


def _switch_off(budget: Item) -> str:
    """Return how to switch a budget off."""
    owner = next(iter(rows_at(budget, "metadata", "ownerReferences")), None)
    labels = labels_of(budget)
    if WORKLOAD in labels:
        meta = budget["metadata"]
        return f"of a former rule: kubectl --namespace {meta['namespace']} delete poddisruptionbudget {meta['name']}"
    if owner is not None and str(owner.get("apiVersion")).startswith("postgresql.cnpg.io/"):
        return f"set enablePDB: false in {owner['kind']} {owner['name']} of CloudNativePG"
    if owner is not None:
        return f"made for {owner['kind']} {owner['name']}, whose operator should have a setting that switches it off"
    if "helm.sh/chart" in labels or "Helm" in (labels.get("app.kubernetes.io/managed-by"), labels.get("heritage")):
        return "made by a chart, whose values switch it off (often pdb or podDisruptionBudget)"
    return "remove it where it is applied from"


def _drift(want: AdoptedWant, facts: RuleFacts, pods: Sequence[Item]) -> Iterator[ProbeFinding]:
    rule, differences = want.rule, list[str]()
    if rule.category is not Category.WORKER and len(pods) != rule.count and not _sleeps_now(want, facts):
        differences.append(f"{'replicas' if rule.has_scale else 'pods'} {rule.count}, the cluster has {len(pods)}")
    for key, declared, resource, text in (
        ("cpu", rule.cpu, "cpu", cpu_text),
        ("memory", rule.memory, "memory", memory_text),
        ("gpu", rule.gpu.count, rule.gpu.resource, str),
    ):
        requests = {requested_units(pod, resource) for pod in pods}
        if others := sorted(requests - {declared}):
            differences.append(f"{key} {text(declared)}, a pod requests {text(others[-1])}")
    if differences:
        yield note(f"size of {want.name}", f"the stack file differs: {'; '.join(differences)}")


def _admission(want: AdoptedWant, adopted: AdoptedFacts, pods: Sequence[Item]) -> Iterator[ProbeFinding]:
    if not isinstance(adopted.policy, dict):
        return
    subject, stored = f"labels of {want.name}", adopted.rules[want.name].dry_run
    if not knows(adopted.policy, want.name):
        yield note(subject, "the installed policy does not have this rule yet; pulumi up adds it")
        return
    if isinstance(stored, str):
        yield note(subject, f"a pod could not be created as a dry run: {stored}")
    elif stored is not None:
        yield _arrived(want, subject, stored)
    older = [pod for pod in pods if is_optional(pod) and labels_of(pod).get(WORKLOAD) != want.name]
    if older:
        count = f"{len(older)} of {len(pods)} pods lack the labels, for example because they are older than the rule"
        yield note(f"pods of {want.name}", f"{count}; ebbtide adopt STACK --label-running shows what to label")


def _arrived(want: AdoptedWant, subject: str, stored: Item) -> ProbeFinding:
    expected = {WORKLOAD: want.name, CATEGORY: want.rule.category.value}
    labels, selector = labels_of(stored), words_at(stored, "spec", "nodeSelector")
    absent = [f"label {key}={value}" for key, value in expected.items() if labels.get(key) != value]
    absent += [f"node selector {key}={value}" for key, value in want.nodes.items() if selector.get(key) != value]
    if absent:
        return missing(subject, f"a new pod would lack {', '.join(absent)}; is there a webhook that removes it?")
    nodes = ", ".join(f"{key}={value}" for key, value in selector.items()) or "any nodes"
    return ok(subject, f"a new pod gets them, and runs on {nodes}")
