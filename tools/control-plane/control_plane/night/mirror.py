"""The API server's pods, Deployments, StatefulSets and budgets as the modelled cluster's state.

Level-based: each look compares all objects with the state, so neither the order of events nor a lost event matters.
Pods keep their identity, because running drains hold them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from control_plane.night.pod_model import pod_model_of
from control_plane.plane.watched import Watched
from controllers.adapters.kube_api import Json, KubeApi
from ebbtide.lab.simulator.cluster.model import WorkloadModel
from ebbtide.lab.simulator.cluster.state import ClusterState, Deployment, Pod
from ebbtide.operate.objects import at, words_at
from ebbtide.operate.why.node_pins import covers
from ebbtide.vocabulary.labels import Category

_APPS = "/apis/apps/v1"
_PATHS = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "deployments": f"{_APPS}/deployments",
    "statefulsets": f"{_APPS}/statefulsets",
    "budgets": "/apis/policy/v1/poddisruptionbudgets",
}
_LISTED_WITHIN = 30.0  # seconds


@dataclass(slots=True, eq=False)
class MirroredDeployment(Deployment):
    """Deployment whose allowed disruptions are the disruption controller's, not the model's."""

    allowed: int | None = None
    template: Json = field(default_factory=dict[str, Any])

    @property
    def disruptions_allowed(self) -> int | None:
        return self.allowed


class Mirror:
    """`changed` is called from other threads; `look` belongs to the thread that owns the state."""

    def __init__(
        self, api: KubeApi, state: ClusterState, changed: Callable[[], None], tell: Callable[[str], None]
    ) -> None:
        self._state, self._tell = state, tell
        self._kinds = {kind: Watched(api, path, changed) for kind, path in _PATHS.items()}
        self._unmodelled: set[str] = set()  # workloads
        self._complaints: set[str] = set()
        self._before: object = None
        self._starting: dict[str, float] = {}  # pods by their appearance, without initial and unschedulable ones
        self._first_look = True
        self.startups: list[float] = []  # seconds from a pod's appearance to its being ready

    def start(self) -> None:
        """Return when everything has been listed. Raises `TimeoutError`."""
        for kind in self._kinds.values():
            kind.start()
        for name, kind in self._kinds.items():
            if not kind.listed.wait(_LISTED_WITHIN):
                raise TimeoutError(f"the API server lists no {name}")

    def close(self) -> None:
        for kind in self._kinds.values():
            kind.close()

    def nodes(self) -> Mapping[str, Json]:
        return self._kinds["nodes"].snapshot()

    def look(self, now: float) -> bool:
        """Update pods and workloads; return True if a pod has become unschedulable."""
        pods = {name: item for name, item in self._kinds["pods"].snapshot().items() if _counts(item)}
        for name, pod in self._all_pods().items():
            if name not in pods:
                self._forget(pod)
        self._see_workloads(pods)
        for name, item in pods.items():
            self._see_pod(name, item, now)
        all_pods = self._all_pods()
        pending = {name: all_pods[name] for name, item in pods.items() if _is_unschedulable(item)}
        pending = {name: pod for name, pod in pending.items() if pod.workload not in self._unmodelled}
        new = pending.keys() - self._state.unschedulable.keys()
        self._state.unschedulable = pending
        for name in pending:
            self._starting.pop(name, None)
        self._first_look = False
        return bool(new)

    def moved(self) -> bool:
        """Return True if the autoscaler's inputs have changed since the last call."""
        now = tuple(self._shown())
        before, self._before = self._before, now
        return now != before

    # --- internal ---------------------------------------------------------------------------------------------------

    def _shown(self) -> Iterator[object]:
        for node in self._state.nodes.values():
            yield node.name, node.ready, node.leaving
        for name, deployment in self._state.deployments.items():
            yield name, deployment.replicas, deployment.disruptions_allowed
            for pod in deployment.pods.values():
                yield pod.name, pod.node and pod.node.name, pod.running_since, pod.stopping
        yield tuple(self._state.unschedulable)

    def _see_workloads(self, pods: Mapping[str, Json]) -> None:
        declared = {**self._kinds["deployments"].snapshot(), **self._kinds["statefulsets"].snapshot()}
        budgets = list(self._kinds["budgets"].snapshot().values())
        for name, item in declared.items():
            namespace = item["metadata"]["namespace"]
            template = {**item["spec"]["template"]}
            template["metadata"] = {**at(template, "metadata"), "namespace": namespace}
            self._declare(name, template, int(at(item, "spec", "replicas") or 0), budgets)
        others: dict[str, list[Json]] = {}
        for item in pods.values():
            if (name := owner_of(item)) not in declared:
                others.setdefault(name, []).append(item)
        for name, items in others.items():
            self._declare(name, items[0], len(items), budgets)
        for name in self._state.deployments.keys() - declared.keys() - others.keys():
            del self._state.deployments[name]

    def _declare(self, name: str, template: Json, wanted: int, budgets: Iterable[Json]) -> None:
        deployment = self._state.deployments.get(name)
        if not isinstance(deployment, MirroredDeployment):
            deployment = MirroredDeployment(self._model(name, template), template=template)
            self._state.deployments[name] = deployment
        elif deployment.template != template:
            deployment.spec, deployment.template = self._model(name, template), template
        deployment.replicas = wanted
        deployment.allowed = allowed_by([budget for budget in budgets if covers(budget, template)])

    def _see_pod(self, name: str, item: Json, now: float) -> None:
        workload = owner_of(item)
        pods = self._state.deployments[workload].pods
        pod = pods.get(name)
        if pod is None:
            pod = pods[name] = Pod(name, workload, now, self._model(workload, item))
            if not self._first_look and pod.spec.category != Category.WORKER:
                self._starting[name] = now
        if pod.node is None and (node := self._state.nodes.get(at(item, "spec", "nodeName") or "")) is not None:
            pod.node = node
            node.pods[name] = pod
            node.room.take(pod.spec)
        pod.stopping = pod.stopping or at(item, "metadata", "deletionTimestamp") is not None
        if not _is_ready(item):
            pod.running_since = None
        elif pod.running_since is None:
            pod.running_since = now
            if name in self._starting:
                self.startups.append(now - self._starting[name])

    def _forget(self, pod: Pod) -> None:
        del self._state.deployments[pod.workload].pods[pod.name]
        self._starting.pop(pod.name, None)
        if pod.node is not None:
            del pod.node.pods[pod.name]
            pod.node.room.give_back(pod.spec)

    def _all_pods(self) -> dict[str, Pod]:
        return {name: pod for deployment in self._state.deployments.values() for name, pod in deployment.pods.items()}

    def _model(self, name: str, item: Json) -> WorkloadModel:
        """Report what the model cannot express; such pods are never evicted."""
        described = pod_model_of(item, name)
        self._unmodelled.discard(name)
        for feature in described.unmodelled:
            self._unmodelled.add(name)
            complaint = f"{name}: {feature} is more than the model can say, so it is left alone"
            if complaint not in self._complaints:
                self._complaints.add(complaint)
                self._tell(complaint)
        return replace(described.model, safe_to_evict=False) if described.unmodelled else described.model


def owner_of(pod: Json) -> str:
    """Return the pod's Deployment or StatefulSet as "namespace/name"; else its owner, else itself."""
    metadata: Json = pod["metadata"]
    name = str(metadata["name"])
    for owner in at(pod, "metadata", "ownerReferences") or ():
        if owner.get("controller"):
            name = str(owner["name"])
            if owner["kind"] == "ReplicaSet":
                name = name.removesuffix(f"-{words_at(pod, 'metadata', 'labels').get('pod-template-hash', '')}")
    return f"{metadata['namespace']}/{name}"


def allowed_by(budgets: Sequence[Json]) -> int | None:
    """Return how many pods may be evicted now; none under several budgets, which the Eviction API always refuses."""
    if len(budgets) != 1:
        return 0 if budgets else None
    return int(at(budgets[0], "status", "disruptionsAllowed") or 0)


def _counts(pod: Json) -> bool:
    """Return True unless the pod is static, finished, or of a DaemonSet, which a group's size excludes."""
    owners = at(pod, "metadata", "ownerReferences") or ()
    if any(owner["kind"] in ("DaemonSet", "Node") for owner in owners):
        return False
    return at(pod, "status", "phase") not in ("Succeeded", "Failed")


def _is_ready(pod: Json) -> bool:
    conditions = at(pod, "status", "conditions") or ()
    return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)


def _is_unschedulable(pod: Json) -> bool:
    if at(pod, "spec", "nodeName") or at(pod, "metadata", "deletionTimestamp"):
        return False
    conditions = at(pod, "status", "conditions") or ()
    return any(row["type"] == "PodScheduled" and row.get("reason") == "Unschedulable" for row in conditions)
