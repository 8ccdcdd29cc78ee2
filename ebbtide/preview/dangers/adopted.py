"""Dangers for adopted pods: which of them lose their budget, and when a changed rule reaches running pods.

The admission policy writes to pods at their creation. So a changed rule changes the budget at once, and labels and
nodes with the next pods. No update restarts adopted pods.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ebbtide.findings import Severity
from ebbtide.preview.dangers.compared import Compared, counted, listed
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.document import Danger
from ebbtide.settings.sections.adopted import AdoptedSettings, deployment_of, disjoint
from ebbtide.vocabulary.labels import Category

ADOPTION_BEGINS = danger_kind("adoption-begins", "a rule adopts pods", Severity.NOTE)
ADOPTION_CHANGED = danger_kind("adoption-changed", "a rule for adopted pods changes", Severity.WARNING, Severity.NOTE)
ADOPTION_ENDS = danger_kind(
    "adoption-ends", "a rule for adopted pods ends, or no longer selects some of them", Severity.WARNING
)

Rules: TypeAlias = Mapping[str, AdoptedSettings]

_REPLACE = "let their owner replace the running pods (kubectl rollout restart); until then their nodes stay all night"
_BECOMES: Mapping[Category, tuple[str, str]] = {
    Category.FIXED: ("its pods are never moved, and new ones run on fixed nodes", _REPLACE),
    Category.FLEXIBLE: (
        "its pods may be moved at night, and new ones run on flexible nodes",
        "make sure that it tolerates a restart on another node every night",
    ),
    Category.WORKER: (
        "its pods are never moved, and new ones run on flexible nodes, which stay all night",
        "none needed if its pods end by themselves; else make it fixed",
    ),
}


def adopted_dangers(compared: Compared) -> Iterator[Danger]:
    before, after = compared.before.settings.adopted, compared.after.settings.adopted
    former = {name: _former_name(rule, before, after) for name, rule in after.items() if name not in before}
    yield from _begin({name: after[name] for name, old in former.items() if old is None})
    for name, old in former.items():
        if old is not None:
            yield _renamed(name, old, after[name])
    for name, old in before.items():
        heir = after.get(name) or next((rule for rule in after.values() if _covers(rule, old)), None)
        if old.budget is not None and (heir is None or heir.budget != old.budget):
            yield _left_budget(name, old)
        elif not any(_covers(rule, old) for rule in after.values()):
            yield _unprotected(name, old, removed=name not in after)
        elif heir is not None and heir.budget != old.budget:
            yield _charts_budget(name, heir)
        for heir_name, new in after.items():
            if new.category is not old.category and (heir_name == name or _shares_pods(new, old)):
                become = f"{heir_name} becomes" if heir_name == name else f"pods of {name} become"
                yield _other_category(heir_name, old, new, become)
        if old.redis and (name not in after or not after[name].redis):
            yield _without_redis(name, old)
    sized_before, sized_after = _sized(before), _sized(after)
    for deployment, name in sized_after.items():
        if deployment not in sized_before:
            yield _sizing(name, deployment, begins=True)
    for deployment, name in sized_before.items():
        if deployment not in sized_after:
            yield _sizing(name, deployment, begins=False)


def _former_name(rule: AdoptedSettings, before: Rules, after: Rules) -> str | None:
    """Return the name of the removed rule that selected all pods of this one; None if there is none."""
    return next((name for name, old in before.items() if name not in after and _covers(old, rule)), None)


def _changed(rule: str, what: str, *, impact: str, fix: str, ends: bool = False, note: bool = False) -> Danger:
    return (ADOPTION_ENDS if ends else ADOPTION_CHANGED).danger(
        severity=Severity.NOTE if note else Severity.WARNING,
        subjects=(rule,),
        text=what,
        impact=impact,
        remedy=fix,
    )


def _renamed(name: str, former: str, rule: AdoptedSettings) -> Danger:
    what = f"renames the rule {former} to {name}: new pods get the new label, and Ebbtide's budget the new name"
    fix = "after the update, ebbtide adopt --label-running gives running pods the new label"
    return _changed(name, what, impact=counted(rule.count, "pod"), fix=fix, note=True)


def _charts_budget(name: str, rule: AdoptedSettings) -> Danger:
    what = f"deletes Ebbtide's budget of {name}: the controller opens and closes {rule.budget} of its chart instead"
    fix = "ebbtide probe shows whether that budget exists and covers all pods"
    return _changed(name, what, impact=counted(rule.count, "pod"), fix=fix, note=True)


def _left_budget(name: str, old: AdoptedSettings) -> Danger:
    return _changed(
        name,
        f"leaves the budget {old.budget} to its chart, with the number that the controller wrote last",
        impact=f"{counted(old.count, 'pod')} that no drain may move, or that anything may evict by day",
        fix=f"kubectl --namespace {old.namespace} delete poddisruptionbudget {old.budget} after the update, and let "
        "the chart create it again, unless another budget covers the pods",
        ends=True,
    )


def _sized(rules: Rules) -> Mapping[str, str]:
    """Return the rules with a pool, by their Deployment."""
    return {f"{r.namespace}/{deployment_of(name, r)}": name for name, r in rules.items() if r.pool is not None}


def _sizing(rule: str, deployment: str, *, begins: bool) -> Danger:
    if begins:
        what = f"the controller sizes Deployment {deployment} from now on, by the queue of {rule}"
        fix = "take replicas out of its owner's manifests, or set pool.replicas: kept; ebbtide check prints the lines"
    else:
        what = f"nothing sizes Deployment {deployment} any more: its owner's next replica count may stop busy workers"
        fix = "write a replica count into its owner's manifests while its queue is empty"
    impact = "the Deployment keeps its replicas until then"
    return _changed(rule, what, impact=impact, fix=fix, ends=not begins, note=begins)


def _covers(rule: AdoptedSettings, old: AdoptedSettings) -> bool:
    """True if the rule selects all pods that the old rule selected."""
    return rule.namespace == old.namespace and all(
        {*old.selector.get(key, ())} <= {*values} and key in old.selector for key, values in rule.selector.items()
    )


def _shares_pods(rule: AdoptedSettings, old: AdoptedSettings) -> bool:
    """True if the rule may select pods that the old rule selected."""
    return rule.namespace == old.namespace and not disjoint(rule.selector, old.selector)


def _begin(rules: Mapping[str, AdoptedSettings]) -> Iterator[Danger]:
    if rules:
        yield ADOPTION_BEGINS.danger(
            subjects=tuple(rules),
            text=f"adopts the pods of {listed(tuple(rules))}: running ones have a budget at once, new ones also labels "
            "and nodes by their category",
            impact=counted(sum(rule.count for rule in rules.values()), "pod"),
            remedy="switch off budgets of their charts and operators first: ebbtide probe finds them",
        )


def _unprotected(name: str, old: AdoptedSettings, *, removed: bool) -> Danger:
    what = (
        f"removes the rule {name}: its pods lose their budget"
        if removed
        else f"changes the selector of rule {name}: pods that no rule selects any more lose their budget"
    )
    return _changed(
        name,
        f"{what}; running ones keep labels and nodes until they are replaced",
        impact=f"{counted(old.count, 'pod') or 'pods'} that anything may evict by day",
        fix=f"if pods stay in {old.namespace}, switch on the budget of their chart or operator after the update",
        ends=True,
    )


def _other_category(name: str, old: AdoptedSettings, new: AdoptedSettings, become: str) -> Danger:
    effect, fix = _BECOMES[new.category]
    until = "running ones keep their nodes until they are replaced"
    what = f"{become} {new.category} instead of {old.category}: {effect}; {until}"
    return _changed(name, what, impact=counted(new.count, "pod"), fix=fix)


def _without_redis(name: str, old: AdoptedSettings) -> Danger:
    return _changed(
        name,
        f"deletes the Redis user, the Secret and the network access of {name}",
        impact=f"{counted(old.count, 'pod') or 'pods'} whose next connection to Redis fails",
        fix="take Redis out of their configuration first",
    )
