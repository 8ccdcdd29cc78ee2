"""Dangers for adopted pods: which of them lose their budget, and when a changed rule reaches running pods.

The admission policy writes to pods at their creation. So a changed rule changes the budget at once, and labels and
nodes with the next pods. No update restarts adopted pods.
"""

from collections.abc import Iterator, Mapping

from ebbtide.preview.dangers.compared import Compared, counted, listed
from ebbtide.preview.document import Danger, DangerCode, Severity
from ebbtide.settings.sections.adopted import AdoptedSettings, deployment_of, disjoint
from ebbtide.vocabulary.labels import Category

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
    yield from _begin({name: rule for name, rule in after.items() if name not in before})
    for name, old in before.items():
        if not any(_covers(rule, old) for rule in after.values()):
            yield _unprotected(name, old, removed=name not in after)
        for heir, new in after.items():
            if new.category is not old.category and (heir == name or _shares_pods(new, old)):
                yield _other_category(heir, old, new, f"{heir} becomes" if heir == name else f"pods of {name} become")
        if old.redis and (name not in after or not after[name].redis):
            yield _without_redis(name, old)
    sized_before, sized_after = _sized(before), _sized(after)
    for deployment in sized_after.keys() - sized_before.keys():
        yield _sizing(sized_after[deployment], deployment, begins=True)
    for deployment in sized_before.keys() - sized_after.keys():
        yield _sizing(sized_before[deployment], deployment, begins=False)


def _sized(rules: Mapping[str, AdoptedSettings]) -> Mapping[str, str]:
    """Return the rules with a pool, by their Deployment."""
    return {f"{r.namespace}/{deployment_of(name, r)}": name for name, r in rules.items() if r.pool is not None}


def _sizing(rule: str, deployment: str, *, begins: bool) -> Danger:
    if begins:
        what = f"the controller sizes Deployment {deployment} from now on, by the queue of {rule}"
        fix = "take replicas out of its owner's manifests, or set pool.replicas: kept; ebbtide check prints the lines"
    else:
        what = f"nothing sizes Deployment {deployment} any more: its owner's next number may stop busy workers"
        fix = "write a number of replicas into its owner's manifests while its queue is empty"
    return Danger(
        code=DangerCode.ADOPTION_CHANGED if begins else DangerCode.ADOPTION_ENDS,
        severity=Severity.NOTE if begins else Severity.WARNING,
        subjects=(rule,),
        what=what,
        impact="the Deployment keeps its number until then",
        fix=fix,
    )


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
        yield Danger(
            code=DangerCode.ADOPTION_BEGINS,
            severity=Severity.NOTE,
            subjects=tuple(rules),
            what=f"adopts the pods of {listed(tuple(rules))}: running ones have a budget at once, new ones also labels "
            "and nodes by their category",
            impact=counted(sum(rule.count for rule in rules.values()), "pod"),
            fix="switch off budgets of their charts and operators first: ebbtide probe finds them",
        )


def _unprotected(name: str, old: AdoptedSettings, *, removed: bool) -> Danger:
    what = (
        f"removes the rule {name}: its pods lose their budget"
        if removed
        else f"selects other pods by the rule {name}: those that no rule selects any more lose their budget"
    )
    return Danger(
        code=DangerCode.ADOPTION_ENDS,
        severity=Severity.WARNING,
        subjects=(name,),
        what=f"{what}; running ones keep labels and nodes until they are replaced",
        impact=f"{counted(old.count, 'pod') or 'pods'} that anything may evict by day",
        fix=f"if pods stay in {old.namespace}, switch on the budget of their chart or operator after the update",
    )


def _other_category(name: str, old: AdoptedSettings, new: AdoptedSettings, become: str) -> Danger:
    effect, fix = _BECOMES[new.category]
    return Danger(
        code=DangerCode.ADOPTION_CHANGED,
        severity=Severity.WARNING,
        subjects=(name,),
        what=f"{become} {new.category} instead of {old.category}: {effect}; running ones keep their nodes until they "
        "are replaced",
        impact=counted(new.count, "pod"),
        fix=fix,
    )


def _without_redis(name: str, old: AdoptedSettings) -> Danger:
    return Danger(
        code=DangerCode.ADOPTION_CHANGED,
        severity=Severity.WARNING,
        subjects=(name,),
        what=f"deletes the Redis user, the Secret and the network access of {name}",
        impact=f"{counted(old.count, 'pod') or 'pods'} whose next connection to Redis fails",
        fix="take Redis out of their configuration first",
    )
