"""The controller's process on a real API server and a real Redis.

`reaction`: from a job pushed by a second client to the raised replicas in a watch; compared with the same loop polling
every second and every 30 seconds (the default of KEDA), as ratios of the medians.
`idle`, `memory`: 200 Deployments with 1,000 pods on KWOK nodes, without work. `start`: from the start of the process to
the first correct decision. The process has an administrator's token: rights do not change the cost.
"""

import json
import os
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median

from control_plane.plane.driver import ControlPlane

from benchmarks.control_plane_process import ControllerProcess, SilentJournal, controller, until
from benchmarks.measure import Figures
from controllers.adapters.clock import SystemClock
from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.kube_cluster import KubeCluster
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import demand_sources
from controllers.ports import Ports
from controllers.scaler.loop import run
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import POOL, WORKER_NAMESPACE
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.labels import CATEGORY, CONTROLLER, NAMESPACE, WORKLOAD
from ebbtide.vocabulary.windows import BusinessHours

ARRIVALS = 300
SLOW_ARRIVALS = 24
STARTS = 5
DEPLOYMENTS, PODS_EACH, NODES = 200, 5, 12
IDLE_SECONDS = float(os.environ.get("EBBTIDE_BENCH_IDLE_SECONDS", "600"))


def measured() -> dict[str, Figures]:
    with EmbeddedRedis() as server, ControlPlane() as plane:
        prepare(plane.api)
        return {
            **_reaction(plane, server),
            "start": _start(plane, server),
            **_idle(plane, server),
        }


# --- reaction ---------------------------------------------------------------------------------------------------------


def _reaction(plane: ControlPlane, server: EmbeddedRedis) -> dict[str, Figures]:
    config = new_config(server, [new_pool("reaction", max_workers=ARRIVALS)])
    deploy(plane.api, "reaction", replicas=0)
    with controller(plane, config, kubeconfig=plane.kubeconfig) as process, ReplicaWatch(plane.api) as watch:
        until(lambda: reconciles(process), "the first report")
        ours = [_arrival(server, watch, "reaction", number) for number in range(1, ARRIVALS + 1)]
    each_second = _polled(plane, server, timedelta(seconds=1), 5 * SLOW_ARRIVALS)
    each_half_minute = _polled(plane, server, timedelta(seconds=30), SLOW_ARRIVALS)
    return {
        "reaction": latency(ours),
        "reaction_polling_1_s": {**latency(each_second), "times_ours": _ratio(each_second, ours)},
        "reaction_polling_30_s": {**latency(each_half_minute), "times_ours": _ratio(each_half_minute, ours)},
    }


def _arrival(server: EmbeddedRedis, watch: "ReplicaWatch", name: str, number: int) -> float:
    time.sleep(random.uniform(0.05, 0.2))
    with server.client() as client:
        client.ping()
        began = time.monotonic()
        client.rpush(f"rq:queue:{name}", f"job-{number}")
    return (watch.wait(name, number) - began) * 1000


def _polled(plane: ControlPlane, server: EmbeddedRedis, period: timedelta, arrivals: int) -> list[float]:
    """Push jobs to many pools at random instants of two periods, to cover all phases of a period."""
    names = [f"polled-{period.seconds}-{number}" for number in range(arrivals)]
    config = new_config(server, [new_pool(name, max_workers=1) for name in names])
    for name in names:
        deploy(plane.api, name, replicas=0)
    cluster = KubeCluster(plane.api, config, may_write=lambda: True, notify=lambda: None)
    cluster.start()
    waker = _Poller(period)
    demand = demand_sources(config, lambda: connect(config.redis, {}))
    ports = Ports(demand=demand, cluster=cluster, clock=SystemClock(), waker=waker, journal=SilentJournal())
    while cluster.trouble():
        time.sleep(0.05)
    loop = threading.Thread(target=run, args=(config, ports))
    loop.start()
    began: dict[str, float] = {}
    with server.client() as client, ReplicaWatch(plane.api) as watch:
        at = time.monotonic()
        for moment, name in sorted((random.uniform(0, 2 * period.total_seconds()), name) for name in names):
            time.sleep(max(0.0, at + moment - time.monotonic()))
            began[name] = time.monotonic()
            client.rpush(f"rq:queue:{name}", "job")
        latencies = [(watch.wait(name, 1) - began[name]) * 1000 for name in names]
    waker.stopped = True
    loop.join()
    cluster.close()
    return latencies


class _Poller:
    def __init__(self, period: timedelta) -> None:
        self._period = period.total_seconds()
        self.stopped = False

    def wait(self, timeout: timedelta) -> bool:  # noqa: ARG002 - a poller waits for its period
        until = time.monotonic() + self._period
        while not self.stopped and time.monotonic() < until:
            time.sleep(min(0.1, max(0.0, until - time.monotonic())))
        return not self.stopped


@dataclass
class ReplicaWatch:
    """The time at which a separate watch first showed a Deployment with at least `number` replicas."""

    api: KubeApi
    times: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    _news: threading.Condition = field(default_factory=threading.Condition)
    _over: bool = False

    def __enter__(self) -> "ReplicaWatch":
        threading.Thread(target=self._follow, daemon=True).start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True

    def wait(self, name: str, replicas: int) -> float:
        with self._news:
            if not self._news.wait_for(lambda: (name, replicas) in self.times, timeout=120):
                raise TimeoutError(f"{name} never had {replicas} replicas")
            return self.times[name, replicas]

    def _follow(self) -> None:
        path = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
        try:
            for event in self.api.watch(path, 300, resourceVersion="0"):
                now = time.monotonic()
                name, replicas = event["object"]["metadata"]["name"], event["object"]["spec"]["replicas"]
                with self._news:
                    for number in range(1, replicas + 1):
                        self.times.setdefault((name, number), now)
                    self._news.notify_all()
                if self._over:
                    return
        except ApiError:
            if not self._over:
                raise


def latency(values: Sequence[float]) -> Figures:
    ordered = sorted(values)
    rank = min(len(ordered) - 1, int(0.99 * len(ordered)))
    return {
        "p50_ms": round(median(ordered), 1),
        "p99_ms": round(ordered[rank], 1),
        "min_ms": round(ordered[0], 1),
        "max_ms": round(ordered[-1], 1),
        "n": len(ordered),
    }


def _ratio(others: Sequence[float], ours: Sequence[float]) -> float:
    return round(median(others) / median(ours), 1)


# --- start, idle, memory ----------------------------------------------------------------------------------------------


def _start(plane: ControlPlane, server: EmbeddedRedis) -> Figures:
    """CPU of the process until it first raises replicas."""
    cpu: list[float] = []
    walls: list[float] = []
    for number in range(STARTS):
        name = f"start-{number}"
        deploy(plane.api, name, replicas=0)
        with server.client() as client:
            client.rpush(f"rq:queue:{name}", "job")
        with ReplicaWatch(plane.api) as watch:
            began = time.monotonic()
            config = new_config(server, [new_pool(name, max_workers=1)])
            with controller(plane, config, kubeconfig=plane.kubeconfig) as process:
                walls.append(watch.wait(name, 1) - began)
                cpu.append(process.cpu_seconds())
    return {
        "cpu_s": round(median(cpu), 2),
        "cpu_s_min": round(min(cpu), 2),
        "cpu_s_max": round(max(cpu), 2),
        "wall_s": round(median(walls), 2),
        "n": STARTS,
    }


def _idle(plane: ControlPlane, server: EmbeddedRedis) -> dict[str, Figures]:
    for number in range(NODES):
        plane.add_node(f"idle-{number}", cpu="1000", memory="1000Gi")
    names = [f"idle-{number}" for number in range(DEPLOYMENTS)]
    for name in names:
        deploy(plane.api, name, replicas=PODS_EACH)
        _budget(plane.api, name)
    pools = [new_pool(name, max_workers=2 * PODS_EACH, min_workers=PODS_EACH) for name in names]
    budgets = [BudgetPolicy(name=name, namespace=NAMESPACE) for name in names]
    until(lambda: _running(plane.api) >= DEPLOYMENTS * PODS_EACH, "the pods")
    with controller(plane, new_config(server, pools, budgets), kubeconfig=plane.kubeconfig) as process:
        until(lambda: reconciles(process), "the first report")
        until(
            lambda: _is_quiet(process), "a quiet controller"
        )  # the first readings, the flip of the budgets, and its Events
        before, cpu, began = _calls(process), process.cpu_seconds(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        after, minutes = _calls(process), (time.monotonic() - began) / 60
        used = process.cpu_seconds() - cpu
        memory = process.resident_mib()
    calls = {verb: after.get(verb, 0) - before.get(verb, 0) for verb in {*after, *before}}
    lease = calls.get("PUT", 0)  # only the Lease is replaced
    return {
        "idle": {
            "writes": calls.get("PATCH", 0) + calls.get("POST", 0) + calls.get("DELETE", 0),
            "reads_per_min": round((calls.get("GET", 0) + calls.get("WATCH", 0)) / minutes, 2),
            "lease_writes_per_min": round(lease / minutes, 1),
            "cpu_percent": round(100 * used / (minutes * 60), 2),
            "minutes": round(minutes, 1),
            "n": 1,
        },
        "memory": {"rss_mib": round(memory, 1), "n": 1},
    }


# --- objects --------------------------------------------------------------------------------------------------------


def prepare(api: KubeApi) -> None:
    """Create the namespaces and the Lease."""
    for namespace in (NAMESPACE, WORKER_NAMESPACE):
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    lease = {"metadata": {"name": CONTROLLER, "namespace": NAMESPACE}}
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", lease)


def new_pool(name: str, *, max_workers: int, min_workers: int = 0) -> PoolPolicy:
    return PoolPolicy(
        name=name,
        namespace=WORKER_NAMESPACE,
        deployment=name,
        source="rq",
        queues=(name,),
        jobs_per_worker=1,
        min_workers=min_workers,
        max_workers=max_workers,
        stabilization_window=timedelta(minutes=5),
        longest_job=timedelta(hours=1),
        safe_stop=True,
    )


def new_config(
    server: EmbeddedRedis, pools: Sequence[PoolPolicy], budgets: Sequence[BudgetPolicy] = ()
) -> ControllerConfig:
    return ControllerConfig(
        customer="bench",
        hours=BusinessHours(timezone="UTC", week=()),
        closing_guard=timedelta(minutes=15),
        node_startup=timedelta(minutes=5),
        resync=timedelta(seconds=2),
        redis=RedisEndpoint(host=server.host, port=server.port),
        pools=tuple(pools),
        budgets=tuple(budgets),
    )


def deploy(api: KubeApi, name: str, *, replicas: int) -> None:
    labels = {WORKLOAD: name, CATEGORY: "worker", POOL: name}
    container = {"name": "worker", "image": "registry.example/worker", "resources": {"requests": {"cpu": "1m"}}}
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {WORKLOAD: name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
            },
        },
    }
    api.create(f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments", body)


def _budget(api: KubeApi, name: str) -> None:
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {WORKLOAD: name}}}
    body = {"metadata": {"name": name}, "spec": spec}
    api.create(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets", body)


def _running(api: KubeApi) -> int:
    pods = api.get(f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods")["items"]
    return sum(1 for pod in pods if pod["status"].get("phase") == "Running")


def _calls(process: ControllerProcess) -> dict[str, float]:
    """API requests by verb, from the controller's metrics."""
    counts: dict[str, float] = {}
    for line in process.page("/metrics").splitlines():
        if line.startswith("ebbtide_api_calls_total{"):
            labels, value = line.rsplit(" ", 1)
            counts[labels.split('"')[1]] = float(value)
    if not counts:
        raise RuntimeError("the controller has no metric of its API calls")
    return counts


def _is_quiet(process: ControllerProcess) -> bool:
    before = _calls(process)
    time.sleep(12)
    return _calls(process).get("PATCH", 0) == before.get("PATCH", 0)


def reconciles(process: ControllerProcess) -> bool:
    return bool(json.loads(process.page("/status") or "{}").get("report"))
