"""What there is in the cluster and in Redis at one moment, as the screen shows it.

Read anew each time and whole: four lists of a small cluster cost less than keeping four watches alive.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from redis import Redis

from controllers.adapters.kube_api import KubeApi
from ebbtide.demo.jobs import read_records
from ebbtide.labels import NODE_GROUP
from ebbtide.operate.node_use import quantity, requested
from ebbtide.operate.objects import at, words_at
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import CATEGORY, Category

_CONDEMNED = "ToBeDeletedByClusterAutoscaler"
_ENDED = ("Succeeded", "Failed")
SYSTEM = "system"  # pods that are no workload of the customer's


class NodeState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    name: str
    group: str
    state: NodeState = NodeState.READY
    shares: Mapping[str, float]  # of its CPU, by category; what asks for none is not there
    pods: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSeen:
    name: str
    waiting: int
    running: int
    workers: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsSeen:
    done: int = 0
    interrupted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An eviction that the API server granted."""

    at: datetime
    pod: str
    category: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    at: datetime  # the customer's time
    nodes: tuple[NodeSeen, ...] = ()
    pools: tuple[PoolSeen, ...] = ()
    budgets: Mapping[str, bool]  # of flexible workloads: open?
    unplaced: int = 0  # pods that wait for a node
    jobs: JobsSeen = JobsSeen()
    moved: Sequence[Moved] = ()  # all since the start


def look(api: KubeApi, redis: Redis, config: ControllerConfig, now: datetime, moved: Sequence[Moved]) -> Seen:
    """Raises `ApiError` and `RedisError`."""
    pods = [pod for pod in api.get("/api/v1/pods")["items"] if at(pod, "status", "phase") not in _ENDED]
    budgets = api.get("/apis/policy/v1/poddisruptionbudgets")["items"]
    deployments = api.get("/apis/apps/v1/deployments")["items"]
    pools = _pools(config, deployments, redis)
    return Seen(
        at=now,
        nodes=nodes_of(api.get("/api/v1/nodes")["items"], pods),
        pools=pools,
        budgets=budgets_of(config, budgets),
        unplaced=sum(1 for pod in pods if not at(pod, "spec", "nodeName") and not _going(pod)),
        jobs=_jobs(redis, pools),
        moved=moved,
    )


def nodes_of(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> tuple[NodeSeen, ...]:
    """Those of node groups, by name: numbers in names are counted, not spelled."""
    homes: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        homes.setdefault(str(at(pod, "spec", "nodeName") or ""), []).append(pod)
    seen = [_node(node, homes.get(node["metadata"]["name"], [])) for node in nodes]
    return tuple(sorted((node for node in seen if node.group), key=lambda node: (len(node.name), node.name)))


def _node(node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> NodeSeen:
    room = quantity(at(node, "status", "allocatable", "cpu"))
    shares: dict[str, float] = {}
    for pod in pods:
        category = words_at(pod, "metadata", "labels").get(CATEGORY, SYSTEM)
        if room and (asked := requested(pod, "cpu")):
            shares[category] = shares.get(category, 0.0) + float(asked / room)
    return NodeSeen(
        name=node["metadata"]["name"],
        group=words_at(node, "metadata", "labels").get(NODE_GROUP, ""),
        state=_state(node),
        shares=shares,
        pods=sum(1 for pod in pods if words_at(pod, "metadata", "labels").get(CATEGORY) in list(Category)),
    )


def _state(node: Mapping[str, Any]) -> NodeState:
    if _going(node) or any(taint.get("key") == _CONDEMNED for taint in at(node, "spec", "taints") or ()):
        return NodeState.LEAVING
    conditions = at(node, "status", "conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return NodeState.READY if ready else NodeState.STARTING


def _going(item: Mapping[str, Any]) -> bool:
    return at(item, "metadata", "deletionTimestamp") is not None


def budgets_of(config: ControllerConfig, budgets: Iterable[Mapping[str, Any]]) -> Mapping[str, bool]:
    """Those that the controller may open, and whether they are; one without a value is closed."""
    found = {(b["metadata"]["namespace"], b["metadata"]["name"]): at(b, "spec", "maxUnavailable") for b in budgets}
    keys = {budget.name: (budget.namespace, budget.name) for budget in config.budgets}
    return {name: found[key] not in (None, 0) for name, key in keys.items() if key in found}


def _pools(config: ControllerConfig, deployments: Iterable[Mapping[str, Any]], redis: Redis) -> tuple[PoolSeen, ...]:
    replicas = {
        (d["metadata"]["namespace"], d["metadata"]["name"]): int(at(d, "spec", "replicas") or 0) for d in deployments
    }
    queues = [queue for pool in config.pools for queue in pool.queues]
    with redis.pipeline(transaction=True) as asked:
        for queue in queues:
            asked.llen(f"rq:queue:{queue}")
        for queue in queues:
            asked.zcard(f"rq:wip:{queue}")
        counts: list[int] = asked.execute()
    waiting, running = dict(zip(queues, counts, strict=False)), dict(zip(queues, counts[len(queues) :], strict=True))
    return tuple(
        PoolSeen(
            name=pool.name,
            waiting=sum(waiting.get(queue, 0) for queue in pool.queues),
            running=sum(running.get(queue, 0) for queue in pool.queues),
            workers=replicas.get((pool.namespace, pool.deployment), 0),
            most=pool.max_workers,
        )
        for pool in config.pools
    )


def _jobs(redis: Redis, pools: Iterable[PoolSeen]) -> JobsSeen:
    """A job that has started and not ended runs, or else it was interrupted."""
    records = read_records(redis)
    return JobsSeen(done=records.done, interrupted=max(0, records.interrupted - sum(pool.running for pool in pools)))
