"""Dangers for worker pools whose checkpoints or queues change, and for Ray clusters whose section changes."""

from collections.abc import Iterator
from typing import Any

from components.pods.redis_access import redis_endpoint
from ebbtide.findings import Severity
from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.document import ChangeKind, Danger
from ebbtide.provisioning_labels import POOL
from ebbtide.recording.pods import RAY_CLUSTER, Pods
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.checkpoints import CheckpointSettings, Interruptible
from ebbtide.settings.sections.ray import FaultTolerance, RayPod, RaySettings, namespace_of_ray
from ebbtide.settings.sections.workers import PoolSettings, WorkerSettings, grace_seconds
from ebbtide.text.durations import format_duration
from ebbtide.text.pages import page_command

GRACE_SHORTENED = danger_kind("grace-shortened", "a stopped worker that must save gets less time", Severity.WARNING)
JOBS_INTERRUPTIBLE = danger_kind("jobs-interruptible", "workers may be moved, or at more times", Severity.WARNING)
BUDGET_LEFT_OPEN = danger_kind(
    "budget-left-open", "a pool loses its checkpoints, and an open budget stays open", Severity.WARNING
)
POOL_ON_SPOT = danger_kind("pool-on-spot", "a pool moves to spot nodes", Severity.WARNING)
FALLBACK_CHANGED = danger_kind(
    "fallback-changed", "a pool on spot nodes gets another fallback on demand, or loses it", Severity.WARNING
)
QUEUES_LEFT = danger_kind("queues-left", "a pool leaves queues that no other pool serves", Severity.WARNING)
QUEUE_RIGHTS_END = danger_kind(
    "queue-rights-end", "workers in SQS lose the rights on a queue while they may run its jobs", Severity.WARNING
)
RAY_CHANGE_WAITS = danger_kind(
    "ray-change-waits", "a change of a Ray cluster waits until nothing runs there", Severity.WARNING
)
RAY_HEAD_STRANDED = danger_kind(
    "ray-head-stranded", "the head of a Ray cluster loses the Redis that holds its state", Severity.WARNING
)

_AT_ONCE = {"min", "max", "idle_after"}
"""Fields of a group that are written while it runs; a lower maximum takes effect as its workers end."""
_WHEN = {
    Interruptible.IN_WINDOW: "in the disruption window, one at a time",
    Interruptible.ALWAYS: "at any time, in business hours too, one at a time",
}


def workers_of(compared: Compared, pool: str) -> list[Pods]:
    return [pods for pods in compared.before.pods if pods.labels.get(POOL) == pool]


def checkpoint_dangers(compared: Compared) -> Iterator[Danger]:
    before = compared.before.settings.workers
    for name, pool in compared.after.settings.workers.items():
        if name not in before:
            continue
        yield from _less_grace(compared, name, before[name], pool)
        if pool.checkpoints is not None:
            yield from _interruptible(compared, name, before[name].checkpoints, pool.checkpoints)
        elif before[name].checkpoints is not None:
            yield _left_open(compared, name)
        if compared.after.settings.on_spot(pool) and not compared.before.settings.on_spot(before[name]):
            yield _moves_to_spot(compared, name, pool)
        if pool.fallback != before[name].fallback and compared.after.settings.on_spot(pool):
            yield _other_fallback(compared, name, pool)


def _less_grace(compared: Compared, name: str, old: WorkerSettings, new: WorkerSettings) -> Iterator[Danger]:
    """Only pools that must save; LONGEST_JOB_LOWERED reports the others."""
    old_grace, new_grace = grace_seconds(old), grace_seconds(new)
    if new.checkpoints is not None and new.checkpoints.required and new_grace < old_grace:
        opens = format_duration(new.checkpoints.open_within)
        yield GRACE_SHORTENED.danger(
            subjects=(name,),
            text=f"gives a stopped worker of pool {name} {new_grace} s instead of {old_grace} s: its jobs must save",
            impact=compared.impact(workers_of(compared, name)),
            remedy=f"see that each of its jobs opens a checkpoint within {opens}: one that does not is failed",
        )


def _interruptible(
    compared: Compared, name: str, old: CheckpointSettings | None, new: CheckpointSettings
) -> Iterator[Danger]:
    if old is None or (new.interruptible is Interruptible.ALWAYS and old.interruptible is not new.interruptible):
        yield JOBS_INTERRUPTIBLE.danger(
            subjects=(name,),
            text=f"lets workers of pool {name} be moved {_WHEN[new.interruptible]}; their jobs go on elsewhere",
            impact=compared.impact(workers_of(compared, name)),
            remedy="see that its jobs use checkpoints: a job without one delays the move by up to its worker's grace",
        )


def _left_open(compared: Compared, name: str) -> Danger:
    """The controller loses its right to the budget, and the instruction to close it."""
    return BUDGET_LEFT_OPEN.danger(
        subjects=(name,),
        text=f"takes the checkpoints from pool {name}: an open budget then stays open",
        impact=compared.impact(workers_of(compared, name)),
        remedy="do it in business hours, when the budget is closed, and set interruptible: inWindow first",
    )


def _moves_to_spot(compared: Compared, name: str, pool: WorkerSettings) -> Danger:
    notice = "two minutes after a notice" if pool.must_save else "mostly without a notice to the worker"
    return POOL_ON_SPOT.danger(
        subjects=(name,),
        text=f"moves pool {name} to spot nodes of group {pool.node_group}, which AWS takes back {notice}",
        impact=compared.impact(workers_of(compared, name)),
        remedy=f"{page_command('spot#with-checkpoints')} lists what its jobs must tolerate"
        if pool.must_save
        else "give it checkpoints, required: true",
    )


def _other_fallback(compared: Compared, name: str, pool: WorkerSettings) -> Danger:
    spot, on_demand = pool.node_group, pool.fallback
    impact = compared.impact(workers_of(compared, name))
    if not on_demand:
        return FALLBACK_CHANGED.danger(
            subjects=(name,),
            text=f"takes the fallback from pool {name}: its jobs wait while spot group {spot} gets no nodes",
            impact=impact,
            remedy="none needed if its jobs can wait for spot nodes",
        )
    groups = compared.after.settings.node_groups
    for_others = "" if groups[spot].has_gpus else f"; {spot} grows first for every pod that names no nodes"
    return FALLBACK_CHANGED.danger(
        subjects=(name,),
        text=f"lets workers of pool {name} start on group {on_demand}, on demand, when {spot} gets no nodes",
        impact=f"up to {groups[on_demand].max} nodes at on-demand prices; there, too, any drain evicts all workers of "
        f"a node at once{for_others}",
        remedy=f"see that their jobs save; {page_command('spot#when-spot-has-no-capacity')} says when a worker falls "
        "back, and who may move it",
    )


def queue_dangers(compared: Compared) -> Iterator[Danger]:
    before, after = compared.before.settings, compared.after.settings
    coming = with_adopted_pools(after).workers
    served = {(_place(after, pool), queue) for pool in coming.values() for queue in pool.source.queues}
    for name, pool in with_adopted_pools(before).workers.items():
        left = [queue for queue in pool.source.queues if (_place(before, pool), queue) not in served]
        if name in coming and left and (pool.source.broker or coming[name].source.broker):
            holder = f"broker {pool.source.broker}" if pool.source.broker else "Redis"
            yield QUEUES_LEFT.danger(
                subjects=(name,),
                text=f"takes queue {listed(left)} in {holder} from pool {name}, and no other pool serves it",
                impact="jobs that wait there do not run",
                remedy="let producers use the new queue first, and change the pool when the old one is empty (ebbtide "
                "status)",
            )


def queue_rights_dangers(compared: Compared) -> Iterator[Danger]:
    """A role changes at once, and workers that end may run a job for hours, whose message they must hide and delete."""
    before, after = compared.before.settings, compared.after.settings
    for name, pool in before.workers.items():
        if not before.gets_rights_on_queues(pool):
            continue
        lost = [queue for queue in pool.source.queues if queue not in _queues_with_rights(after, name)]
        if lost:
            yield QUEUE_RIGHTS_END.danger(
                subjects=(name,),
                text=f"takes from pool {name} the rights on queue {listed(lost)} in SQS at once, while its workers may "
                "run jobs of it",
                impact="these jobs run twice: their messages cannot be kept hidden, nor deleted",
                remedy=f"keep them in the pool's aws.queues ({lost[0]}: receive) until its old workers have ended, or "
                "apply while no job of it runs (ebbtide status)",
            )


def _queues_with_rights(settings: StackSettings, name: str) -> set[str]:
    pool = settings.workers.get(name)
    if pool is None:
        return set()
    broker = settings.broker_of(pool)
    served = pool.source.queues if broker is not None and broker.on_sqs else ()
    return {*served, *(pool.aws.queues if pool.aws else ())}


def _place(settings: StackSettings, pool: PoolSettings) -> tuple[str, ...]:
    """Return what distinguishes the servers that hold queues. A new port or TLS leads to the same ones."""
    broker = settings.broker_of(pool)
    return () if broker is None else (broker.kind, broker.host, broker.vhost)


def ray_dangers(compared: Compared) -> Iterator[Danger]:
    """Most changes of a Ray cluster wait until nothing runs in it (docs/adr/0027)."""
    before = compared.before.settings.ray
    yield from _heads_stranded(compared)
    for name, cluster in compared.after.settings.ray.items():
        if name in before and (waiting := _waiting_keys(before[name], cluster)):
            space = namespace_of_ray(name)
            pods = [entry for entry in compared.before.pods if entry.kind == RAY_CLUSTER and entry.namespace == space]
            yield RAY_CHANGE_WAITS.danger(
                subjects=(name,),
                text=f"changes {listed(waiting)} of Ray cluster {name}: its pods keep the old spec until nothing runs "
                "there, and are then all created again",
                impact=compared.impact(pods),
                remedy="none needed; to apply it sooner, at the cost of what runs: ebbtide.dev/apply-until, see "
                f"{page_command('ray#changes-to-a-running-cluster')}",
            )


def _heads_stranded(compared: Compared) -> Iterator[Danger]:
    """A head keeps the Redis address that it started with, and ends itself when nothing answers there."""
    old, new = compared.before.settings, compared.after.settings
    if _redis(old) == _redis(new) and not compared.of("ReplicationGroup", ChangeKind.REPLACE):
        return
    for name, cluster in old.ray.items():
        if name in new.ray and cluster.head.fault_tolerance is FaultTolerance.REDIS:
            yield RAY_HEAD_STRANDED.danger(
                subjects=(name,),
                text=f"moves Redis, which holds the state of the head of Ray cluster {name}: the head keeps the former "
                "address, and ends when Redis is gone from there",
                impact="what runs in the cluster, unless it has ended before; the new address is applied when nothing "
                "runs there, or half an hour after the head was last ready",
                remedy=f"change it while nothing runs there; a head that has ended comes back sooner with: "
                f"ebbtide maintenance --ray {name}",
            )


def _redis(settings: StackSettings) -> object:
    endpoint = redis_endpoint(settings.redis)
    return endpoint.host, endpoint.port, endpoint.tls, endpoint.username


def _waiting_keys(old: RaySettings, new: RaySettings) -> list[str]:
    """The changed keys of the file that apply only when nothing runs. A new or removed group changes no other group."""
    keys = {"version": "version", "image": "image", "longest_task": "longestTask", "head": "head"}
    changed = [key for field, key in keys.items() if _shape(getattr(old, field)) != _shape(getattr(new, field))]
    shared = [name for name in new.groups if name in old.groups]
    return changed + [f"groups.{name}" for name in shared if _shape(old.groups[name]) != _shape(new.groups[name])]


def _shape(value: Any) -> Any:
    return value.model_dump(exclude=_AT_ONCE) if isinstance(value, RayPod) else value
