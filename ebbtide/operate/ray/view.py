"""An operator's view of a Ray cluster: the queue, the drivers, Ray's demand and its pods. Pure.

None means unknown, never zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from controllers.workloads.ray.clusters import ObservedRayCluster, observed
from ebbtide.operate.objects import Document, annotations_of, at, labels_of, parse_instant, rows_at
from ebbtide.operate.ray.facts import HEAD_GROUP, RAY_GROUP, RayFacts
from ebbtide.prices import NoPrice, on_demand, spot_typical
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy
from ebbtide.vocabulary.holds import Hold, hold_of, hold_until
from ebbtide.vocabulary.labels import APPLY_UNTIL, ASLEEP_FOR, WAKE_UNTIL
from ebbtide.vocabulary.workloads import Sleep, SleepWhen, sleep_of

UNKNOWN, ABSENT = "unknown", "absent"
_TYPE, _REGION = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"
_CAPACITY, _SPOT = ("eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type"), "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drivers:
    """A pool of workers that drive the cluster; `reading` is the scaler's reading of its queues."""

    pool: str
    reading: Document | None
    wanted: int | None
    ready: int | None
    max: int | None
    missing: bool = False  # its Deployment does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class RayGroupView:
    """A group of workers, or the head: its requested replicas, its pods, and the cost of their nodes."""

    name: str
    wanted: int | None
    min: int | None
    max: int | None
    running: int | None
    pending: int | None
    ending: int | None
    overdue: int | None = None  # idle workers past their time-out
    idle_after: timedelta | None = None  # after which Ray's autoscaler removes a worker without tasks
    waits: str = ""  # why the first pending pod does not run
    usd_per_hour: float | None = None
    unpriced: str = ""  # why there is no price


@dataclass(frozen=True, slots=True, kw_only=True)
class RayView:
    name: str
    namespace: str
    state: str  # absent, empty, awake, suspending, asleep, unknown
    asleep_for: str  # rest, spec; empty for neither, or if another manager suspended it
    why: str | None  # the workload controller's reason
    since: datetime | None
    activity: str | None  # the head's report of what runs, or why there is none
    busy: bool  # the head reports activity
    idle_for: timedelta | None
    sleep: Sleep | None
    held: str  # by an operator
    wake_until: datetime | None
    apply_until: datetime | None
    drivers: tuple[Drivers, ...]
    desired: int | None  # workers, as KubeRay reports them
    ready: int | None
    available: int | None
    head: RayGroupView
    groups: tuple[RayGroupView, ...]
    pending: tuple[str, ...] | None  # fields of the spec that are applied when it sleeps
    later: tuple[str, ...]
    notes: tuple[str, ...]


def ray_view(facts: RayFacts, config: ControllerConfig, document: Document | None) -> RayView:
    """Combine the facts; `document` is the scaler's status, if it answers."""
    cluster = observed(dict(facts.cluster)) if facts.cluster else None
    annotations = annotations_of(facts.cluster or {})
    hold = hold_of(annotations)
    report = facts.report or {}
    status = at(facts.cluster, "status")
    groups = [_group(facts, spec) for spec in _specs(facts, cluster)]
    notes = [*facts.unread, *([str(report["note"])] if report.get("note") else [])]
    sleep = _sleep(annotations, notes) if cluster else None
    return RayView(
        name=facts.policy.name,
        namespace=facts.policy.namespace,
        state=cluster.state if cluster else UNKNOWN if facts.cluster is None else ABSENT,
        asleep_for=annotations.get(ASLEEP_FOR, ""),
        why=report.get("why"),
        since=parse_instant(report.get("since"))
        or (_suspended_since(facts.cluster) if cluster and cluster.gone else None),
        activity=report.get("activity"),
        busy=report.get("reading") == "busy",
        idle_for=_seconds(report.get("idleFor")),
        sleep=sleep,
        held=hold.why if hold is not None and hold.holds_at(facts.now) else "",
        wake_until=_future(cluster and hold_until(cluster.annotations, WAKE_UNTIL), facts.now),
        apply_until=_future(cluster and hold_until(cluster.annotations, APPLY_UNTIL), facts.now),
        drivers=tuple(_drivers(facts, name, config, document) for name in facts.policy.pools),
        desired=_count(status, "desiredWorkerReplicas"),
        ready=_count(status, "readyWorkerReplicas"),
        available=_count(status, "availableWorkerReplicas"),
        head=_group(facts, {"groupName": HEAD_GROUP}),
        groups=tuple(groups),
        pending=_lines(report, "pending"),
        later=_lines(report, "later") or (),
        notes=tuple(notes),
    )


def _sleep(annotations: Mapping[str, str], notes: list[str]) -> Sleep | None:
    try:
        return sleep_of(annotations)
    except ValueError as error:
        notes.append(str(error))
        return None


def _future(hold: Hold | None, now: datetime) -> datetime | None:
    return hold.until if hold is not None and hold.until is not None and hold.holds_at(now) else None


def _seconds(value: object) -> timedelta | None:
    return timedelta(seconds=value) if isinstance(value, int | float) else None


def _lines(report: Document, key: str) -> tuple[str, ...] | None:
    value: object = report.get(key)
    return tuple(map(str, cast("list[object]", value))) if isinstance(value, list) else None


def _suspended_since(cluster: Document | None) -> datetime | None:
    conditions = rows_at(cluster, "status", "conditions")
    suspended = next((row for row in conditions if row.get("type") == "RayClusterSuspended"), None)
    return parse_instant(at(suspended, "lastTransitionTime"))


def _count(status: object, key: str) -> int | None:
    """Read a count from KubeRay's status, which omits zeros and is absent before the first reconciliation."""
    if at(status, "observedGeneration") is None and at(status, "state") is None:
        return None
    return at(status, key) or 0


def _drivers(facts: RayFacts, name: str, config: ControllerConfig, document: Document | None) -> Drivers:
    policy: PoolPolicy | None = next((pool for pool in config.pools if pool.deployment == name), None)
    rows = rows_at(document, "report", "pools")
    row = next((row for row in rows if policy is not None and row.get("name") == policy.name), None)
    item = facts.pools.get(name)
    return Drivers(
        pool=policy.name if policy is not None else name,
        reading=at(row, "reading"),
        wanted=(at(item, "spec", "replicas") or 0) if item else None,
        ready=(at(item, "status", "readyReplicas") or 0) if item else None,
        max=policy.max_workers if policy is not None else None,
        missing=item == {},
    )


def _specs(facts: RayFacts, cluster: ObservedRayCluster | None) -> Iterable[Document]:
    """Return the spec's groups in order, then removed groups that still have pods."""
    specs = rows_at(cluster.spec if cluster else None, "workerGroupSpecs")
    names = {str(spec.get("groupName")) for spec in specs}
    removed = {labels_of(pod).get(RAY_GROUP, "") for pod in facts.pods or ()} - names - {HEAD_GROUP}
    return [*specs, *({"groupName": name} for name in sorted(removed))]


def pods_of(facts: RayFacts, group: str) -> list[Document] | None:
    if facts.pods is None:
        return None
    return [pod for pod in facts.pods if labels_of(pod).get(RAY_GROUP) == group]


def is_ending(pod: Document) -> bool:
    return bool(at(pod, "metadata", "deletionTimestamp"))


def _group(facts: RayFacts, spec: Document) -> RayGroupView:
    name = str(spec.get("groupName"))
    pods = pods_of(facts, name)
    living = [pod for pod in pods or () if not is_ending(pod)]
    pending = [pod for pod in living if at(pod, "status", "phase") == "Pending"]
    running = [pod for pod in living if at(pod, "status", "phase") == "Running"]
    usd, unpriced = _cost(facts, pods)
    known = pods is not None
    return RayGroupView(
        name=name,
        wanted=spec.get("replicas"),
        min=spec.get("minReplicas"),
        max=spec.get("maxReplicas"),
        running=len(running) if known else None,
        pending=len(pending) if known else None,
        ending=sum(map(is_ending, pods)) if pods is not None else None,
        overdue=next(
            (row.get("overdue") for row in rows_at(facts.report, "workers") if row.get("group") == name), None
        ),
        idle_after=_idle_after(facts.cluster, spec),
        waits=why_pending(pending[0]) if pending else "",
        usd_per_hour=usd,
        unpriced=unpriced,
    )


def _idle_after(cluster: Document | None, spec: Document) -> timedelta | None:
    """Return the group's own time-out, or else the cluster's."""
    seconds = spec.get("idleTimeoutSeconds")
    return _seconds(seconds if seconds is not None else at(cluster, "spec", "autoscalerOptions", "idleTimeoutSeconds"))


def why_pending(pod: Document) -> str:
    """Return the scheduler's or kubelet's reason why a pod does not run yet."""
    for condition in rows_at(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return collapsed(condition.get("message") or condition.get("reason") or "not scheduled")
    for status in (*rows_at(pod, "status", "initContainerStatuses"), *rows_at(pod, "status", "containerStatuses")):
        if reason := at(status, "state", "waiting", "reason"):
            return f"container {status.get('name')}: {reason}"
    return "starting" if at(pod, "spec", "nodeName") else "not scheduled yet"


def _cost(facts: RayFacts, pods: Sequence[Document] | None) -> tuple[float | None, str]:
    """Return dollars per hour of these pods' nodes, each node once; or None and why."""
    if pods is None:
        return None, "its pods are not known"
    names = sorted({str(name) for pod in pods if (name := at(pod, "spec", "nodeName"))})
    total = 0.0
    for name in names:
        usd, why = node_price(facts.nodes.get(name))
        if usd is None:
            return None, f"node {name}: {why}"
        total += usd
    return total, ""


def node_price(node: Document | None) -> tuple[float | None, str]:
    """Return dollars per hour by the prices in use: on demand, or the typical spot price; or None and why."""
    labels = labels_of(node or {})
    if _TYPE not in labels or _REGION not in labels:
        return None, "its instance type and region are not known"
    spot = any(labels.get(key, "").lower() == _SPOT for key in _CAPACITY)
    try:
        return (spot_typical if spot else on_demand)(labels[_REGION], labels[_TYPE]), ""
    except NoPrice as error:
        return None, str(error)


def never_sleeps(view: RayView) -> bool:
    return view.sleep is not None and view.sleep.when is SleepWhen.NEVER
