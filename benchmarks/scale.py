"""The controller with a large customer: a rendered stack file, real servers, 100 nodes.

`scale_*`: 200 Deployments (160 pools and 40 flexible workloads) with 1,000 pods and 10,000 queues. `scale_start`: from
the start of the process to its first raise of replicas, and to 800 bound pods. `scale_turn`: a turn of the loop without
changes; `scale_churn`: turns while pods are deleted and created again, and the events of the watches.
`scale_process`: memory and CPU of the process, at rest and in churn. `scale_1000_pools_*`: the same, of 1,000 pools.
"""

import os
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median

from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node
from kubernetes.client import Configuration

from benchmarks.control_plane_process import ControllerProcess, controller, until
from benchmarks.measure import Figures, percentiles
from benchmarks.scale_stack import install_at_zero, large_stack
from benchmarks.scale_turns import Turns, as_woken, back_to_back
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import POOL, WORKER_NAMESPACE
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE

POOLS, QUEUES, WORKLOADS, COPIES, MOST = 160, 10_000, 40, 5, 10
BUSY = 80  # pools with as many jobs as their limit of workers
MANY_POOLS, MANY_BUSY = 1_000, 100
NODES = {"fixed": 4, "flexible": 96}
SECONDS = float(os.environ.get("EBBTIDE_BENCH_SCALE_SECONDS", "20"))  # of each measurement in time
TURNS = 40
CHURN = 4.0  # pods deleted each second
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
_PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"


def measured() -> dict[str, Figures]:
    large = large_stack(pools=POOLS, queues=QUEUES, workloads=WORKLOADS, copies=COPIES, most=MOST)
    many = large_stack(pools=MANY_POOLS, queues=MANY_POOLS, workloads=0, copies=0, most=1)
    with _scene(large, NODES) as scene:
        figures = _measured("scale", scene, busy=BUSY, jobs=MOST)
    with _scene(many, {"fixed": 4, "flexible": 6}) as scene:
        return figures | _measured("scale_1000_pools", scene, busy=MANY_BUSY, jobs=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    plane: ControlPlane
    redis: EmbeddedRedis
    config: ControllerConfig
    token: Configuration  # of the controller's account


@contextmanager
def _scene(settings: StackSettings, nodes: dict[str, int]) -> Generator[_Scene]:
    with ControlPlane() as plane, EmbeddedRedis() as redis:
        config = install_at_zero(plane, settings)
        for group, number in nodes.items():
            for node in range(number):
                add_group_node(plane, settings, group, f"{group}-{node}")
        reached = replace(config, redis=RedisEndpoint(host=redis.host, port=redis.port))
        token = plane.configuration(plane.token_for(NAMESPACE, CONTROLLER))
        yield _Scene(plane=plane, redis=redis, config=reached, token=token)


def _measured(name: str, scene: _Scene, *, busy: int, jobs: int) -> dict[str, Figures]:
    _enqueue(scene, busy, jobs)
    began = time.monotonic()
    with controller(scene.plane, scene.config) as process:
        until(lambda: _requested(scene.plane), "the first decision")
        first, cpu = time.monotonic() - began, process.cpu_seconds()
        until(lambda: _requested(scene.plane) == busy * jobs, "all workers to be requested")
        requested = time.monotonic() - began
        until(lambda: len(_bound(scene.plane)) == busy * jobs, "all workers to be bound")
        bound = time.monotonic() - began
        _register_workers(scene)
        process_figures = _process_figures(scene, process)
    quiet = back_to_back(scene.config, scene.token, TURNS)
    with _churn(scene.plane):
        churned = as_woken(scene.config, scene.token, SECONDS)
    return {
        f"{name}_start": {
            "first_decision_s": round(first, 1),
            "cpu_s": round(cpu, 2),
            "all_asked_s": round(requested, 1),
            "all_bound_s": round(bound, 1),
            "n": 1,
        },
        f"{name}_process": process_figures,
        f"{name}_turn": _turn_figures(quiet),
        f"{name}_churn": {
            **_turn_figures(churned),
            "events_per_min": round(churned.events / churned.minutes),
            "kib_per_min": round(churned.bytes / 1024 / churned.minutes),
        },
    }


def _enqueue(scene: _Scene, busy: int, jobs: int) -> None:
    """Push jobs to all queues of the first pools; every queue is registered in RQ."""
    with scene.redis.client() as client:
        for number, pool in enumerate(scene.config.pools):
            client.sadd("rq:queues", *(f"rq:queue:{queue}" for queue in pool.queues))
            for job in range(jobs if number < busy else 0):
                client.rpush(f"rq:queue:{pool.queues[job % len(pool.queues)]}", f"{pool.name}-{job}")


def _register_workers(scene: _Scene) -> None:
    """Register each worker at all its queues, as RQ does."""
    queues = {pool.name: pool.queues for pool in scene.config.pools}
    with scene.redis.client() as client:
        for item in scene.plane.api.get(_PODS)["items"]:
            pod, pool = item["metadata"]["name"], item["metadata"]["labels"][POOL]
            client.hset(f"rq:worker:{pod}", mapping={"hostname": pod, "state": "busy", "current_job": "a-job"})
            pipeline = client.pipeline()
            for queue in queues[pool]:
                pipeline.sadd(f"rq:workers:{queue}", f"rq:worker:{pod}")
            pipeline.execute()


def _turn_figures(turns: Turns) -> Figures:
    wall = percentiles(turns.wall_ms, 1)
    return {"p50_ms": wall["p50"], "p99_ms": wall["p99"], "cpu_ms": round(median(turns.cpu_ms), 1), "n": wall["runs"]}


def _process_figures(scene: _Scene, process: ControllerProcess) -> Figures:
    time.sleep(5)  # the Events of the scale-up are written, each with a pause
    rest = _spent(process)
    memory = process.resident_mib()
    with _churn(scene.plane):
        churn = _spent(process)
    return {
        "rss_mib": round(memory, 1),
        "rss_after_churn_mib": round(process.resident_mib(), 1),
        "rest_cpu_percent": rest[0],
        "rest_pass_ms": rest[1],
        "churn_cpu_percent": churn[0],
        "churn_pass_ms": churn[1],
        "churn_passes_per_min": churn[2],
        "n": 1,
    }


def _spent(process: ControllerProcess) -> tuple[float, float, float]:
    """Per cent of a core, the mean turn in milliseconds, and turns per minute."""
    names = ("ebbtide_reconciles_total", "ebbtide_reconcile_seconds_total")
    before, cpu, began = [process.metric(name) for name in names], process.cpu_seconds(), time.monotonic()
    time.sleep(SECONDS)
    wall_s, cpu_s = time.monotonic() - began, process.cpu_seconds() - cpu
    passes, seconds = (process.metric(name) - value for name, value in zip(names, before, strict=True))
    return round(100 * cpu_s / wall_s, 1), round(1000 * seconds / max(1, passes), 1), round(passes / wall_s * 60)


@contextmanager
def _churn(plane: ControlPlane) -> Generator[None]:
    """Delete pods of workers one after another; their ReplicaSets create them again."""
    over, victims = threading.Event(), _bound(plane)
    thread = threading.Thread(target=_delete, args=(plane, victims, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        until(lambda: len(_bound(plane)) == len(victims), "the pods to be back")


def _delete(plane: ControlPlane, victims: Sequence[str], over: threading.Event) -> None:
    for pod in victims:
        if over.wait(1 / CHURN):
            return
        plane.api.delete(f"{_PODS}/{pod}")


def _requested(plane: ControlPlane) -> int:
    """The requested workers of all pools."""
    return sum(item["spec"].get("replicas", 0) for item in plane.api.get(_DEPLOYMENTS)["items"])


def _bound(plane: ControlPlane) -> list[str]:
    """The pods with a node that are not stopping."""
    pods = plane.api.get(_PODS)["items"]
    bound = [item for item in pods if item["spec"].get("nodeName") and "deletionTimestamp" not in item["metadata"]]
    return [item["metadata"]["name"] for item in bound]
