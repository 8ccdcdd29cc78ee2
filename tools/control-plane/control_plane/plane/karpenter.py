"""Karpenter's core on a control plane; the nodes of its KWOK provider run pods as the control plane's own nodes do.

Traps:

- KWOK deletes a pod at once, so that Karpenter misses its end and does not restart `consolidateAfter`. `slow_ends`
  gives every pod a second.
- Nodes and NodeClaims carry Karpenter's finalizer: without Karpenter they cannot be deleted, and nor can their CRDs.
- By default it plans as if preferences were required, and that every host could be new: of a workload with a preferred
  spread over hosts it puts one pod on a node, and never consolidates more (topologygroup.go). So it ignores them here.
- Its loop of 10 s and its wait of 15 s before most disruptions are constants.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from control_plane.plane.binaries import KARPENTER, binaries, module_files
from control_plane.plane.driver import ControlPlane
from control_plane.plane.mode import PLAYED, Mode
from control_plane.plane.probes import free_ports, says_ok, text_at
from ebbtide.prices import instance_type, on_demand, spot_typical
from ebbtide.vocabulary.labels import GPU_RESOURCE

NODE_POOLS, NODE_CLAIMS = "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"
POOL_LABEL = "karpenter.sh/nodepool"
DISRUPTED = "karpenter.sh/disrupted"
NODE_CLASS = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default"
_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
_NODES = "/api/v1/nodes"
_REGION, _ZONE = "us-east-1", "us-east-1a"


def slow_ends(folder: Path) -> Mode:
    """Return settings of a control plane on which a deleted pod ends after a second. `folder` gets KWOK's stages."""
    stages = [
        yaml.safe_load(file.read_bytes())
        for file in sorted((module_files("kwok") / "kustomize/stage/pod/fast").glob("pod-*.yaml"))
    ]
    for stage in stages:
        if stage["metadata"]["name"] == "pod-delete":
            stage["spec"]["delay"] = {"durationMilliseconds": 1000}
    config = folder / "stages.yaml"
    config.write_text(yaml.safe_dump_all(stages), encoding="utf-8")
    return Mode(played=(*PLAYED.played, f"--config={config}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """`budgets`: None leaves them to Karpenter's default."""

    name: str
    types: tuple[str, ...]
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = ()
    budgets: Sequence[Mapping[str, Any]] | None = None
    template: Mapping[str, str] = field(default_factory=dict[str, str])  # annotations of its nodes; a change is drift
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    weight: int = 0  # 0: none
    consolidate_after: str = "0s"
    policy: str = "WhenEmptyOrUnderutilized"

    def body(self) -> dict[str, Any]:
        one_of = {
            "node.kubernetes.io/instance-type": self.types,
            "karpenter.sh/capacity-type": ("on-demand",),
        }
        spec = {
            "nodeClassRef": _CLASS,
            "requirements": [{"key": key, "operator": "In", "values": [*values]} for key, values in one_of.items()],
            "taints": [dict(taint) for taint in self.taints],
            "expireAfter": "Never",
        }
        disruption = {"consolidationPolicy": self.policy, "consolidateAfter": self.consolidate_after}
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": self.name},
            "spec": {
                "template": {
                    "metadata": {"labels": dict(self.labels), "annotations": dict(self.template)},
                    "spec": spec,
                },
                "limits": dict(self.limits),
                **({"weight": self.weight} if self.weight else {}),
                "disruption": disruption if self.budgets is None else {**disruption, "budgets": [*self.budgets]},
            },
        }


class Karpenter:
    """Karpenter from `with` to its end, with these instance types of AWS. It leaves no node of its own behind."""

    def __init__(self, plane: ControlPlane, types: Iterable[str]) -> None:
        self.plane = plane
        self._types = tuple(types)
        self._metrics = 0

    def __enter__(self) -> Self:
        """Raises `MissingBinaries` or `NotStarted`."""
        define(self.plane)
        types = self.plane.folder / "instance-types.json"
        types.write_text(json.dumps([_machine(name) for name in self._types]), encoding="utf-8")
        self._metrics, health = free_ports(2)
        values = {
            "KUBECONFIG": self.plane.kubeconfig,
            "DISABLE_LEADER_ELECTION": "true",
            "PREFERENCE_POLICY": "Ignore",
            "METRICS_PORT": self._metrics,
            "HEALTH_PROBE_PORT": health,
            "INSTANCE_TYPES_FILE_PATH": types,
        }
        program = str(binaries([KARPENTER])[KARPENTER])
        pairs = [f"{key}={value}" for key, value in values.items()]
        self.plane.processes.start("karpenter", ["/usr/bin/env", *pairs, program])
        self.plane.wait(lambda: says_ok(f"http://127.0.0.1:{health}/readyz"), "waiting for Karpenter")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "karpenter" in self.plane.processes.names():
            self.plane.processes.stop("karpenter")
        api = self.plane.api
        for pool in api.get(NODE_POOLS)["items"]:
            api.delete(f"{NODE_POOLS}/{pool['metadata']['name']}")
        for path, selector in ((NODE_CLAIMS, ""), (_NODES, POOL_LABEL)):
            for each in api.get(path, labelSelector=selector)["items"]:
                item = f"{path}/{each['metadata']['name']}"
                api.delete(item)
                api.patch(item, {"metadata": {"finalizers": None}})

    def create(self, pool: NodePool) -> None:
        self.plane.api.create(NODE_POOLS, pool.body())

    def write_budgets(self, pool: str, budgets: Sequence[Mapping[str, Any]]) -> None:
        self.plane.api.patch(f"{NODE_POOLS}/{pool}", {"spec": {"disruption": {"budgets": [*budgets]}}})

    def looks(self) -> int:
        """Return how often it has looked to the end for nodes to consolidate, with or without a result."""
        wanted = 'decision_evaluation_duration_seconds_count{consolidation_type="single",reason="underutilized"}'
        page = text_at(f"http://127.0.0.1:{self._metrics}/metrics")
        return sum(int(float(line.split()[-1])) for line in page.splitlines() if wanted in line)

    def commands(self) -> list[tuple[datetime, str]]:
        """Return when it disrupted nodes, and in its words why, how and which."""
        lines = self.plane.processes.log("karpenter").read_text(encoding="utf-8").splitlines()
        told = [json.loads(line) for line in lines if '"disrupting node(s)"' in line]
        return [(datetime.fromisoformat(it["time"]), f"{it['command']}, pods: {it['pod-count']}") for it in told]

    def budgets(self, pool: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.plane.api.get(f"{NODE_POOLS}/{pool}")["spec"]["disruption"]["budgets"]
        return found

    def nodes(self, pool: str) -> dict[str, dict[str, Any]]:
        """Return the nodes of a pool by name, those that are being drained too."""
        items = self.plane.api.get(_NODES, labelSelector=f"{POOL_LABEL}={pool}")["items"]
        return {node["metadata"]["name"]: node for node in items}


def of_kwok(item: dict[str, Any]) -> dict[str, Any]:
    """Return a NodePool with the one KWOKNodeClass; other objects are unchanged."""
    if item["kind"] == "NodePool":
        item["spec"]["template"]["spec"]["nodeClassRef"] = _CLASS
    return item


def define(plane: ControlPlane) -> None:
    """Apply Karpenter's CRDs and the one KWOKNodeClass."""
    module = module_files(KARPENTER)
    folders = (module / "pkg/apis/crds", module / "kwok/apis/crds")
    plane.kubectl("apply", "--server-side", *(f"--filename={folder}" for folder in folders))
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
    body = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
    plane.api.apply(NODE_CLASS, body, manager="kubectl")


def _machine(name: str) -> dict[str, Any]:
    kind = instance_type(name)
    resources = {"cpu": str(kind.vcpu), "memory": f"{kind.memory_mib}Mi", "pods": str(kind.max_pods)}
    prices = {"on-demand": on_demand(_REGION, kind), "spot": spot_typical(_REGION, kind)}
    return {
        "name": name,
        "architecture": kind.arch,
        "operatingSystems": ["linux"],
        "resources": resources | ({GPU_RESOURCE: str(kind.gpu)} if kind.gpu else {}),
        "offerings": [_offering(capacity, price) for capacity, price in prices.items()],
    }


def _offering(capacity: str, price: float) -> dict[str, Any]:
    where = {"topology.kubernetes.io/zone": _ZONE, "karpenter.sh/capacity-type": capacity}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in where.items()]
    return {"Price": price, "Available": True, "Requirements": requirements}
