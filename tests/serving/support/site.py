"""The bundled serving parts on a real control plane: what a test of served models is given.

Every pod has a network of its own, with its address on the pods' range, and runs the command of its PodSpec as a
process. Envoy, Envoy Gateway, KEDA, metrics-server and Prometheus are pods too, from the rendered Deployments and with
the rights of their rendered accounts. Run it with `python -m tests.serving`, which makes a network for all of that.
"""

import json
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from control_plane.plane.driver import ControlPlane

from components.serving.envoy_gateway import ENVOY
from components.serving.envoy_gateway import NAMESPACE as GATEWAYS
from controllers.adapters.kube_api import MERGE_PATCH, ApiError, Json
from ebbtide.provisioning_labels import NodeKind
from ebbtide.vocabulary.labels import CATEGORY, NAMESPACE, NODE_KIND, WORKLOAD, Category
from tests.builders.control_plane import PATIENCE, eventually
from tests.builders.monitoring.servers import asked
from tests.control_plane.support.applying import Applying
from tests.paths import ROOT
from tests.serving.support.kubelet import PLAIN, Kubelet
from tests.serving.support.network import HOST
from tests.serving.support.parts import PARTS, images, rendered, restricted
from tests.serving.support.plane import NODES, plane
from tests.serving.support.services import Services
from tests.serving.support.usage import UsagePages

_SCALERS = ("ScaledObject", "HorizontalPodAutoscaler")
GATEWAY_PORT = 10080  # of a pod; the Gateway's listener says 80
PROMETHEUS = "http://ebbtide-prometheus.ebbtide.svc:9090"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    name: str
    node: str
    address: str  # in the pods' network, which the test is a part of


class Serving:
    def __init__(self, plane: ControlPlane, kubelet: Kubelet) -> None:
        self.plane, self.kubelet = plane, kubelet
        self.applying = Applying(plane.api)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """By server-side apply, as the administrator; a kind may be any that the API server serves."""
        self.applying.apply([dict(one) for one in objects])

    def delete(self, *objects: Mapping[str, Any]) -> None:
        """What has the same apiVersion, kind, namespace and name; returns when it and its pods are gone."""
        # What scales goes first, with the HPA that KEDA made: it would else scale what comes under the same name.
        for some in ([one for one in objects if (one["kind"] in _SCALERS) is scales] for scales in (True, False)):
            paths = {path: one for one in some for path in self.applying.know([dict(one)])}
            for path in paths:
                self.applying.paths.remove(path)
                with suppress(ApiError):  # it is gone
                    self.plane.api.delete(path)
            for path, one in paths.items():
                self._wait_until_gone(path, one)

    def _wait_until_gone(self, path: str, one: Mapping[str, Any]) -> None:
        name, space = one["metadata"]["name"], one["metadata"].get("namespace", "")
        made = f"/apis/autoscaling/v2/namespaces/{space}/horizontalpodautoscalers/{name}"
        for each in (path, made) if one["kind"] in _SCALERS else (path,):
            eventually(lambda each=each: self._is_gone(each), what=f"{each} to be gone")
        if one["kind"] == "Deployment":
            eventually(lambda: not self._pods(name, NAMESPACE), what=f"the pods of {name} to be gone")

    def _is_gone(self, path: str) -> bool:
        try:
            self.plane.api.get(path)
        except ApiError as error:
            return error.status == 404
        return False

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """`kind` as kubectl takes it, such as `hpa` or `httproutes`."""
        return json.loads(self.plane.kubectl("--namespace", namespace, "get", kind, name, "--output=json"))

    def deployment(
        self,
        name: str,
        command: Sequence[str],
        *,
        replicas: int = 1,
        port: int = 8000,
        ready: str = "/ready",
        pre_stop: int = 0,
        grace: int = 30,
        env: Mapping[str, str] | None = None,
        node_selector: Mapping[str, str] | None = None,
        cpu: str = "100m",
    ) -> list[dict[str, Any]]:
        """A Deployment, its ClusterIP Service on `port` and its closed budget, all of that name; not yet applied.

        `command` is run as it stands: the process sees this machine's files, has POD_NAME and POD_IP, and its network
        has no other process, so it listens on 0.0.0.0. `pre_stop` and `grace` in seconds; `ready` is probed by HTTP
        each second. On flexible nodes unless told otherwise: on fixed ones it would keep the parts away.
        """
        labels = {WORKLOAD: name, CATEGORY: Category.FLEXIBLE.value}
        probe = {"httpGet": {"path": ready, "port": port}, "periodSeconds": 1, "failureThreshold": 1}
        container: dict[str, Any] = {
            "name": "model",
            "image": PLAIN,
            "command": list(command),
            "ports": [{"name": "http", "containerPort": port}],
            "readinessProbe": probe,
            "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        }
        if pre_stop:
            container["lifecycle"] = {"preStop": {"sleep": {"seconds": pre_stop}}}
        pod = restricted(
            {
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": grace,
                "nodeSelector": dict(node_selector or {NODE_KIND: NodeKind.FLEXIBLE.value}),
                "containers": [container],
            }
        )
        metadata = {"name": name, "namespace": NAMESPACE}
        selector = {"matchLabels": {WORKLOAD: name}}
        spec = {"replicas": replicas, "selector": selector, "template": {"metadata": {"labels": labels}, "spec": pod}}
        ports = [{"name": "http", "port": port, "targetPort": port}]
        budget = {"maxUnavailable": 0, "selector": selector}
        return [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
            {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": ports}},
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget},
        ]

    def pods(
        self, name: str, count: int | None = None, *, namespace: str = NAMESPACE, patience: float = PATIENCE
    ) -> list[Pod]:
        """Those of a Deployment that are ready and not being deleted; with `count`, once there are exactly so many."""

        def ready() -> list[Pod] | None:
            found = [_pod(one) for one in self._pods(name, namespace) if _is_ready(one)]
            return found if count is None or len(found) == count else None

        if count == 0:
            eventually(lambda: ready() is not None, what=f"no pod of {name}", patience=patience)
            return []
        if count is None:
            return ready() or []
        return eventually(ready, what=f"{count} ready pods of {name}", patience=patience)

    def _pods(self, name: str, namespace: str) -> list[Json]:
        path = f"/api/v1/namespaces/{namespace}/pods"
        return self.plane.api.get(path, labelSelector=f"{WORKLOAD}={name}")["items"]

    def scale(self, name: str, replicas: int, namespace: str = NAMESPACE) -> None:
        """Of a Deployment, by its scale subresource."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
        self.plane.api.patch(path, {"spec": {"replicas": replicas}})

    def replicas(self, name: str, namespace: str = NAMESPACE) -> int:
        """What a Deployment is asked for."""
        found = self.plane.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale")
        return int(found["spec"].get("replicas", 0))

    def evict(self, pod: str, namespace: str = NAMESPACE) -> bool:
        """By the Eviction API; False: a budget refused it."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        try:
            self.plane.api.create(path, body)
        except ApiError as error:
            if error.status == 429:
                return False
            raise
        return True

    def kill(self, pod: str) -> None:
        """The pod's processes, by SIGKILL; its kubelet starts them again."""
        self.kubelet.kill(pod)

    def gateways(self) -> list[str]:
        """`address:port` of each Envoy pod that is ready and not being deleted.

        A load generator asks before each new connection, as a load balancer would, and keeps those that it has.
        """
        return [f"{pod.address}:{GATEWAY_PORT}" for pod in self.pods(ENVOY, namespace=GATEWAYS)]

    def gateway_address(self) -> str:
        """The first of `gateways`, once there is one."""
        return eventually(self.gateways, what="a pod of Envoy")[0]

    def gateway_metrics(self, expression: str) -> list[dict[str, Any]]:
        """What Prometheus answers now, such as `sum(envoy_cluster_upstream_rq_active)`; it scrapes each second."""
        return self.prometheus(f"query?{urlencode({'query': expression})}")["result"]

    def away(self, part: str) -> None:
        """Stop `keda`, `prometheus`, `metrics-server` or `envoy-gateway`; returns when its last process is gone."""
        for namespace, name, _ in PARTS[part]:
            self.scale(name, 0, namespace)
        for namespace, name, _ in PARTS[part]:
            eventually(lambda name=name: not self._plays(name), what=f"the pods of {name} to be gone")
            self.pods(name, 0, namespace=namespace)

    def _plays(self, name: str) -> list[str]:
        return [one.name for one in self.kubelet.playing() if one.name.startswith(f"{name}-") and one.pids()]

    def back(self, part: str) -> None:
        """Start it again; returns when it is ready."""
        for namespace, name, pods in PARTS[part]:
            self.scale(name, pods, namespace)
        for namespace, name, pods in PARTS[part]:
            self.pods(name, pods, namespace=namespace)

    @contextmanager
    def watching(self, files: Mapping[str, Mapping[str, Any]]) -> Generator[None]:
        """Prometheus reads these, by name, in place of its own config."""
        name = PARTS["prometheus"][0][1]
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"
        own = self.plane.api.get(path)["data"]
        self._restarted(path, {file: json.dumps(content) for file, content in files.items()})
        try:
            yield
        finally:
            self._restarted(path, own)

    def _restarted(self, path: str, files: Mapping[str, str]) -> None:
        self.away("prometheus")
        self.plane.api.patch(path, {"data": dict(files)}, MERGE_PATCH)
        self.back("prometheus")

    def prometheus(self, path: str) -> Any:
        """What Prometheus' API answers, such as to `alerts`."""
        address = self.pods("ebbtide-prometheus")[0].address
        return asked(f"http://{address}:9090", path)

    @contextmanager
    def hpa_every(self, seconds: int) -> Generator[None]:
        """HPAs look so often, in place of each second; EKS' have 15, which cannot be changed."""
        self.plane.hpa_every(seconds)
        try:
            yield
        finally:
            self.plane.hpa_every(1)


@contextmanager
def site(folder: Path) -> Generator[Serving]:
    """Everything up: the GatewayClass accepted, both APIs of metrics available."""
    with ExitStack() as stack:
        made = stack.enter_context(plane(folder))
        kubelet = stack.enter_context(Kubelet(made, folder, images(folder / "images")))
        stack.callback(_keep_logs, kubelet.logs)
        stack.enter_context(Services(made.api))
        for node in NODES:
            page = stack.enter_context(UsagePages(made, kubelet, node))
            stack.callback(page.shutdown)
            addresses = [{"type": "InternalIP", "address": HOST}]
            status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": page.port}}}
            made.api.patch(f"/api/v1/nodes/{node}/status", {"status": status})
        serving = Serving(made, kubelet)
        serving.apply(*rendered())
        for namespace, name, pods in (one for deployments in PARTS.values() for one in deployments):
            serving.pods(name, pods, namespace=namespace, patience=120)
        for api in ("v1beta1.external.metrics.k8s.io", "v1beta1.metrics.k8s.io"):
            path = f"/apis/apiregistration.k8s.io/v1/apiservices/{api}"
            eventually(lambda path=path: _holds(made.api.get(path), "Available"), what=f"{api} to be available")
        path = "/apis/gateway.networking.k8s.io/v1/gatewayclasses/ebbtide"
        eventually(lambda: _holds(made.api.get(path), "Accepted"), what="the GatewayClass to be accepted")
        yield serving


def _holds(item: Mapping[str, Any], condition: str) -> bool:
    conditions = item.get("status", {}).get("conditions", ())
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and _holds(pod, "Ready")


def _pod(pod: Mapping[str, Any]) -> Pod:
    return Pod(name=pod["metadata"]["name"], node=pod["spec"]["nodeName"], address=pod["status"]["podIP"])


def _keep_logs(logs: Path) -> None:
    """Of the last run, to be looked at."""
    target = ROOT / "out" / "serving" / "logs"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(logs, target)
