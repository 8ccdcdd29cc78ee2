"""Compose the preview page: for each customer both sides, and all judgements of the change.

The parts are independent. An unreadable part becomes one line among the problems, and the other parts are still shown;
a page with hidden parts is `incomplete` and never safe.

Offline: stack files, git's own store and the shipped tables. Time is an argument.
"""

import signal
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import TypeAlias

from ebbtide.findings import Severity, worst_first
from ebbtide.policies import judge
from ebbtide.policies.rule import PolicyResult
from ebbtide.preview.changes import changes_between, identity
from ebbtide.preview.cost.comparison import compare_costs
from ebbtide.preview.dangers import ceiling_dangers, dangers_of
from ebbtide.preview.dangers.losses import undeclared_lost
from ebbtide.preview.document import (
    ChangeKind,
    CustomerPreview,
    Danger,
    OwnedRow,
    PreviewDocument,
    ResourceChange,
    Simulated,
    SimulatedServices,
    StackVerdict,
    Unreplayable,
)
from ebbtide.preview.groups import change_groups, cost_total
from ebbtide.preview.nights.coming import coming_nights, eviction_cautions
from ebbtide.preview.plan import EnginePlan, PlanUnusable, planned_changes
from ebbtide.preview.sides import NoSuchRef, Side, code_note, side_at, side_now
from ebbtide.recording.ownership import ownership_rows
from ebbtide.recording.state import StackState
from ebbtide.settings import StackSettings
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import name_of, stack_path

PROCESSES = 2
_MOST_IN_ONE_PROCESS = 3  # customers, below which a second process costs more time than it saves

ReplayChange: TypeAlias = Callable[[StackSettings | None, StackSettings], Simulated | SimulatedServices | None]
"""Replays a trace before and after the change of a stack, or returns None. Picklable. Raises `Unreplayable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The inputs of a page in addition to its stacks. Without `against` everything is new."""

    now: datetime
    against: str | None = None
    plans: tuple[EnginePlan, ...] = ()
    replay: ReplayChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    before: Side | None
    after: Side | None  # None: the stack file is gone
    problems: tuple[str, ...]
    before_unreadable: bool  # the side before exists and could not be read


def preview(stacks: Sequence[str], root: Path, request: PageRequest, *, processes: int = PROCESSES) -> PreviewDocument:
    """One document for all stacks, in their order."""
    preview_one = partial(customer_preview, root=root, request=request)
    alone = len(stacks) if processes == 1 or len(stacks) <= _MOST_IN_ONE_PROCESS else 1
    customers = [preview_one(stack) for stack in stacks[:alone]]
    if stacks[alone:]:
        # Only the parent handles Ctrl-C.
        quiet = (signal.SIGINT, signal.SIG_IGN)
        with ProcessPoolExecutor(processes, _start_method(), initializer=signal.signal, initargs=quiet) as pool:
            customers += pool.map(preview_one, stacks[alone:])
    previewed = {customer.stack for customer in customers}
    unmatched = [plan for plan in request.plans if plan.stack not in previewed]
    problems = [
        f"{plan.file}: a plan of stack {plan.stack}, which is not previewed here; ignored" for plan in unmatched
    ]
    return PreviewDocument(
        against=request.against or "",
        customers=tuple(customers),
        notes=_code_note(request.against, root),
        problems=tuple(problems),
        groups=change_groups(customers),
        total=cost_total(customers),
    )


def _start_method() -> BaseContext:
    """Fork if this process has one thread, so that the others need not import the SDKs again; otherwise spawn."""
    threads = Path("/proc/self/task")
    forks = threads.is_dir() and len(list(threads.iterdir())) == 1
    return get_context("fork" if forks else "spawn")


def _code_note(against: str | None, root: Path) -> tuple[str, ...]:
    try:
        note = "" if against is None else code_note(against, root)
    except NoSuchRef:  # each customer reports it
        return ()
    return (note,) if note else ()


def customer_preview(stack: str, root: Path, request: PageRequest) -> CustomerPreview:
    sides = _sides(stack, root, request.against)
    before, after = sides.before, sides.after
    registered = () if after is None else after.resources
    settings = None if after is None else after.settings
    past = None if before is None else before.settings
    planned, plan_problems = _planned(stack_path(stack, root), after, request.plans)
    # Compared with an unreadable side, everything would appear as new or as deleted.
    readable = settings is not None and not sides.before_unreadable
    old = () if before is None else before.resources
    changes = planned if planned is not None else changes_between(old, registered) if readable else ()
    dangers = dangers_of(before, after, changes) if planned is None else _planned_dangers(before, after, changes)
    if settings is None:
        return CustomerPreview(
            stack=name_of(stack_path(stack, root)),
            verdict=StackVerdict.ATTENTION if after is None else StackVerdict.BLOCKED,
            counts=_counts(changes),
            dangers=dangers,
            changes=changes,
            problems=(*sides.problems, *plan_problems),
            incomplete=after is not None,
        )
    policies = judge(settings, registered, request.now.date())
    cost = compare_costs(past, settings, request.now.date())
    replayed, replay_problems = _simulated(past, settings, request)
    jobs_replayed = replayed if isinstance(replayed, Simulated) else None
    dangers = tuple(worst_first([*dangers, *ceiling_dangers(settings, cost, jobs_replayed)]))
    problems = (*sides.problems, *plan_problems, *replay_problems)
    incomplete = sides.before_unreadable or bool(plan_problems or replay_problems)
    return CustomerPreview(
        stack=settings.stack,
        verdict=_verdict(dangers, policies, changes, doubted=incomplete or bool(problems)),
        counts=_counts(changes),
        dangers=dangers,
        cost=cost,
        nights=coming_nights(past, settings, request.now, cautions=eviction_cautions(StackState(settings, registered))),
        ownership=tuple(
            OwnedRow(object=row.object, field=row.field, owner=row.owner, initial=row.initial)
            for row in ownership_rows(registered, settings.adopted, settings.budgeted_node_pools)
        ),
        policies=policies,
        simulated=jobs_replayed,
        simulated_services=replayed if isinstance(replayed, SimulatedServices) else None,
        changes=changes,
        problems=problems,
        incomplete=incomplete,
        new=before is None
        and not sides.before_unreadable
        and not (planned is not None and _is_known(settings.stack, request.plans)),
    )


def _sides(stack: str, root: Path, against: str | None) -> _Sides:
    """A deleted stack file is not a problem: then `after` is None."""
    before, problems, before_unreadable = None, list[str](), False
    if against is not None:
        try:
            before = side_at(stack, against, root)
        except NoSuchRef as missing:
            problems.append(str(missing))
            before_unreadable = True
    if before is not None:
        problems += before.problems
        before_unreadable = before.settings is None
    if before is not None and not stack_path(stack, root).exists():
        return _Sides(before=before, after=None, problems=tuple(problems), before_unreadable=before_unreadable)
    after = side_now(stack, root)
    return _Sides(
        before=before, after=after, problems=(*problems, *after.problems), before_unreadable=before_unreadable
    )


def _planned(
    path: Path, after: Side | None, plans: Sequence[EnginePlan]
) -> tuple[tuple[ResourceChange, ...] | None, list[str]]:
    """The engine's changes, None without a usable plan of this stack; and the faults of unusable plans."""
    changes: tuple[ResourceChange, ...] | None = None
    problems: list[str] = []
    for plan in plans:
        if plan.stack == name_of(path) and after is not None and after.settings is not None:
            try:
                changes = planned_changes(plan, after.settings, after.resources, files_in(path.parent))
            except PlanUnusable as unusable:
                problems.append(str(unusable))
    return changes, problems


def _is_known(stack: str, plans: Sequence[EnginePlan]) -> bool:
    return any(plan.stack == stack and plan.stack_exists for plan in plans)


def _planned_dangers(before: Side | None, after: Side | None, changes: Sequence[ResourceChange]) -> tuple[Danger, ...]:
    """The engine knows resources that no file declares. Without a side before, the later side is the reference."""
    reference = after if before is None or before.settings is None else before
    declared = {identity(resource.urn) for resource in reference.resources} if reference is not None else set[str]()
    parts = [change for change in changes if not _is_component(change)]
    known_changes = [change for change in parts if change.kind is ChangeKind.CREATE or identity(change.urn) in declared]
    going = [change for change in parts if change.kind in {ChangeKind.REPLACE, ChangeKind.DELETE}]
    undeclared = [undeclared_lost(change) for change in going if identity(change.urn) not in declared]
    return (*undeclared, *dangers_of(reference, after, known_changes, planned=True))


def _is_component(change: ResourceChange) -> bool:
    """Components have steps in a plan, but no resource in the cloud."""
    return change.urn.split("::")[2].rsplit("$", 1)[-1].startswith("ebbtide:")


def _simulated(
    before: StackSettings | None, after: StackSettings, request: PageRequest
) -> tuple[Simulated | SimulatedServices | None, list[str]]:
    if request.replay is None:
        return None, []
    try:
        return request.replay(before, after), []
    except Unreplayable as reason:
        return None, [f"{after.stack}: not simulated: {reason}"]


def _counts(changes: Sequence[ResourceChange]) -> dict[ChangeKind, int]:
    """All four kinds, in their order, zeros included."""
    counts = Counter(change.kind for change in changes)
    return {kind: counts[kind] for kind in ChangeKind}


def _verdict(
    dangers: Sequence[Danger], policies: Sequence[PolicyResult], changes: Sequence[ResourceChange], *, doubted: bool
) -> StackVerdict:
    """Return the verdict. Excepted policy results do not count."""
    severities = {danger.severity for danger in dangers}
    severities |= {policy.severity for policy in policies if not policy.excepted}
    if Severity.BLOCKING in severities:
        return StackVerdict.BLOCKED
    attention = Severity.WARNING in severities or doubted or _loses(changes)
    return StackVerdict.ATTENTION if attention else StackVerdict.SAFE


def _loses(changes: Sequence[ResourceChange]) -> bool:
    """True if a resource is lost and its component creates none of its type. (A closer's new hour creates one.)"""
    created = {(change.component, change.type) for change in changes if change.kind is ChangeKind.CREATE}
    return any(
        change.kind is ChangeKind.REPLACE
        or (change.kind is ChangeKind.DELETE and (change.component, change.type) not in created)
        for change in changes
    )
