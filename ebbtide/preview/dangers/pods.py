"""What a change means for pods that stay: who is restarted or moved, whose protection or time gets less."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import chain

from ebbtide.preview.changes import identity
from ebbtide.preview.dangers.checkpoints import checkpoint_dangers, workers_of
from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.dangers.processors import processor_dangers
from ebbtide.preview.dangers.ray import ray_dangers
from ebbtide.preview.dangers.services import service_dangers
from ebbtide.preview.document import ChangeKind, Danger, DangerCode, Severity
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.pods import Pods
from ebbtide.recording.resources import name_of
from ebbtide.recording.values import value_at
from ebbtide.settings.model import StackSettings
from ebbtide.settings.pods import gateway_entrance
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.entrance import Expose
from ebbtide.settings.sections.monitoring import ALERTMANAGER, PROMETHEUS
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS
from ebbtide.units.durations import format_duration
from ebbtide.vocabulary.labels import CONTROLLER, NODE_GROUP, Category
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, WeeklyInterval

_MINUTES_PER_WEEK = 7 * MINUTES_PER_DAY
_TEMPLATE = "spec.template."
_GROUP_SELECTED = f'nodeSelector["{NODE_GROUP}"]'
_EVERYBODY = IPv4Network("0.0.0.0/0")
_GATEWAY = "the gateway"

_ALL, _ONLY = "all of its pods end", "the only one ends"
WHILE_RESTARTING = "choose a time when losing their state and sessions is acceptable"
WHILE_AWAY = "choose a time without requests; ebbtide check says how the next pod can start first"
_OF_OURS: Mapping[str, str] = {
    PROMETHEUS: "none needed: what it has is on its disk, and about a minute of samples is missing",
    ALERTMANAGER: "none needed: silences are on its disk, and alerts come a little later",
    IN_CLUSTER_REDIS: "choose a quiet time: jobs are on its disk, and until it is back none is added or taken",
}
_STATELESS = "none needed: it holds no state, and what it does waits until it is back"
WHILE_ROLLING: Mapping[Category, str] = {
    Category.FLEXIBLE: "none needed: a Deployment brings the next pod first, a StatefulSet and what fills its nodes "
    "replace one after another",
    Category.WORKER: "none needed: each worker ends its job first, a quarter of the pool at a time",
}
"""What a rollout looks like. A budget is not asked: it holds off evictions, and these pods are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entrance:
    section: str  # of the stack file, in which `sources` stands
    port: int
    tls: bool
    lets_in: Sequence[IPv4Network]  # from the internet


def pod_dangers(compared: Compared) -> Iterator[Danger]:
    yield from _moved(compared)
    yield from _on_other_nodes(compared)
    yield from processor_dangers(compared)
    yield from _restarted(compared)
    yield from _rolled(compared)
    yield from _unprotected(compared)
    yield from _shorter_jobs(compared)
    yield from checkpoint_dangers(compared)
    yield from ray_dangers(compared)
    yield from service_dangers(compared)
    yield from _higher_minimum(compared)
    yield from _opened(compared)
    yield from _fewer_hours(compared.before.settings.business_hours, compared.after.settings.business_hours)


def _moved(compared: Compared) -> Iterator[Danger]:
    for old, new in compared.pairs:
        if old.category == new.category or Category.WORKER in (old.category, new.category):
            continue
        to_flexible = new.category is Category.FLEXIBLE
        what = "its pods restart there" if not to_flexible else "its pods restart there, and may be moved at night"
        day = "do it in business hours, when its budget is closed: by night the update ends in a conflict"
        yield Danger(
            code=DangerCode.WORKLOAD_MOVED,
            severity=Severity.WARNING,
            subjects=(new.name,),
            what=f"moves {new.name} from {old.category or 'any'} to {new.category or 'any'} nodes: {what}",
            impact=compared.impact([old]),
            fix="make sure that it tolerates a restart on another node every night" if to_flexible else day,
        )


def _on_other_nodes(compared: Compared) -> Iterator[Danger]:
    """Pools, jobs and Ray's workers that select another group. Only the engine knows what another release chose.

    A move to spot nodes has words of its own.
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
        there = f"nodeGroup: {before} keeps it where it was" if before in groups else f"{before} is no longer there"
        yield Danger(
            code=DangerCode.GROUP_CHANGED,
            severity=Severity.NOTE,
            subjects=tuple(names),
            what=f"moves {listed([*names])} from nodes of group {before} to those of {after}",
            impact=compared.impact(old for old, _ in compared.pairs if old.name in names),
            fix=f"{there}; without nodeGroup Ebbtide takes the group where its pods cost least together",
        )


def _restarted(compared: Compared) -> Iterator[Danger]:
    """Fixed pods whose template changes; the controller's own tolerate it."""
    of_the_file = compared.after.settings.all_workloads
    for paths, pods in _with_new_template(compared, Category.FIXED):
        alike: dict[str, list[Pods]] = {}
        for each in pods:
            fix = WHILE_RESTARTING if each.name in of_the_file else _OF_OURS.get(each.name, _STATELESS)
            alike.setdefault(fix, []).append(each)
        for fix, some in alike.items():
            names = tuple(each.name for each in some)
            yield Danger(
                code=DangerCode.WORKLOAD_RESTARTED,
                severity=Severity.WARNING,
                subjects=names,
                what=f"restarts {listed(names)} (fixed): {_paths_text(paths)}",
                impact=compared.impact(some),
                fix=fix,
            )


def _rolled(compared: Compared) -> Iterator[Danger]:
    """Flexible pods and workers whose template changes, which is an everyday thing."""
    for category, fix in WHILE_ROLLING.items():
        for paths, pods in _with_new_template(compared, category):
            by_end: dict[str, list[Pods]] = {_ALL: [], _ONLY: [], "": []}
            for each in pods:
                by_end[_end_first(compared, each) if category is Category.FLEXIBLE else ""].append(each)
            rolled = by_end.pop("")
            for which, away in by_end.items():
                yield from _away(compared, away, which, paths)
            names = tuple(each.name for each in rolled)
            if names:
                yield Danger(
                    code=DangerCode.PODS_ROLLED,
                    severity=Severity.NOTE,
                    subjects=names,
                    what=f"rolls the pods of {listed(names)} ({category}): {_paths_text(paths)}",
                    impact=compared.impact(rolled),
                    fix=fix + _unsafe_text(compared, names),
                )


def _away(compared: Compared, pods: Sequence[Pods], which: str, paths: Sequence[str]) -> Iterator[Danger]:
    if pods:
        names = tuple(each.name for each in pods)
        yield Danger(
            code=DangerCode.SERVICE_AWAY,
            severity=Severity.WARNING,
            subjects=names,
            what=f"stops {listed(names)} until the next pod is ready: {which} first; {_paths_text(paths)}",
            impact=compared.impact(pods),
            fix=WHILE_AWAY,
        )


def _end_first(compared: Compared, old: Pods) -> str:
    """Which pods end before the next one comes, by the strategy that there will be, where nobody serves meanwhile."""
    new = next(pods for before, pods in compared.pairs if before is old)
    strategy = value_at(new.resource.inputs, "spec.strategy")
    if value_at(strategy, "type") == "Recreate":
        return _ALL
    surge = value_at(strategy, "rollingUpdate.maxSurge") if value_at(strategy, "type") == "RollingUpdate" else 0
    return _ONLY if new.kind == "Deployment" and new.replicas == 1 and surge == 0 else ""


def _unsafe_text(compared: Compared, names: Sequence[str]) -> str:
    pools = compared.after.settings.workers
    unsafe = [name for name in names if name in pools and not pools[name].safe_stop]
    return f"; not so {listed(unsafe)}, without a safe stop: do it while it is idle (ebbtide status)" if unsafe else ""


def _with_new_template(compared: Compared, category: Category) -> Iterator[tuple[tuple[str, ...], list[Pods]]]:
    """Pods that stay what they are, by what changes in their template. What replaces them is told as a loss."""
    alike: dict[tuple[str, ...], list[Pods]] = {}
    for old, new in compared.pairs:
        change = compared.changed.get(identity(new.resource.urn))
        if change is None or change.kind is not ChangeKind.UPDATE or not new.lasting or new.name == CONTROLLER:
            continue
        paths = [field.path for field in change.fields if field.path.startswith(_TEMPLATE)]
        if paths and old.category is new.category is category:
            alike.setdefault(tuple(path.removeprefix(_TEMPLATE) for path in paths), []).append(old)
    yield from alike.items()


def _paths_text(paths: Sequence[str]) -> str:
    more = f", and {len(paths) - 2} more" if len(paths) > 2 else ""
    return f"{', '.join(paths[:2])} changes{more}"


def _unprotected(compared: Compared) -> Iterator[Danger]:
    old = compared.old
    names = tuple(one.name for key, one in compared.new.items() if not one.protect and key in old and old[key].protect)
    if names:
        yield Danger(
            code=DangerCode.PROTECTION_REMOVED,
            severity=Severity.WARNING,
            subjects=names,
            what=f"removes the protection of {', '.join(names)}",
            impact="a destroy, or a change that replaces them, deletes everything",
            fix="only as the first step of a destroy: docs/how-to/life.md, The last day",
        )


def _shorter_jobs(compared: Compared) -> Iterator[Danger]:
    before = compared.before.settings.workers
    for name, pool in compared.after.settings.workers.items():
        if name in before and not pool.must_save and pool.longest_job < before[name].longest_job:
            old, new = format_duration(before[name].longest_job), format_duration(pool.longest_job)
            yield Danger(
                code=DangerCode.LONGEST_JOB_LOWERED,
                severity=Severity.WARNING,
                subjects=(name,),
                what=f"lowers longestJob of pool {name} from {old} to {new}",
                impact=compared.impact(workers_of(compared, name)),
                fix="make sure that no longer job waits: after that time a stopping worker is killed with its job",
            )


def _higher_minimum(compared: Compared) -> Iterator[Danger]:
    before = compared.before.settings.workers
    for name, pool in compared.after.settings.workers.items():
        if name in before and pool.min > before[name].min:
            yield Danger(
                code=DangerCode.POOL_MINIMUM_RAISED,
                severity=Severity.WARNING,
                subjects=(name,),
                what=f"raises min of pool {name} from {before[name].min} to {pool.min}",
                impact="the nodes of these workers stay all night, since workers are never moved",
                fix=f"set workers.{name}.min to 0; `morning` has workers ready when people come",
            )


def _opened(compared: Compared) -> Iterator[Danger]:
    """What the internet reaches and did not, or from addresses that could not come before."""
    before = _entrances(compared.before.settings)
    for name, now in _entrances(compared.after.settings).items():
        known = before[name].lets_in if name in before else ()
        added = [new for new in now.lets_in if not any(new.subnet_of(block) for block in known)]
        if not added:
            continue
        who = "the whole internet" if _EVERYBODY in added else listed([str(block) for block in added])
        yield Danger(
            code=DangerCode.ENTRANCE_OPENED,
            severity=Severity.WARNING,
            subjects=(name,),
            what=f"opens port {now.port} of {name} to {who}",
            impact="" if now.tls else "in the clear",
            fix=f"make it authenticate clients, or restrict them: {now.section}.sources",
        )


def _entrances(settings: StackSettings) -> Mapping[str, _Entrance]:
    """Those of workloads, and that of the gateway, by name."""
    found = {
        name: _Entrance(
            section="expose",
            port=it.expose.listens_on(it.ports),
            tls=it.expose.certificate is not None,
            lets_in=_let_in(it.expose),
        )
        for name, it in settings.workloads.items()
        if it.expose is not None
    }
    gateway, serving = gateway_entrance(settings), settings.serving
    if gateway is not None:
        tls = serving.tls is not None or serving.certificate is not None
        port = gateway.listens_on({})
        found[_GATEWAY] = _Entrance(section="serving", port=port, tls=tls, lets_in=_let_in(gateway))
    return found


def _let_in(expose: Expose) -> Sequence[IPv4Network]:
    """From the internet."""
    if not expose.public:
        return []
    return [IPv4Network(block) for block in expose.sources] or [_EVERYBODY]


def _fewer_hours(before: BusinessHoursSettings, after: BusinessHoursSettings) -> Iterator[Danger]:
    lost = len(_open_minutes(before.week) - _open_minutes(after.week))
    if before.timezone == after.timezone and not lost:
        return
    moved = f" in {after.timezone} instead of {before.timezone}" if before.timezone != after.timezone else ""
    hours = f"{lost / 60:g} h a week are no longer business hours" if lost else "business hours are the same"
    yield Danger(
        code=DangerCode.BUSINESS_HOURS_CHANGED,
        severity=Severity.NOTE,
        what=f"{hours}{moved}",
        impact="flexible services may be moved then",
        fix="see the coming nights",
    )


def _open_minutes(week: Sequence[WeeklyInterval]) -> set[int]:
    each = (range(day.weekday * MINUTES_PER_DAY + day.start, day.weekday * MINUTES_PER_DAY + day.end) for day in week)
    return {minute % _MINUTES_PER_WEEK for minute in chain.from_iterable(each)}
