"""Which claims a cluster's objects use, while no pod mounts them."""

from collections.abc import Mapping
from typing import Any

import pytest

from ebbtide.operate.api import CannotOperate, OperatorApi
from ebbtide.operate.idle.claims import Claims, Undecided, Unused, Used
from tests.builders.claims import TEAM, claims_in, lists

GONE, UNNAMED = "its claim is gone", "no pod template names its claim; custom resources were not read"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hub", "controller": True}


def pod(claim: str = "disk") -> dict[str, Any]:
    return {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}


def item(spec: Mapping[str, Any], name: str = "db", **rest: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **rest.pop("meta", {})}, "spec": spec, **rest}


def template(**rest: Any) -> dict[str, Any]:
    return {"template": {"spec": pod()}, **rest}


def claim(name: str, owner: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "ownerReferences": [owner] if owner else []}}


SET = item({"replicas": 0, "volumeClaimTemplates": [{"metadata": {"name": "data"}}], "template": {"spec": {}}})
CRON = {"schedule": "@monthly", "suspend": True, "jobTemplate": {"spec": template()}}
RAY: dict[str, Any] = {"headGroupSpec": {"template": {"spec": {}}}, "workerGroupSpecs": [template(replicas=0)]}


@pytest.mark.parametrize(
    ("kind", "found", "name"),
    [
        ("statefulsets", SET, "data-db-0"),
        ("statefulsets", SET, "data-db-12"),
        ("statefulsets", item(template(replicas=0)), "disk"),
        ("deployments", item(template(replicas=0)), "disk"),
        ("daemonsets", item(template()), "disk"),
        ("replicasets", item(template(replicas=0)), "disk"),
        ("replicationcontrollers", item(template(replicas=0)), "disk"),
        ("cronjobs", item(CRON), "disk"),
        (
            "jobs",
            item(template(suspend=True), status={"conditions": [{"type": "Suspended", "status": "True"}]}),
            "disk",
        ),
        ("jobs", item(template(), status={"conditions": [{"type": "Complete", "status": "False"}]}), "disk"),
        ("pods", item(pod(), status={"phase": "Pending"}), "disk"),
        ("rayclusters", item({"suspend": True, **RAY}), "disk"),
        ("rayjobs", item({"rayClusterSpec": RAY}), "disk"),
        ("rayjobs", item({"rayClusterSpec": RAY}, status={"jobDeploymentStatus": "Retrying"}), "disk"),
        ("rayservices", item({"rayClusterConfig": RAY}), "disk"),
    ],
)
def test_a_claim_that_the_next_pod_of_an_object_mounts_is_used(kind: str, found: Any, name: str) -> None:
    claims = claims_in(lists({kind: [found], "persistentvolumeclaims": [claim(name)]}))

    assert claims.state(TEAM, name) == Used()
    assert claims.state("ebbtide", name) == Unused(GONE)  # another namespace's claim of this name


@pytest.mark.parametrize(
    ("kind", "found", "name"),
    [
        ("statefulsets", SET, "data-db"),
        ("statefulsets", SET, "data-db-old"),
        ("statefulsets", SET, "data-db2-0"),
        ("deployments", item(template(), name="disk"), "other"),
        ("replicasets", item(template(replicas=0), meta={"ownerReferences": [DEPLOYMENT]}), "disk"),
        ("jobs", item(template(), status={"conditions": [{"type": "Complete", "status": "True"}]}), "disk"),
        ("jobs", item(template(), status={"conditions": [{"type": "Failed", "status": "True"}]}), "disk"),
        ("rayjobs", item({"rayClusterSpec": RAY}, status={"jobDeploymentStatus": "Complete"}), "disk"),
        ("rayjobs", item({"rayClusterSpec": RAY}, status={"jobDeploymentStatus": "Failed"}), "disk"),
        ("pods", item(pod(), status={"phase": "Succeeded"}), "disk"),
    ],
)
def test_a_claim_that_no_next_pod_mounts_is_unused_and_what_was_not_read_is_said(
    kind: str, found: Any, name: str
) -> None:
    claims = claims_in(lists({kind: [found], "persistentvolumeclaims": [claim(name)]}))

    assert claims.state(TEAM, name) == Unused(UNNAMED)


def test_a_claim_of_a_custom_resource_is_not_judged() -> None:
    owned = claim("pg-1", {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "pg"})

    state = claims_in(lists({"persistentvolumeclaims": [owned]})).state(TEAM, "pg-1")

    assert state == Undecided("belongs to Cluster pg, a custom resource that was not read")


def test_a_claim_of_a_set_that_deletes_its_claims_is_judged_by_the_set() -> None:
    owned = claim("data-db-0", {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"})

    assert claims_in(lists({"persistentvolumeclaims": [owned]})).state(TEAM, "data-db-0") == Unused(UNNAMED)


def test_a_cluster_without_kuberay_is_read() -> None:
    answers = lists({"persistentvolumeclaims": [claim("disk")]})
    without_ray = {path: answer for path, answer in answers.items() if "ray.io" not in path}

    assert claims_in(without_ray).state(TEAM, "disk") == Unused(UNNAMED)


@pytest.mark.parametrize(
    "kind",
    [
        "/api/v1/namespaces/team/persistentvolumeclaims",
        "/apis/batch/v1/namespaces/team/jobs",
        "/apis/ray.io/v1/namespaces/team/rayclusters",
    ],
)
def test_a_list_that_is_refused_leaves_the_namespace_undecided(kind: str) -> None:
    claims = claims_in({**lists(), kind: 403})

    state = claims.state(TEAM, "disk")
    assert isinstance(state, Undecided)
    assert f"GET {kind}: no" in state.why
    assert claims.state("ebbtide", "disk") == Unused(GONE)


def test_in_the_cluster_of_another_customer_nothing_is_judged() -> None:
    state = claims_in(lists(customer="other")).state(TEAM, "disk")

    assert isinstance(state, Undecided)
    assert state.why.startswith("this cluster belongs to customer other, the stack to acme")


def test_without_a_cluster_the_reason_is_kept() -> None:
    def nowhere() -> OperatorApi:
        raise CannotOperate("no cluster: kubeconfig x: no such file")

    assert Claims(nowhere, "acme").state(TEAM, "disk") == Undecided("no cluster: kubeconfig x: no such file")
