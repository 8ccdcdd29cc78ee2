"""The objects of fixed and flexible workloads."""

from dataclasses import replace
from typing import Any

import pytest

from components.ownership import OwnershipTable
from components.pods.secrets import NO_SECRETS, SecretsSource
from components.pods.workload import Workload, WorkloadArgs
from ebbtide.provisioning_labels import NodeKind, ReplicasOwner
from ebbtide.recording.resources import Resource
from ebbtide.settings.sections.entrance import Ingress
from ebbtide.settings.sections.pods.env import EnvSource, EnvVariable
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.sections.pods.volumes import Volume
from ebbtide.settings.sections.workloads import WorkloadKind
from ebbtide.vocabulary.labels import Category
from tests.builders.components import STACK, of_kind, pod_of, recorded, the, workload_settings

SKIP_AWAIT = "pulumi.com/skipAwait"
RECREATE = {"type": "Recreate"}


def workload(
    category: Category = Category.FLEXIBLE,
    node_kind: NodeKind = NodeKind.FLEXIBLE,
    table: OwnershipTable | None = None,
    own: SecretsSource = NO_SECRETS,
    **settings: Any,
) -> tuple[Resource, ...]:
    args = WorkloadArgs(
        stack=replace(STACK, ownership=table, secrets=own),
        name="api",
        namespace="ebbtide",
        settings=workload_settings(category, **settings),
        node_kind=node_kind,
    )
    return recorded(lambda: Workload("api", args))


def test_moving_a_workload_between_categories_replaces_nothing() -> None:
    fixed, flexible = workload(Category.FIXED), workload(Category.FLEXIBLE)

    assert [resource.urn for resource in fixed] == [resource.urn for resource in flexible]
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert the(fixed, kind).inputs["spec"]["selector"] == the(flexible, kind).inputs["spec"]["selector"]
        assert the(fixed, kind).inputs["metadata"]["name"] == "api"


def test_fixed_pods_alone_carry_the_anti_affinity_terms() -> None:
    fixed = pod_of(the(workload(Category.FIXED), "Deployment"))["affinity"]
    flexible = pod_of(the(workload(), "Deployment"))["affinity"]

    term = fixed["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["namespaceSelector"] == {}
    assert term["labelSelector"]["matchExpressions"][0]["values"] == ["flexible", "worker"]
    assert "podAntiAffinity" not in flexible


def test_replicas_are_pulumis_unless_somebody_else_owns_them() -> None:
    deployment = the(workload(), "Deployment")

    assert deployment.ignore_changes == ()
    assert deployment.inputs["spec"]["replicas"] == 3
    assert "annotations" not in deployment.inputs["metadata"]


@pytest.mark.parametrize(
    ("owner", "writer"), [(ReplicasOwner.CONTROLLER, "workload-controller"), (ReplicasOwner.HPA, "hpa")]
)
@pytest.mark.parametrize(
    ("kind", "type_"), [(WorkloadKind.DEPLOYMENT, "Deployment"), (WorkloadKind.STATEFUL_SET, "StatefulSet")]
)
def test_replicas_of_another_owner_are_declared_once(
    owner: ReplicasOwner, writer: str, kind: WorkloadKind, type_: str
) -> None:
    table = OwnershipTable()
    resource = the(workload(Category.FIXED, table=table, kind=kind, replicas_owner=owner), type_)

    assert resource.ignore_changes == ("spec.replicas",)
    assert resource.inputs["spec"]["replicas"] == 3
    assert resource.inputs["metadata"]["annotations"] == {"ebbtide.dev/replicas-owner": owner.value}
    assert [(row.kind, row.field, row.owner, row.initial) for row in table.rows] == [
        (type_, "spec.replicas", writer, 3)
    ]


def test_up_waits_for_a_workload_only_where_pods_can_come_at_once() -> None:
    def annotations(**settings: Any) -> dict[str, str]:
        return the(workload(**settings), "Deployment").inputs["metadata"].get("annotations", {})

    assert annotations(gpu=Gpu(count=1), node_kind=NodeKind.GPU) == {SKIP_AWAIT: "true"}
    assert annotations(replicas=0) == {SKIP_AWAIT: "true"}
    assert annotations() == {}


OF_OTHERS: dict[str, dict[str, Any]] = {
    "a variable of a Secret": {"env": {"KEY": EnvVariable(secret="db", key="key")}},
    "all of a Secret": {"env_from": (EnvSource(secret="db"),)},
    "a file of a Secret": {"volumes": {"v": Volume(at="/v", secret="db")}},
    "a variable of a ConfigMap": {"env": {"FLAG": EnvVariable(config_map="flags", key="flag")}},
    "all of a ConfigMap": {"env_from": (EnvSource(config_map="flags"),)},
    "files of a ConfigMap": {"volumes": {"v": Volume(at="/v", config_map="flags")}},
    "a claim": {"volumes": {"v": Volume(at="/v", claim="data")}},
    "an account": {"service_account": "reports"},
    "a Secret in a fragment": {"pod": {"volumes": [{"name": "v", "secret": {"secretName": "db"}}]}},
    "a claim in a fragment": {"pod": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}},
}


@pytest.mark.parametrize("kind", [WorkloadKind.DEPLOYMENT, WorkloadKind.STATEFUL_SET])
@pytest.mark.parametrize("named", OF_OTHERS)
def test_up_does_not_wait_for_what_somebody_else_makes(named: str, kind: WorkloadKind) -> None:
    """Others can create it only after the first `up` has created the stack's namespaces."""
    resources = workload(kind=kind, ports={"http": 80}, **OF_OTHERS[named])
    waited = ["Deployment", "Service"] if kind is WorkloadKind.DEPLOYMENT else ["StatefulSet"]

    assert {the(resources, each).inputs["metadata"]["annotations"].get(SKIP_AWAIT) for each in waited} == {"true"}


@pytest.mark.parametrize(
    "settings",
    [
        {"env": {"KEY": EnvVariable(secret="db", key="key")}},
        {"env": {"KEY": EnvVariable(secret="ebbtide-redis", key="url")}},
        {"volumes": {"v": Volume(at="/v", files={"a": "b"})}},
        {"ingress": Ingress(host="api.example.com", tls="api-tls"), "ports": {"http": 80}},
    ],
)
def test_up_waits_for_pods_that_have_all_they_name(settings: dict[str, Any]) -> None:
    resources = workload(own=SecretsSource(keys={"db": ("key",)}), **settings)

    assert SKIP_AWAIT not in the(resources, "Deployment").inputs["metadata"].get("annotations", {})


def strategy(category: Category = Category.FLEXIBLE, **settings: Any) -> dict[str, Any]:
    return the(workload(category, **settings), "Deployment").inputs["spec"]["strategy"]


def test_a_rollout_never_needs_room_on_fixed_nodes_nor_takes_a_flexible_replica_away() -> None:
    assert strategy(Category.FIXED)["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert strategy()["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_fixed_pod_that_is_alone_never_runs_beside_the_next_one() -> None:
    assert strategy(Category.FIXED, replicas=1) == RECREATE
    assert strategy(Category.FIXED, replicas=2)["type"] == "RollingUpdate"
    assert strategy(replicas=1)["type"] == "RollingUpdate"


def claim(**said: Any) -> dict[str, Any]:
    return {"volumes": {"data": Volume(at="/data", claim="data", **said)}}


@pytest.mark.parametrize(
    ("settings", "ends_first"),
    [
        ({**claim(), "replicas": 1}, True),
        ({**claim(shared=True), "replicas": 1}, False),
        ({**claim(), "replicas": 2}, False),  # of which each node has one: they could not run on a claim of one node
        ({**claim(shared=False), "replicas": 2}, True),
        ({**claim(), "replicas": 1, "replicas_owner": ReplicasOwner.HPA}, False),
        ({"volumes": {"cache": Volume.model_validate({"at": "/cache", "scratch": "1Gi"})}, "replicas": 1}, False),
        ({"pod": {"volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "x"}}]}, "replicas": 1}, True),
    ],
)
def test_two_pods_of_a_release_never_wait_for_one_claim(settings: dict[str, Any], ends_first: bool) -> None:
    assert (strategy(**settings) == RECREATE) is ends_first


def test_every_child_belongs_to_the_component() -> None:
    component, *children = workload(kind=WorkloadKind.STATEFUL_SET)

    assert component.type == "ebbtide:components:Workload"
    assert {child.parent for child in children} == {component.urn}
    assert len(of_kind(children, "PodDisruptionBudget")) == 1
