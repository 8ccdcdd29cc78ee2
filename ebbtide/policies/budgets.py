"""Budgets: every lasting pod has one, exactly one, and it is born closed."""

from ebbtide.policies.pods import described
from ebbtide.policies.rule import Hits, Rule
from ebbtide.policies.seen import Seen, covers
from ebbtide.policies.values import at, whole
from ebbtide.preview.document import Severity
from ebbtide.vocabulary.labels import Category

_CLOSED_TEXT = "0%"


def _opened(seen: Seen) -> Hits:
    for budget in seen.budgets:
        declared = at(budget.inputs, "spec.maxUnavailable")
        closed = whole(declared) == 0 or declared in (None, _CLOSED_TEXT)
        guarded = sorted({pods.name for pods in seen.pods if pods.category and covers(budget, pods)})
        if guarded and not closed:
            yield budget, f"maxUnavailable is declared as {declared}, so {', '.join(guarded)} may be evicted by day"


def _missing(seen: Seen) -> Hits:
    for pods in seen.pods:
        if pods.lasting and not seen.budgets_of(pods):
            yield pods.resource, "no budget covers its pods, so nothing keeps the autoscaler from evicting them by day"


def _several(seen: Seen) -> Hits:
    for pods in seen.pods:
        budgets = seen.budgets_of(pods)
        if len(budgets) > 1:
            names = ", ".join(described(budget).split(" ", 1)[1] for budget in budgets)
            yield pods.resource, f"{len(budgets)} budgets cover its pods ({names}), and every eviction fails"


def _kept_available(seen: Seen) -> Hits:
    for budget in seen.budgets:
        if at(budget.inputs, "spec.minAvailable") is not None:
            yield budget, "it says minAvailable, which cannot be flipped to maxUnavailable in place"
        elif at(budget.inputs, "spec.maxUnavailable") is None:
            yield budget, "it says neither maxUnavailable nor minAvailable, which allows nothing until somebody writes"


def _idle(seen: Seen) -> Hits:
    for budget in seen.budgets:
        if not any(covers(budget, pods) for pods in seen.pods):
            yield budget, "its selector takes no pods of this stack, so it protects nothing"


def _stuck(seen: Seen) -> Hits:
    for budget in seen.budgets:
        flexible = [p for p in seen.pods if p.category is Category.FLEXIBLE and covers(budget, p)]
        if flexible and at(budget.inputs, "spec.unhealthyPodEvictionPolicy") != "AlwaysAllow":
            yield budget, f"a pod of {flexible[0].name} that never becomes ready would keep its node day and night"


RULES = (
    Rule(
        id="EB001",
        severity=Severity.BLOCKING,
        law="a budget of a fixed, flexible or worker pod is declared closed",
        fix="declare maxUnavailable: 0; the controller opens the budgets of flexible pods at night",
        source="2i2c-org/infrastructure#3461",
        check=_opened,
    ),
    Rule(
        id="EB002",
        severity=Severity.BLOCKING,
        law="every pod that lasts has a budget",
        fix="give it a PodDisruptionBudget of its own in its namespace, with maxUnavailable: 0",
        source="2i2c-org/infrastructure#3363; reliability/application, disruption budgets",
        check=_missing,
    ),
    Rule(
        id="EB003",
        severity=Severity.BLOCKING,
        law="no pod has two budgets",
        fix="keep the budget that Ebbtide made, and delete the other one",
        source="kubernetes/kubernetes#75957",
        check=_several,
    ),
    Rule(
        id="EB004",
        severity=Severity.BLOCKING,
        law="a budget says maxUnavailable, and never minAvailable",
        fix="replace minAvailable by maxUnavailable: 0",
        source="cloudnative-pg/cloudnative-pg#7346",
        check=_kept_available,
    ),
    Rule(
        id="EB005",
        severity=Severity.WARNING,
        law="a budget covers pods",
        fix="select by the label ebbtide.dev/workload that the pods carry, in their namespace",
        source="reliability/application, disruption budgets",
        check=_idle,
    ),
    Rule(
        id="EB006",
        severity=Severity.WARNING,
        law="a flexible pod that is not ready may be evicted at any time",
        fix="set unhealthyPodEvictionPolicy: AlwaysAllow on the budget",
        source="kubernetes/kubernetes#72320",
        check=_stuck,
    ),
)
