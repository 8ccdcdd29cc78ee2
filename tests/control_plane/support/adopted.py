"""A team's namespace on a real control plane, whose pods are adopted."""

import secrets
from collections.abc import Mapping
from typing import Any

from control_plane.plane.driver import ControlPlane

from components.cluster.existing import NodeSelectors
from controllers.adapters.kube_api import APPLY, Json
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.labels import CATEGORY, NODE_KIND, WORKLOAD
from tests.builders.adoption import policies, stack_with
from tests.builders.control_plane import Fresh, eventually
from tests.control_plane.support.applying import Applying

KINDS = ("fixed", "flexible", "gpu")
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
CONTAINER = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
RULES: Mapping[str, Any] = {
    "hub": {"selector": {"app": "hub"}, "category": "fixed", "replicas": 1},
    "web": {"selector": {"app": ["web", "front"]}, "replicas": 3},
    "task": {"selector": {"app": "task"}, "category": "worker", "usually": 2},
    "model": {"selector": {"app": "model"}, "replicas": 1, "gpu": 1},
    "engine": {"selector": {"app": "engine", "example.com/role": "instance"}, "pods": 4},
}
APP_OF = {"hub": "hub", "web": "web", "task": "task", "model": "model", "engine": "engine"}


class Adopted:
    """`namespace` is the team's; the policies go with `clean`."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.fresh = Fresh(plane)
        self.namespace = self.fresh.namespace("team")
        self.pods_path = f"/api/v1/namespaces/{self.namespace}/pods"
        self._applying = Applying(plane.api)

    def stack(self, rules: Mapping[str, Any] = RULES) -> StackSettings:
        return stack_with(**{name: {"namespace": self.namespace, **rule} for name, rule in rules.items()})

    def adopt(self, rules: Mapping[str, Any] = RULES, node_selectors: NodeSelectors | None = None) -> None:
        """Apply the policies and return once they are in force, which a rule of their own shows."""
        mark = f"mark-{secrets.token_hex(4)}"
        marked = self.stack({**rules, mark: {"selector": {"app": mark}}})
        self._applying.apply(policies(marked.adopted, node_selectors))
        eventually(lambda: self.admitted({"app": mark})["metadata"]["labels"].get(WORKLOAD), what="the policy's rules")

    def admitted(self, labels: Mapping[str, str] | None, **spec: Any) -> Json:
        """The pod as the API server would store it."""
        return self.admitted_with({"labels": dict(labels)} if labels is not None else {}, **spec)

    def admitted_with(self, metadata: Json, **spec: Any) -> Json:
        name = f"pod-{secrets.token_hex(4)}"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {"containers": [CONTAINER], **spec},
        }
        return self.plane.api.patch(f"{self.pods_path}/{name}", pod, APPLY, fieldManager="team", dryRun="All")

    def add_nodes(self) -> None:
        """One of each kind, tainted and labelled as the stack's."""
        for kind in KINDS:
            taints = [GPU_TAINT] if kind == "gpu" else []
            self.fresh.node(kind, labels={NODE_KIND: kind}, taints=taints, gpu=4 if kind == "gpu" else 0)

    def pods(self, **labels: str) -> list[Json]:
        found = self.plane.api.get(self.pods_path)["items"]
        return [pod for pod in found if labels.items() <= pod["metadata"].get("labels", {}).items()]

    def clean(self) -> None:
        self._applying.delete()
        self.fresh.clean()


def adoption_of(pod: Json) -> tuple[str | None, str | None]:
    """The category and the rule that its labels name."""
    labels = pod["metadata"].get("labels", {})
    return labels.get(CATEGORY), labels.get(WORKLOAD)
