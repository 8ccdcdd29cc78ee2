"""A cluster that answers a probe from a table: a sound one by default, with what a test changes."""

from collections.abc import Mapping
from typing import Any

from controllers.adapters.kube_api import ApiError
from ebbtide.vocabulary.labels import CONTROLLER, CUSTOMER, GPU_RESOURCE
from tests.builders_existing import CLUSTER_ID

STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
NODES = "/api/v1/nodes"
SYSTEM = "/api/v1/namespaces/ebbtide"
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENT = f"/apis/apps/v1/namespaces/ebbtide/deployments/{CONTROLLER}"
AUTOSCALER = f"{KUBE_SYSTEM}/configmaps/cluster-autoscaler-status"
GROUPS = ("policy/v1", "batch/v1", "metrics.k8s.io/v1beta1")
DENIED = 403


def storage_class(name: str = "fast", *, default: bool = True) -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": annotations}}


def node(
    cpu: str = "16", memory: str = "64Gi", gpu: int = 0, spec: Mapping[str, Any] | None = None, **labels: str
) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": memory, **({GPU_RESOURCE: str(gpu)} if gpu else {})}
    return {"metadata": {"labels": labels}, "spec": spec or {}, "status": {"allocatable": allocatable}}


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, Any]:
    return {"taints": [{"key": key, "value": value, "effect": effect}]}


def groups(*versions: str) -> dict[str, Any]:
    return {"groups": [{"versions": [{"groupVersion": version}]} for version in versions]}


def namespace(customer: str = "") -> dict[str, Any]:
    return {"metadata": {"labels": {CUSTOMER: customer} if customer else {}}}


def controller(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


class CannedCluster:
    """Answers by path; an int is the status of a refusal, and what is not in the table does not exist.

    `denied` holds (verb, resource) pairs that the caller lacks.
    """

    def __init__(self, answers: Mapping[str, Any] | None = None, *, denied: tuple[tuple[str, str], ...] = ()) -> None:
        self._denied = denied
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.34.1"},
            KUBE_SYSTEM: {"metadata": {"uid": CLUSTER_ID}},
            STORAGE: {"items": [storage_class()]},
            NODES: {"items": [node()]},
            ADMISSION: {"resources": [{"name": "validatingadmissionpolicies"}]},
            "/apis": groups(*GROUPS),
            **(answers or {}),
        }

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append(path)
        answer = self.answers.get(path, 404)
        if isinstance(answer, int):
            raise ApiError(answer, "no")
        labels = dict(pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair)
        if not labels:
            return answer
        chosen = [item for item in answer["items"] if labels.items() <= item["metadata"]["labels"].items()]
        return {**answer, "items": chosen}

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        assert path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        wish = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": (wish["verb"], wish["resource"]) not in self._denied}}
