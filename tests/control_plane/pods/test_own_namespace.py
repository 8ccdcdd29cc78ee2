"""A workload that starts pods, on a real API server: what its account may do, and which pods it may start."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import install

from controllers.adapters.kube_api import ApiError, Json, KubeApi
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import CATEGORY, CLOSED_MINIMUM, NAMESPACE, WORKLOAD
from tests.builders.control_plane import eventually
from tests.builders.rights import SECRET, hub_stack

pytestmark = pytest.mark.control_plane

OWN = "ebbtide-hub"
PODS = f"/api/v1/namespaces/{OWN}/pods"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SPACES = (OWN, NAMESPACE, WORKER_NAMESPACE)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With the stack of a hub on it, and in the end without."""
    stack = install(control_plane, hub_stack(), tmp_path_factory.mktemp("own-namespace"))
    eventually(lambda: own_pods(control_plane.api), what="the hub's own pod, by its Deployment")
    yield control_plane
    control_plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", str(stack.folder / "kubernetes"))
    eventually(lambda: not spaces(control_plane.api), what="the stack's namespaces to be gone", patience=60)


@pytest.fixture
def hub(plane: ControlPlane) -> Iterator[KubeApi]:
    """The API server, asked by the hub itself."""
    yield plane.api_as(OWN, "hub")
    for pod in plane.api.get(PODS)["items"]:
        if pod["metadata"]["labels"][WORKLOAD] != "hub":
            plane.api.delete(f"{PODS}/{pod['metadata']['name']}")
    eventually(lambda: plane.api.get(PODS)["items"] == own_pods(plane.api), what="the started pods to be gone")


def spaces(api: KubeApi) -> set[str]:
    return {item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]} & {*SPACES}


def own_pods(api: KubeApi) -> list[Json]:
    return [pod for pod in api.get(PODS)["items"] if pod["metadata"]["labels"][WORKLOAD] == "hub"]


# --- its rights -------------------------------------------------------------------------------------------------------


def may(plane: ControlPlane, verb: str, what: str, namespace: str = OWN, name: str = "") -> bool:
    group, _, resource = what.rpartition(":")
    resource, _, part = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": part, "namespace": namespace}
    account = f"system:serviceaccount:{OWN}:hub"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{OWN}", "system:authenticated"]
    spec = {"user": account, "groups": groups, "resourceAttributes": {**asked, "name": name}}
    answer = plane.api.create(REVIEWS, {"spec": spec})
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize(
    ("verb", "what", "name"),
    [
        *((verb, "pods", "") for verb in ("get", "list", "watch", "create", "patch", "delete")),
        *((verb, "secrets", SECRET) for verb in ("get", "update")),
        ("create", "batch:jobs", ""),
    ],
)
def test_it_may_do_what_the_file_says_in_its_own_namespace_alone(
    plane: ControlPlane, verb: str, what: str, name: str
) -> None:
    assert [may(plane, verb, what, namespace, name) for namespace in (*SPACES, "kube-system", "")] == [
        True,
        *(False,) * 4,
    ]


@pytest.mark.parametrize("namespace", [*SPACES, "kube-system", ""])
@pytest.mark.parametrize(
    ("verb", "what"),
    [
        *((verb, "policy:poddisruptionbudgets") for verb in ("get", "create", "patch", "delete")),
        *((verb, "secrets") for verb in ("get", "list", "create")),
        *((verb, "apps:deployments") for verb in ("get", "create", "patch")),
        ("patch", "apps:deployments/scale"),
        ("create", "pods/eviction"),
        ("create", "serviceaccounts/token"),
        ("create", "rbac.authorization.k8s.io:roles"),
        ("bind", "rbac.authorization.k8s.io:roles"),
        ("create", "rbac.authorization.k8s.io:rolebindings"),
        ("impersonate", "serviceaccounts"),
        ("delete", "networking.k8s.io:networkpolicies"),
        ("patch", "admissionregistration.k8s.io:validatingadmissionpolicies"),
        ("patch", "nodes"),
    ],
)
def test_it_may_do_nothing_else_anywhere(plane: ControlPlane, verb: str, what: str, namespace: str) -> None:
    assert not may(plane, verb, what, namespace)


def test_another_secret_of_its_namespace_is_not_its_own(plane: ControlPlane) -> None:
    assert not may(plane, "get", "secrets", name="tls")


def test_the_closer_may_close_its_budgets_and_no_other_there(plane: ControlPlane) -> None:
    closer = plane.api_as(NAMESPACE, "ebbtide-closer")
    path = f"/apis/policy/v1/namespaces/{OWN}/poddisruptionbudgets"

    assert closer.get(f"{path}/hub")["spec"]["maxUnavailable"] == 0
    assert closer.get(f"{path}/hub-pods")["spec"]["minAvailable"] == CLOSED_MINIMUM
    with pytest.raises(ApiError) as refused:
        closer.get(f"{path}/somebodys")
    assert refused.value.status == 403


# --- the pods that it starts ------------------------------------------------------------------------------------------

CONTAINER: Mapping[str, Any] = {
    "name": "notebook",
    "image": "notebook:1",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
SPEC: Mapping[str, Any] = {
    "nodeSelector": {"ebbtide.dev/node-kind": "flexible"},
    "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [CONTAINER],
}
LABELS = {WORKLOAD: "hub-pods", CATEGORY: "worker"}
BARE = {key: value for key, value in CONTAINER.items() if key != "resources"}


def pod(labels: Mapping[str, str] = LABELS, **spec: Any) -> Json:
    body = {"metadata": {"name": "notebook", "labels": {**labels}}, "spec": {**SPEC, **spec}}
    return copy.deepcopy(body)


def refusal(api: KubeApi, body: Json) -> str:
    with pytest.raises(ApiError) as refused:
        api.create(PODS, body)
    assert refused.value.status in (403, 422)
    return str(refused.value)


def test_a_pod_that_keeps_the_promises_is_started_and_ended(hub: KubeApi) -> None:
    hub.create(PODS, pod())

    assert hub.get(f"{PODS}/notebook")["metadata"]["labels"] == LABELS
    hub.delete(f"{PODS}/notebook")


@pytest.mark.parametrize("kind", ["flexible", "gpu"])
def test_it_may_go_to_nodes_that_may_go(hub: KubeApi, kind: str) -> None:
    assert hub.create(PODS, pod(nodeSelector={"ebbtide.dev/node-kind": kind}))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (pod({}), "needs the labels"),
        (pod({WORKLOAD: "hub-pods"}), "needs the labels"),
        (pod({**LABELS, CATEGORY: "flexible"}), "needs the labels"),
        (pod({**LABELS, WORKLOAD: "api"}), "needs the labels"),
        (pod({**LABELS, WORKLOAD: "hub"}), "its own Deployment or StatefulSet"),
        (pod(containers=[BARE]), "requests for cpu and memory"),
        (pod(containers=[CONTAINER, {**BARE, "name": "side"}]), "requests for cpu and memory"),
        (pod(nodeSelector={}), "a nodeSelector is needed"),
        (pod(nodeSelector={"ebbtide.dev/node-kind": "fixed"}), "a nodeSelector is needed"),
        (pod(priorityClassName="system-cluster-critical"), "no priority above 0"),
        (pod(containers=[{**CONTAINER, "securityContext": {}}]), "PodSecurity"),
    ],
)
def test_a_pod_that_breaks_a_promise_is_refused_by_name(hub: KubeApi, body: Json, said: str) -> None:
    assert said in refusal(hub, body)


def test_nobody_else_starts_such_a_pod_there_either(plane: ControlPlane) -> None:
    assert "needs the labels" in refusal(plane.api, pod({}))


def test_it_cannot_put_a_pod_under_its_own_budget_by_naming_an_owner(plane: ControlPlane, hub: KubeApi) -> None:
    """A bare pod under the budget of a Deployment would let an eviction through."""
    owner = own_pods(plane.api)[0]["metadata"]["ownerReferences"][0]
    faked = pod({**LABELS, WORKLOAD: "hub"})
    faked["metadata"]["ownerReferences"] = [owner]

    assert "its own Deployment or StatefulSet" in refusal(hub, faked)


def test_a_label_stays_once_the_pod_is_there(plane: ControlPlane, hub: KubeApi) -> None:
    hub.create(PODS, pod())
    own = own_pods(plane.api)[0]["metadata"]["name"]

    for name, labels in (
        ("notebook", {CATEGORY: None}),
        ("notebook", {WORKLOAD: "hub"}),
        (own, {WORKLOAD: "hub-pods"}),
    ):
        with pytest.raises(ApiError) as refused:
            hub.patch(f"{PODS}/{name}", {"metadata": {"labels": labels}})
        assert refused.value.status in (403, 422)
    assert hub.patch(f"{PODS}/notebook", {"metadata": {"annotations": {"hub/user": "ada"}}})


def test_a_job_that_it_starts_gets_no_pod_under_its_own_budget(plane: ControlPlane, hub: KubeApi) -> None:
    jobs = f"/apis/batch/v1/namespaces/{OWN}/jobs"
    for name, workload in (("fair", "hub-pods"), ("unfair", "hub")):
        template = pod({**LABELS, WORKLOAD: workload}, restartPolicy="Never")
        del template["metadata"]["name"]
        hub.create(jobs, {"metadata": {"name": name}, "spec": {"template": template}})

    eventually(lambda: "fair" in jobs_with_pods(plane.api), what="the pod of the job that keeps the promises")
    told = eventually(lambda: refused_jobs(plane.api), what="the refusal of the other one")
    assert "its own Deployment or StatefulSet" in told
    assert jobs_with_pods(plane.api) == {"fair"}
    for name in ("fair", "unfair"):
        hub.delete(f"{jobs}/{name}")


def jobs_with_pods(api: KubeApi) -> set[str]:
    labels = [item["metadata"]["labels"] for item in api.get(PODS)["items"]]
    return {it["batch.kubernetes.io/job-name"] for it in labels if "batch.kubernetes.io/job-name" in it}


def refused_jobs(api: KubeApi) -> str:
    events = api.get(f"/api/v1/namespaces/{OWN}/events")["items"]
    return " ".join(
        e["message"] for e in events if e["reason"] == "FailedCreate" and e["involvedObject"]["name"] == "unfair"
    )
