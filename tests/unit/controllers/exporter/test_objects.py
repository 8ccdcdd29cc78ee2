"""The cached parts of complete and incomplete objects."""

from typing import Any

import pytest

from controllers.adapters.kube_api import Json
from controllers.exporter.objects import Amounts, Hpa, closing_job, hpa, node, pod
from tests.builders.monitoring import cluster_objects as objects
from tests.builders.monitoring.cluster_objects import container

GI = 2**30
SIDECAR = {"restartPolicy": "Always"}


def requested(*containers: Json, init: tuple[Json, ...] = (), **more: Any) -> tuple[float | None, float | None]:
    """Cores and GiB."""
    item = objects.pod("p", *containers)
    item["spec"] |= {"initContainers": [*init], **more}
    asked = pod(item).requested
    return asked.cpu, None if asked.memory is None else asked.memory / GI


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_reports_its_capacity_and_not_its_allocatable_part() -> None:
    found = node(objects.node())

    assert found.capacity == Amounts(cpu=4.0, memory=16069060 * 1024.0, gpus=1.0)
    assert (found.group, found.kind, found.instance_type) == ("gpu", "gpu", "g5.xlarge")
    assert (found.capacity_type, found.zone) == ("ON_DEMAND", "us-east-1a")
    assert found.created == 1795413480.0


def test_a_node_of_karpenter_reports_its_capacity_type() -> None:
    item = objects.node(**{"karpenter.sh/capacity-type": "spot"})
    del item["metadata"]["labels"]["eks.amazonaws.com/capacityType"]

    assert node(item).capacity_type == "spot"


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_that_is_silent_is_not_ready(status: str, ready: bool) -> None:
    item = objects.node()
    item["status"]["conditions"] = [{"type": "Ready", "status": status}]

    assert node(item).ready is ready


@pytest.mark.parametrize("status", [{}, None, {"capacity": None, "conditions": None}])
def test_a_node_that_has_just_come_tells_nothing_that_it_does_not_know(status: Any) -> None:
    found = node({"metadata": {"name": "n1"}, "status": status})

    assert found.capacity == Amounts(cpu=None, memory=None, gpus=None)
    assert (found.ready, found.created) == (None, None)
    assert {found.group, found.kind, found.instance_type, found.capacity_type, found.zone} == {""}


def test_an_amount_that_cannot_be_read_is_unknown_and_the_others_are_not() -> None:
    item = objects.node()
    item["status"]["capacity"]["memory"] = "much"

    assert node(item).capacity == Amounts(cpu=4.0, memory=None, gpus=1.0)


# --- what pods ask for ------------------------------------------------------------------------------------------------


def test_containers_add_up() -> None:
    assert requested(container("1500m", "1Gi"), container("250m", "512Mi")) == (1.75, 1.5)


@pytest.mark.parametrize(("ask", "cpu"), [("3", 3.0), ("1", 2.0)])
def test_a_larger_init_container_counts_in_place_of_the_others(ask: str, cpu: float) -> None:
    assert requested(container("2", "1Gi"), init=(container(ask, "1Gi"),)) == (cpu, 1.0)


def test_init_containers_run_one_after_the_other_and_do_not_add_up() -> None:
    assert requested(container("1", "1Gi"), init=(container("2", "1Gi"), container("3", "1Gi"))) == (3.0, 1.0)


def test_a_sidecar_runs_beside_the_containers() -> None:
    assert requested(container("1", "1Gi"), init=(container("500m", "1Gi", **SIDECAR),)) == (1.5, 2.0)


def test_a_sidecar_runs_beside_the_init_containers_after_it_and_not_before_it() -> None:
    sidecar, large = container("1", "1Gi", **SIDECAR), container("4", "1Gi")

    assert requested(container("2", "1Gi"), init=(sidecar, large))[0] == 5.0
    assert requested(container("2", "1Gi"), init=(large, sidecar))[0] == 4.0


def test_the_overhead_of_a_pod_is_added() -> None:
    assert requested(container("1", "1Gi"), overhead={"cpu": "250m", "memory": "512Mi"}) == (1.25, 1.5)


def test_what_a_pod_asks_for_as_a_whole_goes_first_resource_by_resource() -> None:
    whole = {"requests": {"cpu": "3"}}

    assert requested(container("1", "1Gi"), resources=whole, overhead={"cpu": "1"}) == (4.0, 1.0)


@pytest.mark.parametrize(
    ("reason", "wanted", "cpu"),
    [("Deferred", "4", 4.0), ("Deferred", "1", 2.0), ("Infeasible", "4", 2.0), ("", "1", 2.0)],
)
def test_a_container_that_is_resized_in_place_reserves_what_the_scheduler_says(
    reason: str, wanted: str, cpu: float
) -> None:
    """2 CPUs are allocated; the spec already has what is wanted."""
    item = objects.pod()
    item["spec"]["containers"] = [{**container(wanted, "1Gi"), "name": "main"}]
    held = {"cpu": "2", "memory": "1Gi"}
    state = {"name": "main", "allocatedResources": held, "resources": {"requests": held}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    item["status"] = {"phase": "Running", "containerStatuses": [state], "conditions": conditions}

    assert pod(item).requested.cpu == cpu


def test_gpus_are_requested_too() -> None:
    assert pod(objects.pod()).requested.gpus == 1.0
    assert pod(objects.pod("p", container())).requested.gpus == 0.0


def test_an_amount_of_one_container_that_cannot_be_read_leaves_the_pods_unknown() -> None:
    assert requested(container("1", "1Gi"), container("many", "1Gi")) == (None, 2.0)


@pytest.mark.parametrize("resources", [{}, {"requests": None}, None])
def test_a_container_that_asks_for_nothing_asks_for_nothing(resources: Any) -> None:
    assert requested({"name": "main", "resources": resources}) == (0.0, 0.0)


# --- what befalls pods ------------------------------------------------------------------------------------------------


def test_restarts_of_all_containers_are_kept_sidecars_too() -> None:
    sidecar = {**objects.container_status(2), "name": "side"}
    found = pod(objects.pod(containerStatuses=[objects.container_status(3)], initContainerStatuses=[sidecar]))

    assert dict(found.restarts) == {"main": 3, "side": 2}


@pytest.mark.parametrize("state", ["state", "last"])
def test_a_container_without_memory_is_seen_while_it_is_down_and_after_it(state: str) -> None:
    status = objects.container_status(1, **{state: objects.ended("OOMKilled", "2026-11-23T11:59:00Z")})

    assert pod(objects.pod(containerStatuses=[status])).out_of_memory == (("main", "2026-11-23T11:59:00Z"),)


def test_another_end_is_no_lack_of_memory() -> None:
    assert pod(objects.pod(containerStatuses=[objects.container_status(1, last=objects.ended("Error"))])) == pod(
        objects.pod(containerStatuses=[objects.container_status(1)])
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"conditions": [objects.disrupted("PreemptionByScheduler")]}, "PreemptionByScheduler"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"reason": "Evicted", "conditions": [objects.disrupted("TerminationByKubelet")]}, "TerminationByKubelet"),
        ({"conditions": [{**objects.disrupted(), "status": "False"}]}, ""),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, "unknown"),
        ({"reason": "NodeLost"}, ""),
        ({}, ""),
    ],
)
def test_why_a_pod_has_to_go(status: Json, reason: str) -> None:
    assert pod(objects.pod(**status)).disruption == reason


@pytest.mark.parametrize(("phase", "over"), [("Succeeded", True), ("Failed", True), ("Running", False), ("New", False)])
def test_a_pod_that_has_ended(phase: str, over: bool) -> None:
    assert pod(objects.pod(phase=phase)).ended is over


@pytest.mark.parametrize(
    "item",
    [
        {"metadata": {"name": "p"}},
        {"metadata": {"name": "p", "labels": None}, "spec": None, "status": None},
        {
            "metadata": {"name": "p"},
            "spec": {"containers": None, "initContainers": None, "overhead": None, "nodeName": None},
            "status": {"containerStatuses": None, "conditions": None},
        },
        {"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "main", "lastState": None}]}},
    ],
)
def test_a_pod_of_which_only_a_part_is_there(item: Json) -> None:
    found = pod(item)

    assert (found.name, found.node, found.workload, found.disruption, found.ended) == ("p", "", "", "", False)
    assert found.out_of_memory == ()


def test_pods_of_one_workload_share_their_labels_and_others_have_their_own() -> None:
    """Labels would be most of the cache's memory."""
    items = [objects.pod(name) for name in ("a-1", "a-2", "b-1")]
    for item, app in zip(items, "aab", strict=True):
        item["metadata"]["labels"] = {"tier": "web", "app": app}
    first, second, other = (pod(item).labels for item in items)

    assert first is second
    assert (dict(first), dict(other)) == ({"app": "a", "tier": "web"}, {"app": "b", "tier": "web"})


# --- HPAs and the closer ----------------------------------------------------------------------------------------------


def test_an_hpa_reports_its_state_and_its_target() -> None:
    assert hpa(objects.hpa(ScalingActive="False")) == Hpa(
        namespace="ebbtide", name="api", scaling_active=False, able_to_scale=True, replicas=2, wanted=3, most=6
    )


def test_an_unknown_condition_is_omitted() -> None:
    assert hpa(objects.hpa(ScalingActive="Unknown")).scaling_active is None


def test_an_hpa_that_has_never_looked_wants_nothing_and_not_zero() -> None:
    """Its status has `desiredReplicas: 0` from the start."""
    item = {**objects.hpa(), "status": {"desiredReplicas": 0, "currentMetrics": None}}

    found = hpa(item)
    assert (found.replicas, found.wanted, found.most) == (None, None, 6)
    assert (found.scaling_active, found.able_to_scale) == (None, None)


def test_of_an_hpa_that_has_looked_a_zero_that_is_left_out_is_one() -> None:
    item = objects.hpa()
    del item["status"]["currentReplicas"]

    assert hpa(item).replicas == 0


def test_the_closers_jobs_are_known_by_their_pods_and_others_are_left_alone() -> None:
    found = closing_job(objects.closing_job())

    assert found is not None
    assert found.last_success == found.last_schedule + 9.0 == 1795434609.0  # pyright: ignore[reportOptionalOperand] - both are there
    assert closing_job(objects.closing_job("nightly-report")) is None
    assert closing_job({"metadata": {"name": "x"}}) is None


@pytest.mark.parametrize("status", [{}, None, {"lastSuccessfulTime": None}, {"lastSuccessfulTime": "yesterday"}])
def test_a_closer_that_has_not_run_yet_has_no_times(status: Any) -> None:
    found = closing_job({**objects.closing_job(), "status": status})

    assert found is not None
    assert (found.last_success, found.last_schedule) == (None, None)
