"""`ebbtide adopt` on a real control plane: pods of real owners become rules, a small role may label running pods."""

import secrets
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from tests.builders.control_plane import Fresh, eventually
from tests.builders.existing import onprem, written
from tests.builders.settings import loaded

pytestmark = pytest.mark.control_plane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OURS = {"ebbtide.dev/category": "flexible", "ebbtide.dev/workload": "api"}


def adopt(kubeconfig: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["adopt", *words, "--kubeconfig", str(kubeconfig), "--context", "test"])


def template(labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def owner(kind: str, name: str, count: int, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    numbers = {} if kind == "DaemonSet" else {"replicas": count}
    body = {**numbers, "selector": {"matchLabels": labels}, "template": template(labels, **spec)}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def definition(kind: str, group: str, *, scale: bool) -> dict[str, Any]:
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"scale": paths} if scale else {},
    }
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{names['plural']}.{group}"}, "spec": spec}


class Site:
    """A namespace with a node for its pods."""

    def __init__(self, plane: ControlPlane, fresh: Fresh) -> None:
        self.plane, self.fresh, self.namespace = plane, fresh, fresh.namespace("team")
        self.pool = secrets.token_hex(4)
        fresh.node(labels={"pool": self.pool})

    def path(self, plural: str, api: str = "/apis/apps/v1") -> str:
        return f"{api}/namespaces/{self.namespace}/{plural}"

    def create(self, kind: str, name: str, count: int) -> None:
        body = owner(kind, name, count, nodeSelector={"pool": self.pool})
        self.plane.api.create(self.path(f"{kind.lower()}s"), body)

    def pod(self, name: str, labels: dict[str, str], *references: dict[str, Any]) -> None:
        body = template(labels, nodeSelector={"pool": self.pool})
        body["metadata"] |= {"name": name, "ownerReferences": references}
        self.plane.api.create(self.path("pods", "/api/v1"), body)

    def custom(self, kind: str, count: int, *, scale: bool) -> None:
        """Pods of an object of an operator, whose kind is new."""
        group = f"{secrets.token_hex(4)}.example.com"
        self.fresh.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind, group, scale=scale)
        )
        path = self.path(f"{kind.lower()}s", f"/apis/{group}/v1")
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "main"}, "spec": {"replicas": count}}
        item = eventually(lambda: self.plane.api.create(path, body), what=f"{kind} to be served")
        reference = {
            **{key: body[key] for key in ("apiVersion", "kind")},
            "name": "main",
            "uid": item["metadata"]["uid"],
        }
        for number in range(count):
            self.pod(f"{kind.lower()}-{number}", {"app": kind.lower()}, {**reference, "controller": True})

    def running(self, count: int) -> list[dict[str, Any]]:
        def pods() -> list[dict[str, Any]]:
            found = self.plane.api.get(self.path("pods", "/api/v1"))["items"]
            return found if len(found) == count and all(pod["status"]["phase"] == "Running" for pod in found) else []

        return eventually(pods, what=f"{count} running pods")

    def account(self, name: str, verbs: list[str]) -> Path:
        """The kubeconfig of an account that may do this with the namespace's pods, and nothing else."""
        meta, rbac = {"name": name}, f"{RBAC}/namespaces/{self.namespace}"
        self.plane.api.create(self.path("serviceaccounts", "/api/v1"), {"metadata": meta})
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
        self.plane.api.create(f"{rbac}/roles", {"metadata": meta, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        self.plane.api.create(f"{rbac}/rolebindings", {"metadata": meta, "roleRef": role, "subjects": [subject]})
        may = self.plane.api_as(self.namespace, name)
        eventually(lambda: may.get(self.path("pods", "/api/v1")), what="the rights to be known")
        return self.plane.kubeconfig_as(self.namespace, name)


@pytest.fixture
def site(control_plane: ControlPlane, fresh: Fresh) -> Site:
    return Site(control_plane, fresh)


def test_real_owners_become_rules_that_a_stack_file_accepts(site: Site, tmp_path: Path) -> None:
    site.create("Deployment", "api", 3)
    site.create("StatefulSet", "queue", 2)
    site.create("DaemonSet", "agent", 1)
    site.custom("Scaled", 2, scale=True)
    site.custom("Counted", 2, scale=False)
    site.pod("notebook-ada", {"app": "notebook"})
    site.running(11)

    printed = adopt(site.plane.kubeconfig, "--namespace", site.namespace).output
    rules = loaded(f"{onprem()}{printed}", tmp_path).adopted

    assert {
        name: (dict(rule.selector), rule.category.value, rule.replicas, rule.pods, rule.usually)
        for name, rule in rules.items()
    } == {
        "api": ({"app": ("api",)}, "flexible", 3, None, None),
        "queue": ({"app": ("queue",)}, "fixed", 2, None, None),
        "main": ({"app": ("counted",)}, "flexible", None, 2, None),
        f"{site.namespace}-main": ({"app": ("scaled",)}, "flexible", 2, None, None),
        "notebook": ({"app": ("notebook",)}, "worker", None, None, 1),
    }
    assert {(rule.cpu, rule.memory) for rule in rules.values()} == {(200, 256)}
    assert "bare pods notebook: 1 pod on node-" in printed
    assert "is a bare pod: nothing would recreate it" in printed


def test_an_account_that_may_only_list_pods_gets_rules_and_what_is_unknown(site: Site, tmp_path: Path) -> None:
    site.create("Deployment", "api", 3)
    site.running(3)

    printed = adopt(site.account("reader", ["get", "list"]), "--namespace", site.namespace).output

    (rule,) = loaded(f"{onprem()}{printed}", tmp_path).adopted.values()
    assert (dict(rule.selector), rule.replicas) == ({"app": ("api",)}, 3)
    assert "# not known: nodes: " in printed


def test_an_account_that_may_patch_pods_labels_running_ones_and_changes_nothing_else(
    site: Site, tmp_path: Path
) -> None:
    selector = f"namespace: {site.namespace}, selector: {{ app: [api, agent, free] }}"
    rule = f"{{ {selector}, category: flexible, replicas: 2, cpu: 1, memory: 1Gi }}"
    stack = written(onprem(more=f"ebbtide:adopted: {{ api: {rule} }}"), tmp_path)
    site.create("Deployment", "api", 2)
    site.create("DaemonSet", "agent", 1)
    site.pod("free", {"app": "free", "ebbtide.dev/adopt": "no"})
    before = site.running(4)
    words = (stack, "--label-running", "--yes")

    refused = adopt(site.account("reader", ["get", "list"]), *words)
    unchanged = site.running(4)
    written_labels = adopt(site.account("labeller", ["get", "list", "patch"]), *words)
    again = adopt(site.plane.kubeconfig, *words)

    assert (refused.exit_code, refused.output.count("not labelled: ")) == (1, 2), refused.output
    assert labels_of(unchanged) == labels_of(before)
    assert (written_labels.exit_code, "2 pods labelled" in written_labels.output) == (0, True), written_labels.output
    assert (again.exit_code, again.output.strip()) == (0, "no pods labelled")
    expected = {
        name: {**labels, **OURS} if labels["app"] == "api" else labels for name, labels in labels_of(before).items()
    }
    after = site.running(4)
    assert labels_of(after) == expected
    assert {pod["metadata"]["uid"]: pod["spec"] for pod in after} == {
        pod["metadata"]["uid"]: pod["spec"] for pod in before
    }


def labels_of(pods: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    return {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in pods}
