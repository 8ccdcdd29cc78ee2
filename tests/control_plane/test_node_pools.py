"""Disruption budgets of NodePools, written with the rendered rights into an API server with Karpenter's definition."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from components.controller.admission import unchanged
from components.controller.node_pool_rules import budget_rules
from controllers.adapters.kube_api import MERGE_PATCH, ApiError, Json, KubeApi
from controllers.workloads.nodes.budgets import applied
from ebbtide.vocabulary.labels import CLOSER, WORKLOADS
from ebbtide.vocabulary.node_pools import CLOSED, budgets_for
from tests.builders.control_plane import Fresh, eventually
from tests.builders.operation import ALWAYS_NIGHT, Process
from tests.control_plane.support.nodes import ALWAYS_DAY, NODE_POOLS, NodeScene, definition, make_node_scene

pytestmark = pytest.mark.control_plane

OPEN = budgets_for(5)


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Iterator[NodeScene]:
    with make_node_scene(control_plane, fresh, tmp_path) as scene:
        yield scene


def shows(scene: NodeScene, budgets: Any) -> None:
    eventually(lambda: scene.budgets() == budgets, what=f"{budgets}")


def report(process: Process) -> Mapping[str, Any]:
    """Empty before the first reconcile."""
    rows = process.status().get("workloads") or [dict[str, Any]()]
    return rows[0]


def reasons(scene: NodeScene) -> set[str]:
    events = scene.plane.api.get("/api/v1/namespaces/default/events")["items"]
    return {it["reason"] for it in events if it["involvedObject"]["name"] == scene.pool}


def noted(process: Process, words: str) -> None:
    eventually(lambda: words in report(process).get("note", ""), what=words)


def test_a_node_pool_opens_after_the_pods_budgets_and_closes_by_day(scene: NodeScene) -> None:
    scene.fresh.create(NODE_POOLS, scene.node_pool())
    scene.pods_budget(0)
    with scene.leader() as process:
        shows(scene, CLOSED)
        assert scene.owners() == [WORKLOADS]
        scene.hours_are(ALWAYS_NIGHT)
        eventually(lambda: report(process).get("why") == "pods-budgets-not-open", what="to wait for the budget")
        assert scene.budgets() == CLOSED
        scene.pods_budget(1)
        shows(scene, OPEN)
        scene.hours_are(ALWAYS_DAY)
        shows(scene, CLOSED)
        eventually(lambda: report(process)["state"] == "closed", what="its state")
        eventually(lambda: {"BusinessHours", "DisruptionWindowOpen"} <= reasons(scene), what="its Events")
    assert scene.plane.api.get(scene.path)["spec"]["disruption"]["consolidateAfter"] == "1m"


def test_another_managers_value_stays_until_its_lines_are_removed(scene: NodeScene) -> None:
    theirs = [{"nodes": "1"}]
    scene.plane.api.apply(scene.path, scene.node_pool(budgets=theirs), manager="flux")
    scene.fresh.forget_later(scene.path)
    with scene.leader() as process:
        noted(process, "flux manages spec.disruption.budgets")
        assert scene.budgets() == theirs
        scene.plane.api.apply(scene.path, scene.node_pool(), manager="flux")
        shows(scene, CLOSED)
        scene.plane.api.apply(scene.path, scene.node_pool(budgets=CLOSED), manager="flux")
        eventually(lambda: report(process)["note"] == "", what="the end of the condition")
        assert {*scene.owners()} == {"flux", WORKLOADS}


def test_the_closer_closes_what_a_dead_controller_left_open(scene: NodeScene) -> None:
    scene.fresh.create(NODE_POOLS, scene.node_pool())
    scene.pods_budget(1)
    scene.hours_are(ALWAYS_NIGHT)
    with scene.leader():
        shows(scene, OPEN)
    scene.hours_are(ALWAYS_DAY)
    first, second = scene.close_as_cron_would(), scene.close_as_cron_would()

    assert (first.returncode, first.stdout) == (0, f"closer: nodepool {scene.pool} closed\n"), first.stderr
    assert (second.returncode, second.stdout) == (0, "")
    assert (scene.budgets(), scene.owners()) == (CLOSED, [WORKLOADS])


def test_the_closer_leaves_another_managers_value_and_fails(scene: NodeScene) -> None:
    scene.plane.api.apply(scene.path, scene.node_pool(budgets=[{"nodes": "1"}]), manager="flux")
    scene.fresh.forget_later(scene.path)
    run = scene.close_as_cron_would()

    assert run.returncode == 1
    assert "flux" in run.stderr
    assert scene.budgets() == [{"nodes": "1"}]


def _merged(**spec: object) -> Callable[[NodeScene, KubeApi], Json]:
    return lambda scene, api: api.patch(scene.path, {"spec": spec}, MERGE_PATCH)


def _labelled(scene: NodeScene, api: KubeApi) -> Json:
    """Another value each time: before the policy is in force the first one is stored."""
    return api.patch(scene.path, {"metadata": {"labels": {"a": secrets.token_hex(4)}}}, MERGE_PATCH)


def _annotated(scene: NodeScene, api: KubeApi) -> Json:
    return api.patch(scene.path, {"metadata": {"annotations": {"a": "b"}}}, MERGE_PATCH)


def _another(scene: NodeScene, api: KubeApi) -> Json:
    return api.apply(f"{NODE_POOLS}/other-{scene.pool}", applied(f"other-{scene.pool}", 0), manager=WORKLOADS)


REFUSED: dict[str, Callable[[NodeScene, KubeApi], Json]] = {
    "another value": _merged(disruption={"budgets": [{"nodes": "100%"}]}),
    "more drains": _merged(disruption={"budgets": budgets_for(6)}),
    "no budgets": _merged(disruption={"budgets": None}),
    "consolidateAfter": _merged(disruption={"consolidateAfter": "1s"}),
    "consolidationPolicy": _merged(disruption={"consolidationPolicy": "WhenEmpty"}),
    "expireAfter": _merged(template={"spec": {"expireAfter": "1h"}}),
    "limits": _merged(limits={"cpu": "1"}),
    "weight": _merged(weight=7),
    "replicas": _merged(replicas=3),
    "labels": _labelled,
    "annotations": _annotated,
    "another NodePool": _another,
    "delete": lambda scene, api: api.delete(scene.path),
    "create": lambda scene, api: api.create(
        NODE_POOLS, {**scene.node_pool(), "metadata": {"name": f"new-{scene.pool}"}}
    ),
}


def test_the_policy_names_every_other_field_of_a_node_pool() -> None:
    """CEL cannot list them, so a new release of Karpenter may have one more."""
    schema = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    disruption = {f"disruption.{name}" for name in schema["disruption"]["properties"]} - {"disruption.budgets"}

    for name in (schema.keys() - {"disruption"}) | disruption:
        assert unchanged(f"spec.{name}") in budget_rules([]), name


def test_the_accounts_write_the_two_values_and_nothing_else(scene: NodeScene) -> None:
    scene.fresh.create(NODE_POOLS, scene.node_pool())
    scene.fresh.create(NODE_POOLS, {**scene.node_pool(), "metadata": {"name": f"other-{scene.pool}"}})
    controller, closer = (scene.plane.api_as(scene.apps, account) for account in (WORKLOADS, CLOSER))

    def bound() -> bool:
        """A policy is in force some time after its creation."""
        try:
            REFUSED["labels"](scene, controller)
        except ApiError as error:
            return "metadata.labels must stay" in str(error)
        return False

    eventually(bound, what="the admission policy")
    for api in (controller, closer):
        for name, write in REFUSED.items():
            before = deepcopy(scene.plane.api.get(scene.path)["spec"])
            with pytest.raises(ApiError) as refusal:
                write(scene, api)
            assert refusal.value.status in (403, 422), (name, str(refusal.value))
            assert scene.plane.api.get(scene.path)["spec"] == before
        api.apply(scene.path, applied(scene.pool, 0), manager=WORKLOADS)
    controller.apply(scene.path, applied(scene.pool, 5), manager=WORKLOADS, force=False)
    with pytest.raises(ApiError, match="must be closed"):
        closer.apply(scene.path, applied(scene.pool, 5), manager="other")
    closer.apply(scene.path, applied(scene.pool, 0), manager=WORKLOADS, force=False)
    assert scene.budgets() == CLOSED
