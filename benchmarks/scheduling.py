"""What required anti-affinity costs the real scheduler: terms on the few fixed pods, or on all.

The terms are enforced both ways, so both keep the categories apart. A pod with terms of its own makes the scheduler
look at every node for pods that they name; a pod without makes it look only at nodes that hold pods with terms.

The scheduler is frozen while a burst of pods is created and then let go, so that it never waits for them. A burst is
smaller than what its client may send at once, or the rate limit would be measured. Times are the scheduler's own; its
CPU is what a busy machine disturbs least.
"""

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Any, cast

from control_plane.plane.driver import ControlPlane

from benchmarks.measure import Figures, spread
from components.pods.rules import HOST, affinity, nodes_of_kind
from controllers.adapters.kube_api import Json
from ebbtide.labels import NODE_KIND, NodeKind
from ebbtide.vocabulary.labels import CATEGORY, Category

NODE_COUNTS = (100, 1_000)
PODS_PER_NODE = 3  # there before the burst
BURST = 180
RUNS = 5
_PODS = "/api/v1/namespaces/default/pods"
_PATIENCE = 300.0
_CREATORS = 4
_ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"
_CPU = "process_cpu_seconds_total"

# One in ten is fixed, on one node in ten.
_MIX = (Category.FIXED, *(Category.FLEXIBLE, Category.WORKER) * 4, Category.FLEXIBLE)


class Terms(StrEnum):
    FIXED = "fixed"
    ALL = "all"


def measured() -> dict[str, Figures]:
    figures: dict[str, Figures] = {}
    for nodes in NODE_COUNTS:
        for terms in Terms:
            bursts = _bursts(nodes, terms)
            stem = f"scheduling_{nodes}_nodes_terms_on_{terms}"
            figures[f"{stem}_algorithm_ms"] = spread([burst.algorithm_ms for burst in bursts])
            figures[f"{stem}_cpu_ms"] = spread([burst.cpu_ms for burst in bursts])
            figures[f"{stem}_pods_per_s"] = spread([burst.pods_per_s for burst in bursts], 1)
    return figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Means over the pods of one burst."""

    algorithm_ms: float  # filtering and scoring
    cpu_ms: float  # of the scheduler's process: binding, events and its watches too
    pods_per_s: float  # from letting the scheduler go to the last pod with a node


def _bursts(nodes: int, terms: Terms) -> list[Burst]:
    numbers = count()
    with ControlPlane() as plane:
        _add_nodes(plane, nodes)
        residents = [_pod(terms, next(numbers), f"node-{index % nodes}") for index in range(nodes * PODS_PER_NODE)]
        _create(plane, residents)
        bursts = [_burst(plane, [_pod(terms, next(numbers)) for _ in range(BURST)]) for _ in range(RUNS + 1)]
        return bursts[1:]  # the first warms its caches


def _add_nodes(plane: ControlPlane, nodes: int) -> None:
    def add(index: int) -> None:
        kind = NodeKind.FIXED if _category_at(index) is Category.FIXED else NodeKind.FLEXIBLE
        plane.add_node(f"node-{index}", labels={NODE_KIND: kind.value}, cpu=64, memory="256Gi")

    with ThreadPoolExecutor(_CREATORS) as pool:
        list(pool.map(add, range(nodes)))


def _category_at(index: int) -> Category:
    return _MIX[index % len(_MIX)]


def _burst(plane: ControlPlane, arrivals: Sequence[Json]) -> Burst:
    before = _totals(plane)
    plane.suspend("kube-scheduler")
    try:
        _create(plane, arrivals)
    finally:
        plane.resume("kube-scheduler")
    began = time.monotonic()
    while _waiting(plane):
        if time.monotonic() - began > _PATIENCE:
            raise TimeoutError("the scheduler found no node for some pods")
        time.sleep(0.02)
    took, after = time.monotonic() - began, _totals(plane)
    for pod in arrivals:
        plane.api.delete(f"{_PODS}/{pod['metadata']['name']}")
    grown = {name: after[name] - before.get(name, 0.0) for name in after}
    return Burst(
        algorithm_ms=1_000 * grown[f"{_ALGORITHM}_sum"] / grown[f"{_ALGORITHM}_count"],
        cpu_ms=1_000 * grown[_CPU] / len(arrivals),
        pods_per_s=len(arrivals) / took,
    )


def _waiting(plane: ControlPlane) -> bool:
    unbound = plane.api.get("/api/v1/pods", fieldSelector="spec.nodeName=", limit="1")
    return bool(unbound["items"])


def _totals(plane: ControlPlane) -> dict[str, float]:
    """Of the scheduler, as it tells Prometheus."""
    wanted = rf"^({_CPU}|{_ALGORITHM}_sum|{_ALGORITHM}_count)(?:{{.*}})? (\S+)$"
    found = re.findall(wanted, plane.metrics("kube-scheduler"), re.MULTILINE)
    return {name: float(value) for name, value in found}


# --- the pods ---------------------------------------------------------------------------------------------------------


def _create(plane: ControlPlane, pods: Sequence[Json]) -> None:
    def create(pod: Json) -> None:
        plane.api.create(_PODS, pod)

    with ThreadPoolExecutor(_CREATORS) as pool:
        list(pool.map(create, pods))


def _pod(terms: Terms, number: int, node: str = "") -> Json:
    """With a node it is there already; without one the scheduler finds it one."""
    index = int(node.rpartition("-")[2]) if node else number
    category = _category_at(index)
    kind = NodeKind.FIXED if category is Category.FIXED else NodeKind.FLEXIBLE
    spec: dict[str, Any] = {
        "affinity": {**_terms_of_others(category, terms), **_spelled(affinity(category))},
        "nodeSelector": nodes_of_kind(kind),
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "pod", "image": "pod", "resources": {"requests": {"cpu": "100m"}}}],
    }
    placed = {"nodeName": node} if node else {}
    metadata = {"name": f"pod-{number}", "labels": {CATEGORY: category.value}}
    return {"metadata": metadata, "spec": {**spec, **placed}}


def _terms_of_others(category: Category, terms: Terms) -> dict[str, Any]:
    """What keeps a flexible or worker pod off the nodes of fixed ones by a term of its own."""
    if category is Category.FIXED or terms is Terms.FIXED:
        return {}
    term = {
        "labelSelector": {"matchLabels": {CATEGORY: Category.FIXED.value}},
        "namespaceSelector": {},
        "topologyKey": HOST,
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spelled(value: object) -> Any:
    """As the API server spells it: camelCase, in names of fields and not in labels, which have a slash."""
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value).items()
        return {_camel(key): _spelled(entry) for key, entry in entries}
    if isinstance(value, list):
        return [_spelled(entry) for entry in cast("list[object]", value)]
    return value


def _camel(key: str) -> str:
    return key if "/" in key else re.sub(r"_(.)", lambda match: match[1].upper(), key)
