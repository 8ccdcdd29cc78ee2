"""Builders for the Kubernetes adapter: objects as the rendered ones are, and a cluster that is closed at the end."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import KubeApi
from controllers.adapters.kube_cluster import KubeCluster
from controllers.ports import ObservedBudget, ObservedPod, ObservedPool, Scale, Unknown
from ebbtide.provisioning_labels import POOL
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.labels import CATEGORY, WORKLOAD, Category
from ebbtide.vocabulary.windows import BusinessHours
from tests.builders.control_plane import eventually

PULUMI = "pulumi-kubernetes"


def deployment(name: str, namespace: str, replicas: int = 0, *, image: str = "worker:1") -> dict[str, Any]:
    """A worker pool's, as rendered where it matters here; its pods end at once when deleted."""
    labels = {WORKLOAD: name, POOL: name, CATEGORY: Category.WORKER.value}
    pod = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "worker", "image": image}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {WORKLOAD: name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def budget(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {WORKLOAD: name}}},
    }


def config_of(pools: list[str], budgets: list[str], namespace: str) -> ControllerConfig:
    """Of these Deployments and budgets, all in one namespace; the rest is not the adapter's business."""
    return ControllerConfig(
        customer="acme",
        hours=BusinessHours(timezone="UTC", week=()),
        closing_guard=timedelta(minutes=15),
        node_startup=timedelta(minutes=5),
        resync=timedelta(seconds=5),
        redis=RedisEndpoint(host="redis"),
        pools=tuple(pool_policy(name, namespace) for name in pools),
        budgets=tuple(BudgetPolicy(name=name, namespace=namespace) for name in budgets),
    )


def pool_policy(name: str, namespace: str) -> PoolPolicy:
    return PoolPolicy(
        name=name,
        namespace=namespace,
        deployment=name,
        source="rq",
        queues=(name,),
        jobs_per_worker=1,
        min_workers=0,
        max_workers=10,
        stabilization_window=timedelta(minutes=2),
        longest_job=timedelta(hours=2),
        safe_stop=True,
    )


class Pool:
    """One pool and one budget in a namespace of the real server, and the adapter that looks at them."""

    def __init__(self, api: KubeApi, namespace: str, cluster: KubeCluster) -> None:
        self.api, self.namespace, self.cluster = api, namespace, cluster
        self.path = f"/apis/apps/v1/namespaces/{namespace}/deployments/train"
        self.scale_path = f"{self.path}/scale"
        self.budget_path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/api"
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"

    def seen(self) -> ObservedPool | None:
        seen = self.cluster.observe()
        assert not isinstance(seen, Unknown), seen.why
        return seen.pools.get("train")

    def budget(self) -> ObservedBudget | None:
        seen = self.cluster.observe()
        assert not isinstance(seen, Unknown), seen.why
        return seen.budgets.get("api")

    def until(self, holds: Callable[[ObservedPool], object], what: str) -> ObservedPool:
        def look() -> ObservedPool | None:
            seen = self.seen()
            return seen if seen is not None and holds(seen) else None

        return eventually(look, what=what)

    def until_gone(self) -> None:
        eventually(lambda: self.seen() is None, what="the pool to be gone")

    def settled(self, replicas: int) -> ObservedPool:
        return self.until(
            lambda seen: seen.settled and seen.replicas == len(alive(seen)) == replicas, f"{replicas} settled pods"
        )

    def scale(self, replicas: int, version: str | None = None) -> Any:
        return self.cluster.act(Scale(pool="train", replicas=replicas, version=version, reason="test"))


def alive(seen: ObservedPool) -> list[ObservedPod]:
    return [pod for pod in seen.pods if pod.phase != "terminating"]


@contextmanager
def watching(plane: ControlPlane, namespace: str, **changes: Any) -> Generator[Pool]:
    """The pool `train` and the budget `api`, created by the provisioning side, and an adapter that has synced."""
    plane.api.apply(
        f"/apis/apps/v1/namespaces/{namespace}/deployments/train", deployment("train", namespace), manager=PULUMI
    )
    policies = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/api"
    plane.api.apply(policies, budget("api", namespace), manager=PULUMI)
    config = config_of(["train"], ["api"], namespace)
    wiring: dict[str, Any] = {"api": plane.api, "may_write": lambda: True, "notify": lambda: None, **changes}
    api = wiring.pop("api")
    cluster = KubeCluster(api, config, **wiring)
    cluster.start()
    try:
        eventually(lambda: not cluster.trouble(), what="the caches to be filled")
        yield Pool(plane.api, namespace, cluster)
    finally:
        cluster.close()
