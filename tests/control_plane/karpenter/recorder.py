"""Plays a scenario of tests/data/karpenter-scenarios to the real Karpenter, and records what it does.

Each take has its own control plane and Karpenter. Nodes and pods are listed every quarter of a second; commands and
launches are read from Karpenter's log, evictions from its Events.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from control_plane.plane.driver import ControlPlane
from control_plane.plane.karpenter import DISRUPTED, NODE_CLASS, POOL_LABEL, Karpenter, NodePool, slow_ends

from controllers.adapters.kube_api import Json
from ebbtide.provisioning_labels import INSTANCE_TYPE
from ebbtide.text.durations import HOUR_S
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, WORKLOAD
from tests.control_plane.support.karpenter import PODS, budget
from tests.fidelity.karpenter import KarpenterScenario

SAMPLE_S = 0.25
SETTLES_S = 4.0
"""From the NodePools to the workloads, as in the recordings that were given."""
_HOSTNAME = "kubernetes.io/hostname"
_APPS = "/apis/apps/v1/namespaces/default"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@dataclass
class NodeLife:
    pool: str
    type: str
    from_s: float
    to_s: float
    tainted_s: float | None = None
    deleting_s: float | None = None


@dataclass
class Recorder:
    plane: ControlPlane
    karpenter: Karpenter
    scenario: KarpenterScenario
    began: datetime = field(init=False)
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lives: dict[str, NodeLife] = field(default_factory=dict[str, NodeLife])
    workload_of: dict[str, str] = field(default_factory=dict[str, str])  # by pod
    packing: list[list[str]] = field(default_factory=list[list[str]])

    def take(self) -> dict[str, Any]:
        self._prepare()
        time.sleep(SETTLES_S)
        self.began = datetime.now(UTC)
        for workload in self.scenario["workloads"]:
            self._create(workload)
        due = sorted(self.scenario["timeline"], key=lambda change: change["at_s"])
        while (now := self._seconds(datetime.now(UTC))) < self.scenario["end_s"]:
            while due and due[0]["at_s"] <= now:
                self._play(due.pop(0))
            self._sample()
            next_s = due[0]["at_s"] if due else self.scenario["end_s"]
            time.sleep(max(0.0, min(SAMPLE_S, next_s - self._seconds(datetime.now(UTC)))))
        return self._taken()

    def _prepare(self) -> None:
        settings = self.scenario["karpenter"]
        if delay := settings.get("registration_delay_s"):
            self.plane.api.patch(NODE_CLASS, {"spec": {"nodeRegistrationDelay": f"{delay}s"}})
        types = [kind["name"] for kind in settings["instance_types"]]
        for found in settings["node_pools"]:
            pool = NodePool(
                name=found["name"],
                types=tuple(found.get("instance_types", types)),
                labels={},
                taints=found.get("taints", ()),
                budgets=found["budgets"],
                weight=found.get("weight", 0),
                consolidate_after=found["consolidate_after"],
                policy=found.get("consolidation_policy", "WhenEmptyOrUnderutilized"),
                limits=found.get("limits", {}),
            )
            self.karpenter.create(pool)

    def _create(self, found: Mapping[str, Any]) -> None:
        name, is_daemon = found["name"], found.get("daemon_set", False)
        labels = {WORKLOAD: name, CATEGORY: found["category"]}
        annotations = {"karpenter.sh/do-not-disrupt": "true"} if found.get("do_not_disrupt") else {}
        if cost := found.get("deletion_cost"):
            annotations["controller.kubernetes.io/pod-deletion-cost"] = f"{cost}"
        requests = {"cpu": f"{found['cpu_m']}m", "memory": f"{found['memory_mib']}Mi"}
        resources: Json = {"requests": requests}
        if gpu := found.get("gpu"):
            requests[GPU_RESOURCE] = f"{gpu}"
            resources["limits"] = {GPU_RESOURCE: f"{gpu}"}
        apart = [
            {"key": CATEGORY, "operator": "In", "values": [other]} for other in found.get("anti_affinity_with", ())
        ]
        if found.get("one_per_node"):
            apart.append({"key": WORKLOAD, "operator": "In", "values": [name]})
        spec: Json = {
            "containers": [{"name": "main", "image": "any", "resources": resources}],
            "tolerations": found.get("tolerations", []),
        }
        if apart:
            terms = [{"labelSelector": {"matchExpressions": [each]}, "topologyKey": _HOSTNAME} for each in apart]
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        if pool := found.get("node_pool"):
            spec["nodeSelector"] = {POOL_LABEL: pool}
        body: Json = {
            "apiVersion": "apps/v1",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {WORKLOAD: name}},
                "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
                **({} if is_daemon else {"replicas": found["replicas"]}),
            },
        }
        self.plane.api.create(f"{_APPS}/{'daemonsets' if is_daemon else 'deployments'}", body)
        if (allowed := found.get("pdb_max_unavailable")) is not None:
            self.plane.api.create(_BUDGETS, budget(name, "default", {WORKLOAD: name}, allowed))

    def _play(self, change: Mapping[str, Any]) -> None:
        for name, replicas in change.get("scale", {}).items():
            self.plane.api.patch(f"{_APPS}/deployments/{name}/scale", {"spec": {"replicas": replicas}})
        for name, allowed in change.get("pdb", {}).items():
            self.plane.api.patch(f"{_BUDGETS}/{name}", {"spec": {"maxUnavailable": allowed}})
        for pool, budgets in change.get("budgets", {}).items():
            self.karpenter.write_budgets(pool, budgets)
        for name, patch in change.get("annotate_pods", {}).items():
            pods = self.plane.api.get(PODS, labelSelector=f"{WORKLOAD}={name}")["items"]
            names = sorted(pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"])
            for pod_name in names[: patch["count"]]:
                self.plane.api.patch(f"{PODS}/{pod_name}", {"metadata": {"annotations": patch["annotations"]}})

    # --- what was seen ------------------------------------------------------------------------------------------------

    def _seconds(self, at: datetime) -> float:
        return (at - self.began).total_seconds()

    def _sample(self) -> None:
        nodes = self.plane.api.get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"]
        pods = self.plane.api.get(PODS)["items"]
        now = round(self._seconds(datetime.now(UTC)), 1)
        counts: dict[str, Counter[str]] = {}
        disrupted = 0
        for node in nodes:
            life = self._life(node, now)
            is_tainted = any(taint["key"] == DISRUPTED for taint in node["spec"].get("taints", ()))
            disrupted += is_tainted
            if is_tainted and life.tainted_s is None:
                life.tainted_s = now
            if "deletionTimestamp" not in node["metadata"]:
                counts.setdefault(life.pool, Counter())[life.type] += 1
            elif life.deleting_s is None:
                life.deleting_s = now
        phases: dict[str, dict[str, int]] = {}
        on: dict[str, list[str]] = {}
        for pod in pods:
            workload = self.workload_of[pod["metadata"]["name"]] = pod["metadata"]["labels"][WORKLOAD]
            if "deletionTimestamp" in pod["metadata"]:
                continue
            place = pod["spec"].get("nodeName")
            phase = phases.setdefault(workload, {"running": 0, "pending": 0})
            phase["running" if place else "pending"] += 1
            on.setdefault(place or "", []).append(workload)
        self.packing = [
            [self.lives[name].type, *sorted(on.get(name, ()))]
            for node in nodes
            if "deletionTimestamp" not in node["metadata"] and (name := node["metadata"]["name"])
        ]
        row = {"nodes": {pool: dict(types) for pool, types in counts.items()}, "disrupted": disrupted, "pods": phases}
        if not self.rows or {key: self.rows[-1][key] for key in row} != row:
            self.rows.append({"t_s": now, **row})

    def _life(self, node: Json, now: float) -> NodeLife:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        if name not in self.lives:
            self.lives[name] = NodeLife(labels[POOL_LABEL], labels[INSTANCE_TYPE], now, now)
        self.lives[name].to_s = now
        return self.lives[name]

    def _taken(self) -> dict[str, Any]:
        usd = {kind["name"]: kind["price"]["on-demand"] for kind in self.scenario["karpenter"]["instance_types"]}
        lives = [*self.lives.values()]
        return {
            "observed": self.rows,
            "launches": [self._launch(line) for line in self._logged("created nodeclaim")],
            "commands": [self._command(line, usd) for line in self._logged("disrupting node(s)")],
            "evictions": self._evictions(),
            "nodes": [{key: value for key, value in vars(life).items() if value is not None} for life in lives],
            "node_seconds": round(sum(life.to_s - life.from_s for life in lives)),
            "dollars": round(sum(usd[life.type] * (life.to_s - life.from_s) / HOUR_S for life in lives), 5),
            "final_packing": sorted(self.packing),
        }

    def _logged(self, message: str) -> list[Json]:
        text = self.plane.processes.log("karpenter").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines() if f'"{message}"' in line]
        return [line for line in lines if line["message"] == message]

    def _at(self, line: Json) -> float:
        return round(self._seconds(datetime.fromisoformat(line["time"])), 1)

    def _launch(self, line: Json) -> dict[str, Any]:
        pool, types = line["NodePool"]["name"], line["instance-types"].split(", ")
        return {"t_s": self._at(line), "pool": pool, "requests": line["requests"], "types": sorted(types)}

    def _command(self, line: Json, usd: Mapping[str, float]) -> dict[str, Any]:
        """The cheapest type of a replacement is launched."""
        added = [
            min(each["instance-types"].split(", "), key=lambda name: usd[name]) for each in _list(line, "replacement")
        ]
        return {
            "t_s": self._at(line),
            "reason": line["command"].partition("/")[0],
            "decision": line["decision"],
            "removes": sorted(each["instance-type"] for each in _list(line, "disrupted")),
            "adds": added,
            "pods": line["pod-count"],
        }

    def _evictions(self) -> list[dict[str, Any]]:
        events = self.plane.api.get("/api/v1/namespaces/default/events", fieldSelector="reason=Evicted")["items"]
        found = [
            {
                "t_s": round(self._seconds(datetime.fromisoformat(event["firstTimestamp"]))),
                "workload": self.workload_of[event["involvedObject"]["name"]],
            }
            for event in events
        ]
        return sorted(found, key=lambda each: (each["t_s"], each["workload"]))


def _list(line: Json, which: str) -> Sequence[Json]:
    return line.get(f"{which}-nodes") or ()


def take(scenario: KarpenterScenario, folder: Path) -> dict[str, Any]:
    """Record one run. `folder` gets KWOK's stages."""
    types = [kind["name"] for kind in scenario["karpenter"]["instance_types"]]
    with ControlPlane(mode=slow_ends(folder)) as plane, Karpenter(plane, types) as karpenter:
        return Recorder(plane, karpenter, scenario).take()
