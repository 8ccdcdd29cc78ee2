"""Explain why a Ray cluster is awake, why one of its workers stays, and what a driver waits for.

Ray's head reports what runs in the cluster, but not on which worker: only its autoscaler knows which worker is idle. So
a single worker's line states only what is certain. `read_clusters` reads; the other functions are pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.objects import Document, at, labels_of
from ebbtide.operate.ray.facts import HEAD_GROUP, RAY_GROUP, RayFacts, ray_facts, workloads_config_of
from ebbtide.operate.ray.text import drivers_text, hold_lines, pending_lines, state_text
from ebbtide.operate.ray.view import Drivers, RayGroupView, RayView, is_ending, never_sleeps, ray_view, why_pending
from ebbtide.text.counts import several, verb
from ebbtide.text.durations import format_duration, whole_minutes
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.workloads import Wake

KEEPS_ONE = "version 2 of Ray's autoscaler may keep an idle one (kuberay#3738)"
_SHOWN = 8  # workers; further ones are only counted


@dataclass(frozen=True, slots=True)
class ExplainedRayCluster:
    facts: RayFacts
    view: RayView


def read_clusters(
    api: KubeApi, namespace: str, config: ControllerConfig, document: Document | None, now: datetime
) -> list[ExplainedRayCluster]:
    """Read all Ray clusters of the stack. Raises `ApiError` and `CannotOperate`."""
    clusters = ray_facts(api, workloads_config_of(api, namespace), now)
    return [ExplainedRayCluster(facts, ray_view(facts, config, document)) for facts in clusters]


def explain_ray(clusters: Sequence[ExplainedRayCluster], name: str, timezone: str) -> list[str]:
    """Return sentences for the name of a cluster or of one of its pods. Raises `CannotOperate` for any other name."""
    for cluster in clusters:
        view = cluster.view
        if view.name == name:
            return [*_cluster_lines(cluster, timezone), *(f"not known: {note}" for note in view.notes)]
        if pod := next((pod for pod in cluster.facts.pods or () if pod["metadata"]["name"] == name), None):
            return [f"{name} is {_role(pod)} of Ray cluster {view.name}: {why_pod(view, pod, timezone)}."]
    have = ", ".join(cluster.view.name for cluster in clusters) or "none"
    raise CannotOperate(f"no Ray cluster and no pod of one is called {name}; there are the clusters: {have}", 2)


def _role(pod: Document) -> str:
    group = labels_of(pod).get(RAY_GROUP, "")
    return "the head" if group == HEAD_GROUP else f"a worker of group {group}"


def _cluster_lines(cluster: ExplainedRayCluster, timezone: str) -> Iterator[str]:
    view = cluster.view
    yield f"Ray cluster {view.name}: {state_text(view, timezone)}."
    yield from (f"An operator asked: {text}." for text in hold_lines(view, timezone))
    if pending := pending_lines(view):
        until = "once nothing has run for a minute and no driver is wanted, or: ebbtide maintenance --ray"
        yield f"A new spec waits ({', '.join(pending)}); it is applied {until} {view.name}."
    for drivers in view.drivers:
        yield from driver_lines(view, drivers)
    pods = [pod for pod in cluster.facts.pods or () if labels_of(pod).get(RAY_GROUP) != HEAD_GROUP]
    for pod in pods[:_SHOWN]:
        yield f"  - {pod['metadata']['name']}: {why_pod(view, pod, timezone)}"
    if len(pods) > _SHOWN:
        yield f"    and {len(pods) - _SHOWN} more workers"


def why_pod(view: RayView, pod: Document, timezone: str) -> str:
    """Explain why a pod still exists, or why it does not run."""
    name = labels_of(pod).get(RAY_GROUP, "")
    if is_ending(pod):
        seconds = at(pod, "metadata", "deletionGracePeriodSeconds") or 0
        return f"it is terminating, and has up to {max(1, int(seconds) // 60)} min to end its tasks"
    if view.state in ("suspending", "asleep"):
        return f"the cluster goes to sleep, and this pod with it: {state_text(view, timezone)}"
    if at(pod, "status", "phase") == "Pending":
        return f"it does not run yet: {why_pending(pod)}"
    if name == HEAD_GROUP:
        return f"the head ends only with the entire cluster, which is {state_text(view, timezone)}"
    group = next((group for group in view.groups if group.name == name), None)
    return "; ".join([_why_worker(view, group), *_cluster_holds(view)])


def _why_worker(view: RayView, group: RayGroupView | None) -> str:
    if group is None or group.max is None:
        return "its group is gone from the spec, and it goes when Ray finds it idle"
    limit = f"after {format_duration(group.idle_after)} without tasks" if group.idle_after is not None else "when idle"
    if view.idle_for is None:
        if view.busy:
            busy = f"it may be busy ({view.activity})"
            return f"{busy}; Ray's autoscaler removes it {limit}, and only it knows which is idle"
        if view.activity in (None, "not read"):
            return f"whether it is busy is not known; Ray's autoscaler removes it {limit}"
        return f"whether it is busy is not known, as the head gives no answer: {view.activity}"
    idle = f"nothing has run in the cluster for {whole_minutes(view.idle_for)}"
    if group.min and (group.running or 0) <= group.min:
        return f"{idle}, and its group keeps its min of {group.min}"
    if group.idle_after is None or view.idle_for <= group.idle_after:
        return f"{idle}; Ray's autoscaler removes it {limit}"
    sleeps = "it never sleeps" if never_sleeps(view) else "it goes when the cluster sleeps"
    return f"{idle}, and Ray's autoscaler, which removes a worker {limit}, has not: {KEEPS_ONE}; {sleeps}"


def _cluster_holds(view: RayView) -> Iterator[str]:
    if view.held:
        yield f"an operator holds the cluster ({view.held})"
    if view.pending:
        yield "a new spec waits until nothing runs"


def driver_lines(view: RayView, drivers: Drivers) -> Iterator[str]:
    """Yield what jobs of this pool wait for, from the driver to the last pod."""
    yield f"Drivers {drivers_text(drivers)}."
    if drivers.wanted is not None and drivers.ready is not None and drivers.ready < drivers.wanted:
        missing = drivers.wanted - drivers.ready
        do = verb(missing, "does", "do")
        yield f"{several(missing, 'driver')} {do} not run yet: ebbtide why pool {drivers.pool}."
    elif drivers.max is not None and drivers.ready == drivers.max:
        yield f"All {drivers.max} drivers that its max allows are there: a job waits until one of them is free."
    if view.state in ("asleep", "suspending"):
        wakes = view.sleep is not None and Wake.QUEUE in view.sleep.wake
        remedy = (
            "it wakes when a driver is wanted" if wakes else f"no queue wakes it (sleep.wake): ebbtide wake {view.name}"
        )
        yield f"A driver waits for the head: {view.name} is {view.state}; {remedy}."
    elif view.head.running == 0:
        why = view.head.waits.removesuffix(".") or "it has no pod yet"
        yield f"A driver waits for the head, which does not run: {why}."
    for group in view.groups:
        if group.max is not None and group.wanted is not None and group.max and group.wanted >= group.max:
            yield f"Group {group.name} is at its max of {group.max}: further tasks wait for a free worker."
        if group.pending:
            waits = group.waits.removesuffix(".")  # Kubernetes ends its sentence
            do = verb(group.pending, "does", "do")
            yield f"Group {group.name}: {several(group.pending, 'pod')} {do} not run yet: {waits}."


def job_lines(document: Document, config: ControllerConfig, clusters: Sequence[ExplainedRayCluster]) -> list[str]:
    """Return what a waiting or just started job waits for, if its pool drives a Ray cluster."""
    rq = document.get("rq")
    if at(rq, "status") not in ("queued", "started"):
        return []
    pools = {pool.name for pool in config.pools if pool.source == "rq" and at(rq, "queue") in pool.queues}
    return [
        line
        for cluster in clusters
        for drivers in cluster.view.drivers
        if drivers.pool in pools
        for line in (f"Its pool drives Ray cluster {cluster.view.name}.", *driver_lines(cluster.view, drivers))
    ]


def reasons_on_node(
    api: KubeApi, namespace: str, config: ControllerConfig, pods: Sequence[Document], now: datetime
) -> dict[str, str]:
    """Return, by `namespace/name` of Ray's pods, their cluster and why they stay. Raises `ApiError`."""
    reasons: dict[str, str] = {}
    for cluster in read_clusters(api, namespace, config, None, now):
        view, names = cluster.view, {pod["metadata"]["name"] for pod in cluster.facts.pods or ()}
        for pod in pods:
            space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if space == view.namespace and name in names:
                why = why_pod(view, pod, config.hours.timezone)
                reasons[f"{space}/{name}"] = f"it is {_role(pod)} of Ray cluster {view.name}: {why}"
    return reasons


def clusters_or_reason(
    api: KubeApi, namespace: str, config: ControllerConfig, now: datetime
) -> tuple[list[ExplainedRayCluster], str]:
    """Return the clusters, or why they are unknown: a job can be explained without them."""
    try:
        return read_clusters(api, namespace, config, None, now), ""
    except (ApiError, CannotOperate) as error:
        return [], collapsed(error)
