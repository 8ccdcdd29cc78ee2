"""Budgets: every long-running pod has exactly one, and it is created closed."""

from collections.abc import Iterable

from components.ownership import MAX_UNAVAILABLE, MIN_AVAILABLE
from components.pods.rules import OPEN_TO_ALL
from ebbtide.findings import Severity
from ebbtide.policies.rule import Hits, Rule
from ebbtide.provisioning_labels import SAFE_TO_EVICT
from ebbtide.recording.pods import Pods
from ebbtide.recording.resources import Resource, display_name, name_of, namespace_of
from ebbtide.recording.state import StackState
from ebbtide.recording.values import value_at, whole_number
from ebbtide.settings.sections.pods.kubernetes import own_namespace, started_by
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, Category

_CLOSED_TEXT = "0%"
_NUMBERS = {MAX_UNAVAILABLE, MIN_AVAILABLE}


def _opened(state: StackState) -> Hits:
    for budget in state.budgets:
        declared, least = (value_at(budget.inputs, f"spec.{key}") for key in ("maxUnavailable", "minAvailable"))
        closed = whole_number(declared) == 0 or declared in (None, _CLOSED_TEXT)
        under = [pods for pods in state.pods_under(budget) if pods.category]
        never_moved = [pods for pods in under if pods.category is not Category.FLEXIBLE and not state.saves(pods)]
        open_to_all = declared == OPEN_TO_ALL or whole_number(least) == 0
        for_drains = under and open_to_all and all(map(state.stopped_together, under))
        evictable = [pods for pods in under if pods.annotations.get(SAFE_TO_EVICT) != "false"]
        if for_drains and evictable:
            yield (
                budget,
                f"it is open for the drain of spot nodes, and the autoscaler may evict {_names(evictable)} too",
            )
        elif under and not closed and not for_drains:
            yield budget, f"maxUnavailable is declared as {declared}, so {_names(under)} may be evicted by day"
        elif under and _has_its_minimum(state, budget) and not _closed_minimum(least) and not for_drains:
            yield (
                budget,
                f"minAvailable is declared as {least}, so pods of {_names(under)} above it may be evicted by day",
            )
        elif never_moved and _NUMBERS & {*budget.ignore_changes}:
            yield budget, f"others may write its number, so {_names(never_moved)} may be evicted by day"


def _closed_minimum(least: object) -> bool:
    number = whole_number(least)
    return number is not None and number >= CLOSED_MINIMUM


def _has_its_minimum(state: StackState, budget: Resource) -> bool:
    """True if `minAvailable` is right: its pods have no scale subresource, and none moves at night.

    Adopted pods may move: the stack file has their number, so the controller knows the minimum of the night.
    """
    if _covers_started_pods(state, budget):
        return True
    under = state.pods_under(budget)
    moving = [pods for pods in under if pods.category is Category.FLEXIBLE and pods.adopted is None]
    rightly = under and not moving and not any(pods.has_scale for pods in under)
    return bool(rightly) and value_at(budget.inputs, "spec.minAvailable") is not None


def _covers_started_pods(state: StackState, budget: Resource) -> bool:
    """True if the budget is for pods that a workload starts itself, which no file declares."""
    starters = [name for name, workload in state.settings.workloads.items() if workload.starts_pods]
    place = (namespace_of(budget), name_of(budget))
    return place in {(own_namespace(name), started_by(name)) for name in starters}


def _names(pods: Iterable[Pods]) -> str:
    return ", ".join(sorted({entry.name for entry in pods}))


def _missing(state: StackState) -> Hits:
    for pods in state.covered:
        needs_one = pods.lasting or pods.category is Category.WORKER or pods.adopted is not None
        of_a_chart = pods.adopted is not None and pods.adopted.budget is not None
        if needs_one and not of_a_chart and not state.budgets_of(pods):
            yield pods.resource, "no budget covers its pods, so nothing keeps the autoscaler from evicting them by day"


def _several(state: StackState) -> Hits:
    for pods in state.covered:
        budgets = state.budgets_of(pods)
        if len(budgets) > 1:
            names = ", ".join(display_name(budget).split(" ", 1)[1] for budget in budgets)
            yield pods.resource, f"{len(budgets)} budgets cover its pods ({names}), and every eviction fails"


def _wrong_number(state: StackState) -> Hits:
    for budget in state.budgets:
        most, least = (value_at(budget.inputs, f"spec.{key}") for key in ("maxUnavailable", "minAvailable"))
        uncounted = [pods for pods in state.pods_under(budget) if not pods.has_scale]
        if least is not None and not _has_its_minimum(state, budget):
            yield budget, "it sets minAvailable, which cannot be changed to maxUnavailable in place"
        elif least is None and most is None:
            yield budget, "it sets neither maxUnavailable nor minAvailable, so no eviction is allowed until one is set"
        elif most is not None and uncounted:
            why = "a Job's pods cannot be counted, and a bare pod counts in place of one that is evicted by day"
            yield (
                budget,
                f"it sets maxUnavailable, and nothing says how many pods {_names(uncounted)} should have: {why}",
            )


def _idle(state: StackState) -> Hits:
    for budget in state.budgets:
        if not state.pods_under(budget) and not _covers_started_pods(state, budget):
            yield budget, "its selector matches no pods of this stack, so it protects nothing"


def _stuck(state: StackState) -> Hits:
    for budget in state.budgets:
        flexible = [pods for pods in state.pods_under(budget) if pods.category is Category.FLEXIBLE]
        if flexible and value_at(budget.inputs, "spec.unhealthyPodEvictionPolicy") != "AlwaysAllow":
            yield budget, f"a pod of {flexible[0].name} that never becomes ready would keep its node day and night"


RULES = (
    Rule(
        code="EB001",
        severities=(Severity.BLOCKING,),
        title="a budget of a fixed, flexible or worker pod is declared closed, or, on spot nodes, 100% for workers "
        "that must save and for variants of services, which the autoscaler may not evict",
        remedy="declare maxUnavailable: 0; the controller opens budgets of flexible pods and of pools with "
        "checkpoints. For Jobs and bare pods: minAvailable: 1000000",
        source="2i2c-org/infrastructure#3461",
        check=_opened,
    ),
    Rule(
        code="EB002",
        severities=(Severity.BLOCKING,),
        title="every long-running pod has a budget, and so has every worker and job",
        remedy="give it its own PodDisruptionBudget in its namespace, with maxUnavailable: 0, or for Jobs and bare "
        "pods with minAvailable: 1000000",
        source="2i2c-org/infrastructure#3363; reliability/application, disruption budgets",
        check=_missing,
    ),
    Rule(
        code="EB003",
        severities=(Severity.BLOCKING,),
        title="no pod has two budgets",
        remedy="keep the budget that Ebbtide made, and delete the other one",
        source="kubernetes/kubernetes#75957",
        check=_several,
    ),
    Rule(
        code="EB004",
        severities=(Severity.BLOCKING,),
        title="a budget sets maxUnavailable; for the pods of Jobs and bare pods it sets minAvailable, as a whole "
        "number",
        remedy="declare maxUnavailable: 0; for Jobs and bare pods their own budget with minAvailable: 1000000",
        source="cloudnative-pg/cloudnative-pg#7346",
        check=_wrong_number,
    ),
    Rule(
        code="EB005",
        severities=(Severity.WARNING,),
        title="a budget covers pods",
        remedy="select by the label ebbtide.dev/workload that the pods carry, in their namespace",
        source="reliability/application, disruption budgets",
        check=_idle,
    ),
    Rule(
        code="EB006",
        severities=(Severity.WARNING,),
        title="a flexible pod that is not ready may be evicted at any time",
        remedy="set unhealthyPodEvictionPolicy: AlwaysAllow on the budget",
        source="kubernetes/kubernetes#72320",
        check=_stuck,
    ),
)
