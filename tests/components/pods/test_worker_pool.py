"""The objects of a worker pool: zero replicas, a closed budget, and workers that stop safely."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from components.cluster.namespaces import Namespaces
from components.ownership import OwnershipTable
from components.pods.rules import NodeRequirement, one_of_groups
from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from ebbtide.recording.resources import Resource
from ebbtide.settings.sections.checkpoints import CheckpointSettings
from ebbtide.settings.sections.workers import Source
from tests.builders.components import REDIS, STACK, of_kind, pod_of, recorded, the, worker_settings


def pool(
    table: OwnershipTable | None = None,
    *,
    stopped_together: bool = False,
    nodes: NodeRequirement | None = None,
    **settings: Any,
) -> tuple[Resource, ...]:
    args = WorkerPoolArgs(
        stack=replace(STACK, ownership=table),
        name="train",
        settings=worker_settings(**settings),
        redis=REDIS,
        stopped_together=stopped_together,
        nodes=nodes,
    )
    return recorded(lambda: WorkerPool("train", args))


def test_a_pool_starts_at_its_minimum_and_the_controller_takes_it_from_there() -> None:
    table = OwnershipTable()
    deployment = the(pool(table), "Deployment")

    assert deployment.inputs["spec"]["replicas"] == 0
    assert deployment.ignore_changes == ("spec.replicas",)
    assert deployment.inputs["metadata"]["annotations"]["ebbtide.dev/replicas-owner"] == "controller"
    assert [(row.kind, row.field, row.owner, row.initial) for row in table.rows] == [
        ("Deployment", "spec.replicas", "controller", 0)
    ]
    assert the(pool(min=2), "Deployment").inputs["spec"]["replicas"] == 2


def test_namespaces_enforce_the_restricted_level() -> None:
    for namespace in of_kind(recorded(lambda: Namespaces("namespaces", STACK)), "Namespace"):
        assert namespace.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("longest", [timedelta(seconds=90), timedelta(hours=2), timedelta(hours=12)])
def test_a_stopped_worker_may_end_its_longest_job(longest: timedelta) -> None:
    grace = pod_of(the(pool(longest_job=longest), "Deployment"))["terminationGracePeriodSeconds"]

    assert longest < timedelta(seconds=grace) <= longest + timedelta(minutes=3)


def test_no_probe_can_choose_a_victim() -> None:
    container = pod_of(the(pool(), "Deployment"))["containers"][0]

    assert not {"readinessProbe", "livenessProbe", "startupProbe"} & container.keys()


def test_a_rollout_adds_no_pods_and_does_not_wait_for_nodes() -> None:
    deployment = the(pool(), "Deployment")

    assert deployment.inputs["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"},
    }
    assert deployment.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


def test_signals_reach_the_worker_itself_even_while_it_imports() -> None:
    pod = pod_of(the(pool(source=Source(queues=("train", "train-low"))), "Deployment"))
    command = pod["containers"][0]["command"]

    assert command[:2] == ["rq", "worker"]
    assert command[-2:] == ["train", "train-low"]
    assert pod["shareProcessNamespace"] is True


def test_the_password_reaches_the_worker_only_through_the_secret() -> None:
    environment = {item["name"]: item for item in pod_of(the(pool(), "Deployment"))["containers"][0]["env"]}

    assert environment["RQ_REDIS_URL"]["valueFrom"]["secretKeyRef"] == {"name": "ebbtide-redis", "key": "url"}
    assert environment["REDIS_PASSWORD"]["valueFrom"]["secretKeyRef"] == {"name": "ebbtide-redis", "key": "password"}
    assert environment["REDIS_HOST"]["value"] == "ebbtide-redis.ebbtide.svc"


def checkpoints(**given: Any) -> CheckpointSettings:
    return CheckpointSettings.model_validate(given)


@pytest.mark.parametrize(("required", "grace"), [(False, 12 * 3600 + 120), (True, 240)])
def test_only_a_worker_whose_jobs_must_save_gets_the_time_of_a_save(required: bool, grace: int) -> None:
    given = checkpoints(store="s3://acme-checkpoints", required=required)

    assert pod_of(the(pool(checkpoints=given), "Deployment"))["terminationGracePeriodSeconds"] == grace


def test_the_budget_of_a_pool_with_checkpoints_is_born_closed_and_the_controllers_to_open() -> None:
    table = OwnershipTable()
    budget = the(pool(table, checkpoints=checkpoints(store="s3://acme-checkpoints")), "PodDisruptionBudget")

    assert budget.inputs["spec"]["maxUnavailable"] == 0
    assert budget.inputs["spec"]["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"
    assert budget.ignore_changes == ("spec.maxUnavailable",)
    assert [
        (row.kind, row.name, row.owner, row.initial) for row in table.rows if row.field == "spec.maxUnavailable"
    ] == [("PodDisruptionBudget", "train", "controller", 0)]


def test_workers_that_are_told_together_have_an_open_budget_of_pulumis_own_which_the_autoscaler_may_not_use() -> None:
    table = OwnershipTable()
    given = checkpoints(store="s3://acme-checkpoints", required=True)
    resources = pool(table, stopped_together=True, checkpoints=given, annotations={"team": "a"})
    budget = the(resources, "PodDisruptionBudget")

    assert (budget.inputs["metadata"]["name"], budget.inputs["spec"]["maxUnavailable"]) == ("train.spot", "100%")
    assert budget.ignore_changes == ()
    assert {row.field for row in table.rows} == {"spec.replicas"}
    annotations = the(resources, "Deployment").inputs["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"team": "a", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def test_workers_with_a_fallback_may_use_both_groups_prefer_the_first_and_are_not_spread_over_the_two() -> None:
    given = checkpoints(store="s3://acme-checkpoints", required=True)
    pod = pod_of(
        the(
            pool(nodes=one_of_groups(("spot", "flexible")), checkpoints=given, node_group="spot", fallback="flexible"),
            "Deployment",
        )
    )

    def groups(*names: str) -> dict[str, Any]:
        return {"matchExpressions": [{"key": "ebbtide.dev/node-group", "operator": "In", "values": [*names]}]}

    affinity = pod["affinity"]["nodeAffinity"]
    assert pod["nodeSelector"] == {}
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [groups("flexible", "spot")]
    }
    assert affinity["preferredDuringSchedulingIgnoredDuringExecution"] == [
        {"weight": 100, "preference": groups("spot")}
    ]
    assert {each["topologyKey"] for each in pod["topologySpreadConstraints"]} == {"kubernetes.io/os"}
