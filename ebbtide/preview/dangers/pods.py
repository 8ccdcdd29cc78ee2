"""Dangers for pods that stay: restarts, moves, less protection, less time, new entrances."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import chain

from ebbtide.findings import Severity
from ebbtide.preview.dangers.adopted import adopted_dangers
from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.dangers.nodes import processor_dangers
from ebbtide.preview.dangers.provisioners import overlap
from ebbtide.preview.dangers.restarts import restart_dangers
from ebbtide.preview.dangers.services import service_dangers
from ebbtide.preview.dangers.workers import (
    checkpoint_dangers,
    queue_dangers,
    queue_rights_dangers,
    ray_dangers,
    workers_of,
)
from ebbtide.preview.document import Danger
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.resources import name_of
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.capacity.pods import gateway_entrance
from ebbtide.settings.capacity.process_documents import sleep_policies
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.entrance import Expose
from ebbtide.text.durations import format_duration
from ebbtide.text.pages import page_command
from ebbtide.vocabulary.labels import NODE_GROUP, Category
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, WeeklyInterval

WORKLOAD_MOVED = danger_kind("workload-moved", "a workload changes between fixed and flexible nodes", Severity.WARNING)
GROUP_CHANGED = danger_kind("group-changed", "pods move to another node group", Severity.NOTE)
PROTECTION_REMOVED = danger_kind(
    "protection-removed", "a resource loses its protection against deletion", Severity.WARNING
)
LONGEST_JOB_LOWERED = danger_kind("longest-job-lowered", "a pool's longestJob is lowered", Severity.WARNING)
POOL_MINIMUM_RAISED = danger_kind("pool-minimum-raised", "a pool keeps more workers all night", Severity.WARNING)
BUSINESS_HOURS_CHANGED = danger_kind(
    "business-hours-changed", "business hours are fewer, or in another time zone", Severity.NOTE
)
ENTRANCE_OPENED = danger_kind(
    "entrance-opened", "the internet reaches an entrance, or reaches it from more addresses", Severity.WARNING
)
SLEEP_ENDED = danger_kind("sleep-ended", "the sleep of a workload ends", Severity.WARNING, Severity.NOTE)

_MINUTES_PER_WEEK = 7 * MINUTES_PER_DAY
_GROUP_SELECTED = f'nodeSelector["{NODE_GROUP}"]'
_EVERYBODY = IPv4Network("0.0.0.0/0")
_GATEWAY = "the gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entrance:
    section: str  # of the stack file, which has the key `sources`
    port: int
    tls: bool
    lets_in: Sequence[IPv4Network]  # from the internet


def pod_dangers(compared: Compared) -> Iterator[Danger]:
    yield from _moved(compared)
    yield from _on_other_nodes(compared)
    yield from processor_dangers(compared)
    yield from restart_dangers(compared)
    yield from _unprotected(compared)
    yield from _shorter_jobs(compared)
    yield from checkpoint_dangers(compared)
    yield from queue_dangers(compared)
    yield from queue_rights_dangers(compared)
    yield from ray_dangers(compared)
    yield from service_dangers(compared)
    yield from _sleep_ended(compared.before.settings, compared.after.settings)
    yield from adopted_dangers(compared)
    yield from _higher_minimum(compared)
    yield from _opened(compared)
    yield from _fewer_hours(compared.before.settings.business_hours, compared.after.settings.business_hours)


def _moved(compared: Compared) -> Iterator[Danger]:
    for old, new in compared.pairs:
        if old.category == new.category or Category.WORKER in (old.category, new.category):
            continue
        to_flexible = new.category is Category.FLEXIBLE
        effect = "its pods restart there" if not to_flexible else "its pods restart there, and may be moved at night"
        advice = "do it in business hours, when its budget is closed: by night the update ends in a conflict"
        yield WORKLOAD_MOVED.danger(
            subjects=(new.name,),
            text=f"moves {new.name} from {old.category or 'any'} to {new.category or 'any'} nodes: {effect}",
            impact=compared.impact([old]),
            remedy="make sure that it tolerates a restart on another node every night" if to_flexible else advice,
        )


def _sleep_ended(before: StackSettings, after: StackSettings) -> Iterator[Danger]:
    """Ending a sleep takes two steps: set `when: never`; once the workload is awake and released, remove the key.

    Without the first step, the update also removes the workload controller's right to wake it. An adopted object stays
    in the cluster when its rule goes, or names another object.
    """
    coming = {policy.subject: policy for policy in sleep_policies(after)}
    for policy in sleep_policies(before):
        name, new = policy.name, coming.get(policy.subject)
        if policy.adopted:
            replicas = policy.replicas
        else:
            workload = after.all_workloads.get(name)
            if workload is None or workload.kind is not before.all_workloads[name].kind:
                continue
            replicas = workload.replicas
        if new is not None and (policy.never or not new.never):
            continue
        same = "" if replicas == policy.replicas else "change its replicas after that; "
        release = f"ebbtide release {name}"
        conflict = "until then a change of its replicas is refused with a conflict"
        if policy.never:
            severity, what = Severity.NOTE, f"removes the sleep of {name}, the second step"
            impact, fix = conflict, f"if it ever slept: {release} before this update"
        elif new is not None:
            severity, what = Severity.NOTE, f"ends the sleep of {name}, the first of two steps"
            impact = "the workload controller wakes it and never scales it down again" + (
                ""
                if policy.adopted
                else "; an update while it sleeps may be refused with a conflict: repeat the update once it is awake"
            )
            fix = f"{same}when it is awake (ebbtide status): {release}, then remove its key sleep and update"
        else:
            severity, what = Severity.WARNING, f"removes the sleep of {name} without its first step"
            impact = (
                f"if it sleeps during the update nothing may wake it: it stays at {policy.asleep} of "
                f"{policy.replicas} pods, in business hours too"
            )
            fix = (
                f"{same}write when: never in its sleep and update; when it is awake (ebbtide status): {release}; "
                "then remove its key sleep and update"
            )
        yield SLEEP_ENDED.danger(severity=severity, subjects=(name,), text=what, impact=impact, remedy=fix)


def _on_other_nodes(compared: Compared) -> Iterator[Danger]:
    """Pools, jobs and Ray workers that select another group. Only the engine knows which group another release chose.

    POOL_ON_SPOT reports moves to spot nodes.
    """
    groups = compared.after.settings.node_groups
    spot = {name for name, group in groups.items() if group.kind is NodeKind.SPOT}
    moved: dict[tuple[str, str], dict[str, None]] = {}
    for change in compared.changes:
        for field in change.fields:
            if field.path.endswith(_GROUP_SELECTED) and field.before and field.after and field.after not in spot:
                name = name_of(compared.former(change)) or change.name
                moved.setdefault((field.before, field.after), {})[name] = None
    for (before, after), names in moved.items():
        advice = f"nodeGroup: {before} keeps it where it was" if before in groups else f"{before} is no longer there"
        yield GROUP_CHANGED.danger(
            subjects=tuple(names),
            text=f"moves {listed([*names])} from nodes of group {before} to those of {after}",
            impact=compared.impact(old for old, _ in compared.pairs if old.name in names),
            remedy=overlap(compared, before, after, names)
            or f"{advice}; without nodeGroup Ebbtide takes the group with the lowest total cost of its pods",
        )


def _unprotected(compared: Compared) -> Iterator[Danger]:
    old = compared.old
    names = tuple(new.name for key, new in compared.new.items() if not new.protect and key in old and old[key].protect)
    if names:
        yield PROTECTION_REMOVED.danger(
            subjects=names,
            text=f"removes the protection of {', '.join(names)}",
            impact="a destroy, or a change that replaces them, deletes everything",
            remedy=f"only as the first step of a destroy: {page_command('life#the-last-day')}",
        )


def _shorter_jobs(compared: Compared) -> Iterator[Danger]:
    before = with_adopted_pools(compared.before.settings).workers
    for name, pool in with_adopted_pools(compared.after.settings).workers.items():
        if name in before and not pool.must_save and pool.longest_job < before[name].longest_job:
            old, new = format_duration(before[name].longest_job), format_duration(pool.longest_job)
            yield LONGEST_JOB_LOWERED.danger(
                subjects=(name,),
                text=f"lowers longestJob of pool {name} from {old} to {new}",
                impact=compared.impact(workers_of(compared, name)),
                remedy="make sure that no waiting job takes longer: after that time a stopping worker is killed with "
                "its job",
            )


def _higher_minimum(compared: Compared) -> Iterator[Danger]:
    before = with_adopted_pools(compared.before.settings).workers
    for name, pool in with_adopted_pools(compared.after.settings).workers.items():
        if name in before and pool.min > before[name].min:
            key = f"adopted.{name}.pool" if name in compared.after.settings.adopted else f"workers.{name}"
            yield POOL_MINIMUM_RAISED.danger(
                subjects=(name,),
                text=f"raises min of pool {name} from {before[name].min} to {pool.min}",
                impact="the nodes of these workers stay all night, since workers are never moved",
                remedy=f"set {key}.min to 0; `morning` has workers ready when people come",
            )


def _opened(compared: Compared) -> Iterator[Danger]:
    """Entrances that the internet reaches now, or reaches from more addresses."""
    before = _entrances(compared.before.settings)
    for name, entrance in _entrances(compared.after.settings).items():
        previous_sources = before[name].lets_in if name in before else ()
        added = [new for new in entrance.lets_in if not any(new.subnet_of(block) for block in previous_sources)]
        if not added:
            continue
        sources = "the whole internet" if _EVERYBODY in added else listed([str(block) for block in added])
        yield ENTRANCE_OPENED.danger(
            subjects=(name,),
            text=f"opens port {entrance.port} of {name} to {sources}",
            impact="" if entrance.tls else "in the clear",
            remedy=f"make it authenticate clients, or restrict them: {entrance.section}.sources",
        )


def _entrances(settings: StackSettings) -> Mapping[str, _Entrance]:
    """The entrances of workloads and of the gateway, by name."""
    entrances = {
        name: _Entrance(
            section="expose",
            port=workload.expose.listens_on(workload.ports),
            tls=workload.expose.certificate is not None,
            lets_in=_let_in(workload.expose),
        )
        for name, workload in settings.workloads.items()
        if workload.expose is not None
    }
    gateway, serving = gateway_entrance(settings), settings.serving
    if gateway is not None:
        tls = serving.tls is not None or serving.certificate is not None
        port = gateway.listens_on({})
        entrances[_GATEWAY] = _Entrance(section="serving", port=port, tls=tls, lets_in=_let_in(gateway))
    return entrances


def _let_in(expose: Expose) -> Sequence[IPv4Network]:
    """The ranges of the internet that may connect."""
    if not expose.public:
        return []
    return [IPv4Network(block) for block in expose.sources] or [_EVERYBODY]


def _fewer_hours(before: BusinessHoursSettings, after: BusinessHoursSettings) -> Iterator[Danger]:
    lost = len(_open_minutes(before.week) - _open_minutes(after.week))
    if before.timezone == after.timezone and not lost:
        return
    moved = f" in {after.timezone} instead of {before.timezone}" if before.timezone != after.timezone else ""
    hours = f"{lost / 60:g} h a week are no longer business hours" if lost else "business hours are the same"
    yield BUSINESS_HOURS_CHANGED.danger(
        text=f"{hours}{moved}",
        impact="flexible services may be moved then",
        remedy="see the coming nights",
    )


def _open_minutes(week: Sequence[WeeklyInterval]) -> set[int]:
    ranges = (range(day.weekday * MINUTES_PER_DAY + day.start, day.weekday * MINUTES_PER_DAY + day.end) for day in week)
    return {minute % _MINUTES_PER_WEEK for minute in chain.from_iterable(ranges)}
