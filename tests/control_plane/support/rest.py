"""The demo customer's stack at rest at night, on a plane without nodes, with the controller as its only client.

Nobody there makes pods or tells a budget's status, so it is played here: two workers are busy, and every flexible
budget is open. From then on nothing changes.

What the API server was asked, by its own metrics:

On a plane without nodes and managers only the API server itself asks beside the controller: it renews a Lease of its
own and looks at the endpoints of its Service, and whoever reads the metrics asks for those. The controller is the only
one that comes with an account's token, so flow control tells its requests from all others.
"""

import re
import time
from collections import Counter
from collections.abc import Generator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import InstalledStack, install

from benchmarks.control_plane_process import until
from controllers.adapters.kube_api import Json, KubeApi
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import load_stack
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.labels import NAMESPACE
from ebbtide.vocabulary.windows import BusinessHours
from tests.paths import DATA

_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Request(NamedTuple):
    verb: str
    resource: str  # with its subresource, if it is about one
    code: str


RENEWAL = Request("PUT", "leases", "200")
OF_THE_SERVER = {RENEWAL, Request("GET", "endpoints", "200"), Request("GET", "endpointslices", "200")}


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Since the server's start. `by_accounts`: requests that came with the token of a ServiceAccount, watches too."""

    requests: Counter[Request]  # a watch counts when it has ended
    by_accounts: int

    def since(self, before: "RequestCounts") -> "RequestCounts":
        return RequestCounts(self.requests - before.requests, self.by_accounts - before.by_accounts)

    @property
    def beside_the_servers_own(self) -> Counter[Request]:
        return Counter({request: count for request, count in self.requests.items() if request not in OF_THE_SERVER})

    def calls(self, *verbs: str) -> int:
        return sum(count for request, count in self.beside_the_servers_own.items() if request.verb in verbs)


def request_counts(plane: ControlPlane) -> RequestCounts:
    requests: Counter[Request] = Counter()
    by_accounts = 0
    for line in plane.metrics("kube-apiserver").splitlines():
        name, _, rest = line.partition("{")
        if name == "apiserver_request_total":
            labels, count = _sample(rest)
            if labels["resource"]:  # else it is no object: health, discovery, these metrics
                resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                requests[Request(labels["verb"], resource, labels["code"])] += count
        elif name == "apiserver_flowcontrol_dispatched_requests_total":
            labels, count = _sample(rest)
            by_accounts += count if labels["flow_schema"] == "service-accounts" else 0
    return RequestCounts(requests, by_accounts)


def _sample(rest: str) -> tuple[dict[str, str], int]:
    labels, _, value = rest.rpartition("} ")
    return dict(_LABEL.findall(labels)), int(float(value))


POOL, BUSY = "prep", 2
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
_SETS = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/replicasets"
_BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
_QUIET = 6.0  # seconds: longer than Events wait for each other


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingPlane:
    plane: ControlPlane
    stack: InstalledStack
    redis: EmbeddedRedis
    config: ControllerConfig


@contextmanager
def night_of_demo(plane: ControlPlane) -> Generator[RestingPlane]:
    """It is always night there, so that the hour of the measurement says nothing."""
    with EmbeddedRedis() as redis, TemporaryDirectory() as folder:
        stack = install(plane, load_stack("demo", DATA), Path(folder))
        config = stack.config_with(RedisEndpoint(host=redis.host, port=redis.port))
        night = replace(config, hours=BusinessHours(timezone="UTC", week=()))
        yield RestingPlane(plane=plane, stack=stack, redis=redis, config=night)


def come_to_rest(scene: RestingPlane) -> None:
    """Once a controller leads. Raises TimeoutError if it never comes to rest."""
    api = scene.plane.api
    for pool in scene.config.pools:
        _settle(api, f"{DEPLOYMENTS}/{pool.deployment}", replicas=0)
    with scene.redis.client() as client:
        for number in range(BUSY):
            client.zadd(f"rq:wip:{POOL}", {f"job-{number}": time.time() + 86_400})
        until(
            lambda: api.get(f"{DEPLOYMENTS}/{POOL}")["spec"].get("replicas") == BUSY,
            "the workers to be request_counts for",
        )
        for pod in _play_pods(api):
            client.hset(f"rq:worker:{pod}", mapping={"hostname": pod, "state": "busy", "current_job": "a-job"})
            client.sadd(f"rq:workers:{POOL}", f"rq:worker:{pod}")
    flexible = {budget.name for budget in scene.config.budgets}
    _play_disruption_controller(api, flexible)  # none is opened before
    until(lambda: flexible == _open_budgets(api), "the flexible budgets to be open, and no other")
    _play_disruption_controller(api, flexible)
    until(lambda: _is_quiet(scene.plane), "the controller to be quiet", timeout=90)


def _play_pods(api: KubeApi) -> list[str]:
    """The pool's Deployment settled at its pods, as its controllers and a node would leave it."""
    deployment = api.get(f"{DEPLOYMENTS}/{POOL}")
    template: Json = deployment["spec"]["template"]
    name, labels = f"{POOL}-1", template["metadata"]["labels"]
    spec = {"replicas": BUSY, "selector": deployment["spec"]["selector"], "template": template}
    metadata = {"name": name, "labels": labels, "ownerReferences": [_owner("Deployment", deployment)]}
    replica_set = api.create(_SETS, {"metadata": metadata, "spec": spec})
    _settle(api, f"{_SETS}/{name}", replicas=BUSY)
    names = [f"{name}-{number}" for number in range(BUSY)]
    for pod in names:
        metadata = {"name": pod, "labels": labels, "ownerReferences": [_owner("ReplicaSet", replica_set)]}
        api.create(PODS, {"metadata": metadata, "spec": template["spec"]})
        api.patch(f"{PODS}/{pod}/status", {"status": {"phase": "Running"}})
    _settle(api, f"{DEPLOYMENTS}/{POOL}", replicas=BUSY)
    return names


def _play_disruption_controller(api: KubeApi, budgets: Set[str]) -> None:
    for name in budgets:
        _settle(api, f"{_BUDGETS}/{name}")


def _owner(kind: str, owner: Json) -> Json:
    metadata: Json = owner["metadata"]
    return {"apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": True}


def _settle(api: KubeApi, path: str, **status: int) -> None:
    generation = api.get(path)["metadata"]["generation"]
    api.patch(f"{path}/status", {"status": {"observedGeneration": generation, **status}})


def _open_budgets(api: KubeApi) -> set[str]:
    found = api.get(_BUDGETS)["items"]
    return {budget["metadata"]["name"] for budget in found if budget["spec"].get("maxUnavailable")}


def _is_quiet(plane: ControlPlane) -> bool:
    before = request_counts(plane)
    time.sleep(_QUIET)
    return not request_counts(plane).since(before).beside_the_servers_own
