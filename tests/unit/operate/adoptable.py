"""A cluster with workloads of charts and operators, as raw objects, that answers by path; it keeps what is patched."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from controllers.adapters.kube_api import ApiError

VERSIONS = {  # by kind
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Cluster": "postgresql.cnpg.io/v1",
    "Runner": "example.com/v1",
    "Workflow": "argoproj.io/v1alpha1",
    "Notebook": "kubeflow.org/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "FlyteWorkflow": "flyte.lyft.com/v1alpha1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "Trial": "kubeflow.org/v1beta1",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2",
    "Pod": "v1",
    "Node": "v1",
}
SCALED = ("Deployment", "ReplicaSet", "StatefulSet", "Cluster")


def plural(kind: str) -> str:
    return f"{kind.lower()}s"


class Adoptable:
    """`conflicts` and `refusals` are by pod: how often its patch conflicts, and the status that refuses it."""

    source = "kubeconfig canned, context here"

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.objects: dict[str, dict[str, Any]] = {}
        self.budgets: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.denied: set[str] = set()  # parts of paths
        self.patches: list[tuple[str, Mapping[str, Any]]] = []
        self.before_patch: Callable[[str], None] = lambda _: None

    def workload(self, kind: str, name: str, count: int = 1, namespace: str = "team", **how: Any) -> None:
        """An owner and its pods. `labels` are those of the template, `extra` those that a controller adds to a pod."""
        labels = how.get("labels", {"app": name})
        owner = name
        if kind == "Deployment":
            owner = f"{name}-5d4c"
            self._owner("ReplicaSet", owner, namespace, {}, above=("Deployment", name))
        if kind == "CronJob":
            owner = f"{name}-2900"
            self._owner("Job", owner, namespace, {}, above=("CronJob", name))
        template = {"template": {"metadata": {"labels": labels}}}
        spec = {"jobTemplate": {"spec": template}} if kind == "CronJob" else {"replicas": count, **template}
        described = spec if kind in VERSIONS and VERSIONS[kind].startswith(("apps", "batch")) else {}
        self._owner(kind, name, namespace, described, above=how.get("above"))
        controller = {"Deployment": "ReplicaSet", "CronJob": "Job"}.get(kind, kind)
        for number in range(count):
            self.pod(f"{owner}-{number}", namespace, owner=(controller, owner), **{**how, "labels": labels})

    def pod(self, name: str, namespace: str = "team", **how: Any) -> None:
        requests = {"cpu": "1", "memory": "2Gi"} if how.get("requests") is None else how["requests"]
        containers = [{"name": "main", "resources": {"requests": requests}}]
        kind, owner = how.get("owner") or ("", "")
        references = [{"apiVersion": VERSIONS[kind], "kind": kind, "name": owner, "controller": True}] if kind else []
        extra = {"pod-template-hash": "5d4c"} if kind == "ReplicaSet" else {}
        status = {"phase": how.get("phase", "Running"), "conditions": [{"type": "Ready", "status": "True"}]}
        self.pods[f"{namespace}/{name}"] = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {**how.get("labels", {}), **extra, **how.get("extra", {})},
                "ownerReferences": references,
                "annotations": how.get("annotations", {}),
                "resourceVersion": "1",
            },
            "spec": {
                "nodeName": how.get("node", "node-1"),
                "containers": containers,
                "volumes": how.get("volumes", []),
                "restartPolicy": how.get("restarts", "Always"),
                **how.get("spec", {}),
            },
            "status": status,
        }

    def budget(self, name: str, selector: Mapping[str, str], namespace: str = "team", **meta: Any) -> None:
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": selector}}
        metadata = {"name": name, "namespace": namespace, "generation": 1, **meta}
        status = {"disruptionsAllowed": 1, "observedGeneration": 1}
        self.budgets.append({"metadata": metadata, "spec": spec, "status": status})

    def node(self, name: str, cpu: str = "8", memory: str = "32Gi", **labels: str) -> None:
        allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
        named = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
        self.nodes.append({"metadata": {"name": name, "labels": named}, "status": {"allocatable": allocatable}})

    def _owner(self, kind: str, name: str, namespace: str, spec: Any, above: tuple[str, str] | None = None) -> None:
        references = (
            []
            if above is None
            else [{"apiVersion": VERSIONS[above[0]], "kind": above[0], "name": above[1], "controller": True}]
        )
        version = VERSIONS[kind]
        path = f"/apis/{version}/namespaces/{namespace}/{plural(kind)}/{name}"
        metadata = {"name": name, "namespace": namespace, "ownerReferences": references}
        self.objects[path] = {"metadata": metadata, "spec": spec}

    def get(self, path: str, **_: str) -> dict[str, Any]:
        if any(part in path for part in self.denied):
            raise ApiError(403, f"may not get {path}")
        parts = path.strip("/").split("/")
        if parts[-1] == "pods":
            return {"items": [pod for key, pod in self.pods.items() if parts[0] == "api" and self._in(key, parts)]}
        if parts[-1] == "poddisruptionbudgets":
            return {"items": [each for each in self.budgets if each["metadata"]["namespace"] == parts[-2]]}
        if path.startswith("/api/v1/namespaces/") and len(parts) == 4 and self.pods:
            spaces = {key.partition("/")[0] for key in self.pods}
            return {"metadata": {"name": parts[-1]}} if parts[-1] in spaces else _missing()
        if path == "/api/v1/nodes":
            return {"items": self.nodes}
        if parts[-2] == "pods" and (pod := self.pods.get(f"{parts[-3]}/{parts[-1]}")):
            return pod
        version = path.removeprefix("/apis/").removeprefix("/api/")
        kinds = [kind for kind, served in VERSIONS.items() if served == version]
        if kinds:
            scales = [{"name": f"{plural(kind)}/scale", "kind": "Scale"} for kind in kinds if kind in SCALED]
            return {"resources": [*({"name": plural(kind), "kind": kind} for kind in kinds), *scales]}
        if path in self.objects:
            return self.objects[path]
        if parts[-3] == "namespaces":
            return {"items": [item for where, item in self.objects.items() if where.rpartition("/")[0] == path]}
        raise ApiError(404, "not found")

    def patch(self, path: str, body: Mapping[str, Any], **_: str) -> dict[str, Any]:
        self.patches.append((path, body))
        self.before_patch(path)
        parts = path.split("/")
        pod = self.pods.get(f"{parts[-3]}/{parts[-1]}")
        if pod is None:
            raise ApiError(404, "not found")
        if body["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]:
            raise ApiError(409, "the object has been modified")
        pod["metadata"]["labels"] |= body["metadata"]["labels"]
        return pod

    @staticmethod
    def _in(key: str, parts: list[str]) -> bool:
        return len(parts) == 3 or key.startswith(f"{parts[-2]}/")


def _missing() -> NoReturn:
    raise ApiError(404, "not found")
