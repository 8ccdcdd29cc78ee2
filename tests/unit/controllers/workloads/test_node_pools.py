"""The disruption budgets of a NodePool between two reconciles."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from controllers.adapters.kube_cache import KubeCache
from controllers.adapters.kube_objects import Stored, budget
from controllers.doubt import TRUST, Doubt
from controllers.ports import ObservedBudget, Outcome
from controllers.workloads.loop import ReconcileResult, Write
from controllers.workloads.nodes.budgets import DEFAULT, ObservedNodePool, observed
from controllers.workloads.nodes.node_pools import NodePool
from ebbtide.vocabulary.controller_config import BudgetPolicy
from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED, WORKLOADS
from ebbtide.vocabulary.node_pools import CLOSED, Budgets, budgets_for
from ebbtide.vocabulary.workloads import NodePoolPolicy, WorkloadsConfig
from tests.builders.controllers import OFFICE
from tests.unit.controllers.workloads.test_ray_clusters import Cache

OPEN = budgets_for(5)
NIGHT, DAY = datetime(2026, 1, 5, 3, tzinfo=UTC), datetime(2026, 1, 5, 12, tzinfo=UTC)
CONFIG = WorkloadsConfig(
    namespace="ebbtide",
    hours=OFFICE,
    node_pools=(NodePoolPolicy(name="general", drains=5),),
    drain_guard=timedelta(minutes=35),
    budgets=(BudgetPolicy(name="api", namespace="ebbtide"),),
)
BEFORE_OPENING = OFFICE.next_change(NIGHT)


class Scene:
    """A NodePool `general` with the default of its CRD, made by kubectl, and the open budget of `api`."""

    def __init__(self, config: WorkloadsConfig = CONFIG) -> None:
        self.cache, self.pdbs, self.version = Cache(), Cache(), 1
        self.config = config
        self.keeper = self.started()
        self.shows(DEFAULT, {"kubectl": "Update"})
        self.pods_budget(1)

    def started(self) -> NodePool:
        """A process that remembers nothing."""
        pools = cast("KubeCache[ObservedNodePool]", self.cache)
        budgets = {"ebbtide": cast("KubeCache[Stored[ObservedBudget]]", self.pdbs)}
        return NodePool(self.config.node_pools[0], self.config, pools, budgets)

    def shows(self, budgets: Budgets, managers: dict[str, str], **annotations: str) -> None:
        self.version += 1
        fields: Any = {"f:spec": {"f:disruption": {"f:budgets": {}}}}
        managed = [{"manager": name, "operation": how, "fieldsV1": fields} for name, how in managers.items()]
        metadata = {
            "name": "general",
            "resourceVersion": str(self.version),
            "annotations": annotations,
            "managedFields": managed,
        }
        self.cache.kept = {"general": observed({"metadata": metadata, "spec": {"disruption": {"budgets": budgets}}})}

    def ours(self, budgets: Budgets, **annotations: str) -> None:
        self.shows(budgets, {WORKLOADS: "Apply"}, **annotations)

    def pods_budget(self, most: int, *, settled: bool = True, kept: str = "") -> None:
        annotations = {KEEP_UNTIL: kept} if kept else {}
        metadata = {"name": "api", "uid": "u", "resourceVersion": "1", "generation": 2, "annotations": annotations}
        status = {"observedGeneration": 2 if settled else 1}
        self.pdbs.kept = {"api": budget({"metadata": metadata, "spec": {"maxUnavailable": most}, "status": status})}

    def look(self, now: datetime, doubt: Doubt = TRUST) -> ReconcileResult:
        return self.keeper.reconcile(now, doubt)

    def wrote(self, now: datetime, doubt: Doubt = TRUST) -> Write:
        write = self.look(now, doubt).write
        assert write is not None
        return write

    def value(self, now: datetime, doubt: Doubt = TRUST) -> Budgets:
        return self.wrote(now, doubt).body["spec"]["disruption"]["budgets"]

    def why(self, now: datetime, doubt: Doubt = TRUST) -> str:
        """Return the reason of a reconcile that writes nothing."""
        verdict = self.look(now, doubt)
        assert verdict.write is None
        return verdict.report["why"]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_one_field_is_applied_with_the_version_that_was_seen(scene: Scene) -> None:
    scene.ours(OPEN)
    write = scene.wrote(DAY)

    assert write.path == "/apis/karpenter.sh/v1/nodepools/general"
    assert write.body == {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general", "resourceVersion": "3"},
        "spec": {"disruption": {"budgets": CLOSED}},
    }
    assert (write.applied, write.forced, write.reason) == (True, False, "business-hours")


@pytest.mark.parametrize("started", ["by a new process", "by the same"])
def test_the_wanted_value_is_not_written_again(scene: Scene, started: str) -> None:
    for now, budgets in ((DAY, CLOSED), (NIGHT, OPEN)):
        scene.ours(budgets)
        scene.keeper = scene.started() if started == "by a new process" else scene.keeper
        scene.why(now)


def test_it_opens_after_the_pods_budgets_are_observed_as_open(scene: Scene) -> None:
    scene.ours(CLOSED)
    scene.pods_budget(0)
    assert scene.why(NIGHT) == "pods-budgets-not-open"
    scene.pods_budget(1, settled=False)
    assert scene.why(NIGHT) == "pods-budgets-not-open"
    scene.pdbs.kept = {}
    assert scene.why(NIGHT) == "pods-budgets-not-open"
    scene.pods_budget(1)
    assert scene.value(NIGHT) == OPEN


def test_pods_budgets_that_cannot_be_read_are_not_open(scene: Scene) -> None:
    scene.ours(CLOSED)
    scene.pdbs.why = "no answer"
    assert scene.why(NIGHT) == "pods-budgets-not-open"


def test_it_closes_as_soon_as_a_pods_budget_closes_but_not_while_a_status_lags(scene: Scene) -> None:
    scene.ours(OPEN)
    scene.pods_budget(1, settled=False)
    assert scene.why(NIGHT) == "disruption-window-open"
    scene.pods_budget(0)
    assert scene.value(NIGHT) == CLOSED


def test_a_pods_budget_that_an_operator_holds_is_not_waited_for(scene: Scene) -> None:
    scene.ours(CLOSED)
    scene.pods_budget(0, kept="2026-01-05T04:00:00Z")
    assert scene.value(NIGHT) == OPEN
    scene.ours(OPEN)
    assert scene.value(NIGHT + timedelta(hours=2)) == CLOSED


def test_an_adopted_budget_is_open_at_its_own_minimum() -> None:
    scene = Scene(replace(CONFIG, budgets=(BudgetPolicy(name="api", namespace="ebbtide", open_minimum=2),)))
    scene.ours(CLOSED)
    scene.pdbs.kept["api"] = replace(scene.pdbs.kept["api"], seen=ObservedBudget(max_unavailable=1, minimum=1_000_000))
    assert scene.why(NIGHT) == "pods-budgets-not-open"
    scene.pdbs.kept["api"] = replace(scene.pdbs.kept["api"], seen=ObservedBudget(max_unavailable=1, minimum=2))
    assert scene.value(NIGHT) == OPEN


def test_waiting_for_long_is_a_condition_that_names_the_budget(scene: Scene) -> None:
    scene.ours(CLOSED)
    scene.pods_budget(0)

    assert scene.look(NIGHT).note == ""
    assert "budget ebbtide/api: closed" in scene.look(NIGHT + timedelta(minutes=3)).note


def test_it_closes_before_the_pods_budgets_and_wakes_for_it(scene: Scene) -> None:
    assert BEFORE_OPENING is not None
    closing = BEFORE_OPENING - CONFIG.drain_guard
    scene.ours(OPEN)

    assert scene.look(closing - timedelta(seconds=1)).due == closing
    write = scene.wrote(closing)
    assert (write.body["spec"]["disruption"]["budgets"], write.reason) == (CLOSED, "drain-guard-before-opening")


def test_in_doubt_it_closes(scene: Scene) -> None:
    scene.ours(OPEN)
    assert scene.value(NIGHT, Doubt("the clocks disagree")) == CLOSED


@pytest.mark.parametrize("minutes", [(-3600,), (0, 300)])
def test_by_any_clock_that_says_day_it_is_closed_for_the_day(scene: Scene, minutes: tuple[int, ...]) -> None:
    skew = Doubt("clock skew: the clocks differ", tuple(timedelta(minutes=lead) for lead in minutes))
    scene.ours(OPEN)
    verdict = scene.look(NIGHT, skew)

    assert verdict.write is not None
    assert (verdict.write.body["spec"]["disruption"]["budgets"], verdict.report["why"]) == (CLOSED, "business-hours")
    assert verdict.note == skew.why
    scene.ours(CLOSED)
    assert scene.look(NIGHT, skew).note == skew.why
    assert scene.look(DAY, skew).note == ""


def test_in_doubt_it_closes_even_if_it_cannot_be_read(scene: Scene) -> None:
    scene.ours(OPEN)
    scene.why(NIGHT)
    scene.cache.why = "no answer"
    assert scene.look(NIGHT).write is None
    assert scene.value(NIGHT, Doubt("the clocks disagree")) == CLOSED


def test_a_hold_closes_and_a_pause_leaves_it_alone(scene: Scene) -> None:
    scene.ours(OPEN, **{KEEP_UNTIL: "2026-01-06T00:00:00Z"})
    assert scene.value(NIGHT) == CLOSED
    scene.ours(CLOSED, **{KEEP_UNTIL: "2026-01-05T02:00:00Z"})  # has ended
    assert scene.value(NIGHT) == OPEN
    scene.ours(OPEN, **{PAUSED: "an upgrade"})
    assert (scene.why(NIGHT), scene.why(DAY)) == ("paused-by-an-operator", "paused-by-an-operator")


@pytest.mark.parametrize("how", ["Apply", "Update"])
def test_the_value_of_another_manager_is_left_with_a_condition_that_names_it(scene: Scene, how: str) -> None:
    scene.shows([{"nodes": "1"}], {"flux": how, WORKLOADS: "Apply"})
    verdict = scene.look(DAY)

    assert verdict.write is None
    assert verdict.report["state"] == "held"
    assert "flux" in verdict.note
    assert "spec.disruption.budgets" in verdict.note


def test_the_same_value_of_another_manager_is_no_conflict(scene: Scene) -> None:
    scene.shows(CLOSED, {"flux": "Apply"})
    verdict = scene.look(DAY)

    assert (verdict.write, verdict.note, verdict.report["state"]) == (None, "", "closed")


def test_the_default_of_the_crd_is_taken_over_once(scene: Scene) -> None:
    write = scene.wrote(DAY)
    assert write.forced
    scene.keeper.wrote(write, Outcome.DONE, "")
    scene.ours(CLOSED)
    scene.shows(DEFAULT, {"argocd": "Update"})
    assert scene.why(DAY) == "another-manager"


def test_a_default_that_somebody_applied_is_theirs(scene: Scene) -> None:
    scene.shows(DEFAULT, {"flux": "Apply"})
    assert scene.why(DAY) == "another-manager"


def test_a_write_is_not_repeated_before_the_watch_shows_it(scene: Scene) -> None:
    scene.ours(OPEN)
    scene.keeper.wrote(scene.wrote(DAY), Outcome.DONE, "")
    assert scene.look(DAY + timedelta(seconds=1)).write is None


def test_after_a_write_on_an_old_version_it_lists_again(scene: Scene) -> None:
    scene.ours(OPEN)
    scene.keeper.wrote(scene.wrote(DAY), Outcome.STALE, "")
    assert scene.cache.reconnects == 1


def test_an_open_one_is_closed_even_if_it_cannot_be_read(scene: Scene) -> None:
    scene.ours(OPEN)
    scene.look(NIGHT)
    scene.cache.why = "no answer"
    assert scene.why(NIGHT) == "nodepools-unknown"
    write = scene.wrote(DAY)
    assert (write.body["metadata"], write.forced) == ({"name": "general"}, False)
    scene.keeper.wrote(write, Outcome.DONE, "")
    assert scene.why(DAY) == "nodepools-unknown"


def test_one_that_does_not_exist_is_absent(scene: Scene) -> None:
    scene.cache.kept = {}
    assert scene.why(NIGHT) == "no-such-nodepool"


def test_a_refusal_is_a_condition(scene: Scene) -> None:
    scene.ours(OPEN)
    scene.keeper.wrote(scene.wrote(DAY), Outcome.REFUSED, "forbidden")
    assert "forbidden" in scene.look(DAY).note


@pytest.mark.parametrize("item", [{}, {"spec": None}, {"spec": {"disruption": None}}])
def test_a_node_pool_without_budgets_is_closed(scene: Scene, item: dict[str, Any]) -> None:
    scene.cache.kept = {"general": observed({"metadata": {"resourceVersion": "9"}, **item})}
    assert scene.value(DAY) == CLOSED
