"""A NodePool as a team has it, the accounts that may write its disruption budgets, and the controller's process."""

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml
from control_plane.plane.binaries import KARPENTER, module_files
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.operate.release import owners_of
from ebbtide.recording.resources import Resource, kind_of, name_of
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.labels import CLOSER, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.control_plane import Fresh, eventually
from tests.builders.existing import stack_of
from tests.builders.operation import Process, leading
from tests.builders.recorded import record

ALWAYS_DAY = BusinessHours(timezone="UTC", week=tuple(WeeklyInterval(day, 0, 24 * 60) for day in range(7)))
RIGHTS, POLICIES = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
_API = 'api: { category: flexible, image: "a:1", cpu: 1, memory: 1Gi, replicas: 2 }'


@cache
def settings() -> StackSettings:
    return stack_of("nodePools: { flexible: [general] }", more=f"ebbtide:workloads: {{ {_API} }}")


@cache
def _resources() -> tuple[Resource, ...]:
    return record(settings())


@dataclass(frozen=True, kw_only=True)
class NodeScene:
    """`pool` is the NodePool's name, which no other test uses, and so are the names of what has no namespace."""

    plane: ControlPlane
    fresh: Fresh
    apps: str
    pool: str
    folder: Path
    workers: str = "none"

    @property
    def file(self) -> Path:
        return self.folder / "workloads.json"

    @property
    def path(self) -> str:
        return f"{NODE_POOLS}/{self.pool}"

    def rendered(self, kind: str, name: str) -> Json:
        """As the program declares it, in the namespace of this scene."""
        (found,) = [
            it
            for it in _resources()
            if (kind_of(it), name_of(it)) == (kind, name)
            and it.inputs["metadata"].get("namespace", "ebbtide") == "ebbtide"
        ]
        text = json.dumps(dict(found.inputs), default=dict)
        text = text.replace("serviceaccount:ebbtide:", f"serviceaccount:{self.apps}:").replace(
            '"general', f'"{self.pool}'
        )
        return json.loads(text.replace('"namespace": "ebbtide"', f'"namespace": "{self.apps}"'))

    def node_pool(self, **disruption: object) -> Json:
        node = {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        }
        spec = {"template": {"spec": node}, "disruption": {"consolidateAfter": "1m", **disruption}}
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": self.pool},
            "spec": spec,
        }

    def budgets(self) -> Sequence[Json]:
        return self.plane.api.get(self.path)["spec"]["disruption"]["budgets"]

    def owners(self) -> list[str]:
        fields = self.plane.api.get(self.path)["metadata"]["managedFields"]
        return owners_of(fields, ("spec", "disruption", "budgets"))

    def pods_budget(self, most: int) -> None:
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "api"}}
        spec = {"maxUnavailable": most, "selector": {"matchLabels": {"a": "b"}}}
        path = f"/apis/policy/v1/namespaces/{self.apps}/poddisruptionbudgets/api"
        self.plane.api.apply(path, {**body, "spec": spec}, manager="test")

    def config(self, hours: BusinessHours) -> WorkloadsConfig:
        document = load(WorkloadsConfig, self.rendered("ConfigMap", WORKLOADS)["data"]["workloads.json"])
        pools = tuple(replace(it, name=self.pool) for it in document.node_pools)
        budgets = tuple(replace(it, namespace=self.apps) for it in document.budgets)
        return replace(document, namespace=self.apps, hours=hours, node_pools=pools, budgets=budgets)

    def hours_are(self, hours: BusinessHours) -> None:
        """Swapped, as Kubernetes does with a mounted ConfigMap."""
        new = self.file.with_suffix(".new")
        new.write_text(dump(self.config(hours)))
        new.replace(self.file)

    def close_as_cron_would(self) -> "subprocess.CompletedProcess[str]":
        scaler = self.folder / "config.json"
        document = controller_config(settings(), RedisEndpoint(host="none"))
        scaler.write_text(dump(replace(document, hours=ALWAYS_DAY, budgets=(), never_opened=())))
        account = self.plane.kubeconfig_as(self.apps, CLOSER)
        files = ["--config", str(scaler), "--workloads", str(self.file), "--kubeconfig", str(account)]
        command = [sys.executable, "-m", "controllers.closer", *files]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def leader(self, name: str = "one") -> AbstractContextManager[Process]:
        account = self.plane.kubeconfig_as(self.apps, WORKLOADS)
        process = Process(name, self, kubeconfig=account, module="controllers.workloads")  # pyright: ignore[reportArgumentType] - file, folder and apps are all it takes
        return leading(process)


@contextmanager
def make_node_scene(plane: ControlPlane, fresh: Fresh, folder: Path) -> Generator[NodeScene]:
    define(plane)
    apps = fresh.namespace("nodes")
    scene = NodeScene(plane=plane, fresh=fresh, apps=apps, pool=f"general-{apps[-8:]}", folder=folder)
    api = plane.api
    for account in (WORKLOADS, CLOSER):
        api.create(f"/api/v1/namespaces/{apps}/serviceaccounts", {"metadata": {"name": account}})
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            body = scene.rendered(kind, account)
            own = f"{apps}-{account}"
            body["metadata"]["name"] = own
            if "roleRef" in body:
                body["roleRef"]["name"] = own
            fresh.create(f"{RIGHTS}/{kind.lower()}s", body)
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{apps}/leases", {"metadata": {"name": WORKLOADS}})
    for kind in ("Role", "RoleBinding"):
        api.create(f"{RIGHTS}/namespaces/{apps}/{kind.lower()}s", scene.rendered(kind, WORKLOADS))
    events = [
        it for it in _resources() if name_of(it) == WORKLOADS and it.inputs["metadata"].get("namespace") == "default"
    ]
    for it in events:
        body = json.loads(json.dumps(dict(it.inputs), default=dict).replace('"ebbtide"', f'"{apps}"'))
        own = f"{apps}-events"
        body["metadata"]["name"] = own
        if "roleRef" in body:
            body["roleRef"]["name"] = own
        fresh.create(f"{RIGHTS}/namespaces/default/{kind_of(it).lower()}s", body)
    for kind, path in (("", "validatingadmissionpolicies"), ("Binding", "validatingadmissionpolicybindings")):
        body = scene.rendered(f"ValidatingAdmissionPolicy{kind}", "ebbtide-nodepools")
        body["metadata"]["name"] = f"{apps}-nodepools"
        if kind:
            body["spec"]["policyName"] = f"{apps}-nodepools"
        fresh.create(f"{POLICIES}/{path}", body)
    scene.hours_are(ALWAYS_DAY)
    yield scene


def define(plane: ControlPlane) -> None:
    """Karpenter's definition of a NodePool; stays, for it is the same for all tests."""
    crd = definition()
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"

    def served() -> bool:
        try:
            plane.api.get(path)
            return "items" in plane.api.get(NODE_POOLS)
        except ApiError:
            plane.api.apply(path, crd, manager="karpenter")
            return False

    eventually(served, what="the definition")


@cache
def definition() -> dict[str, Any]:
    """As the module of Karpenter's core has it."""
    text = (module_files(KARPENTER) / "pkg/apis/crds/karpenter.sh_nodepools.yaml").read_text(encoding="utf-8")
    return cast("dict[str, Any]", yaml.safe_load(text))
