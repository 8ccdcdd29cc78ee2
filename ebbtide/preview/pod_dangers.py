"""What a change means for pods that stay: who is restarted or moved, whose job is cut off, whose budget may open.

Two of these hold for the later side alone, whatever it was before: a worker that is given less time than its longest
job, and a budget above 0 of what is never moved. Both kill work by day, so both block.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ebbtide.preview.changes import identity
from ebbtide.preview.compared import Compared
from ebbtide.preview.document import Danger, Severity
from ebbtide.preview.pods import Pods, in_words, listed
from ebbtide.settings.business_hours import BusinessHoursSettings
from ebbtide.settings.model import StackSettings
from ebbtide.settings.types import format_duration
from ebbtide.vocabulary.labels import CONTROLLER, POOL, Category
from ebbtide.vocabulary.windows import WeeklyInterval

_KUBERNETES_GRACE = 30  # seconds, where a pod says nothing
_MINUTES_PER_WEEK = 7 * 24 * 60
_TEMPLATE = "spec.template."
_AUTOSCALER_GRACE = "--max-graceful-termination-sec="


def pod_dangers(seen: Compared) -> Iterator[Danger]:
    yield from _moved(seen)
    yield from _restarted(seen)
    yield from _unprotected(seen)
    before, after = seen.before.settings, seen.after.settings
    if before is not None and after is not None:
        yield from _shorter_jobs(before, after, seen.old_pods)
        yield from _fewer_hours(before.business_hours, after.business_hours)


def lasting_pod_dangers(pods: Sequence[Pods], settings: StackSettings | None) -> Iterator[Danger]:
    """What is wrong whether or not it was so before."""
    yield from _cut_off(pods, settings)
    yield from _open_budgets(pods)


def _moved(seen: Compared) -> Iterator[Danger]:
    for old, new in seen.pairs:
        if old.category == new.category or Category.WORKER in (old.category, new.category):
            continue
        to_flexible = new.category == Category.FLEXIBLE
        what = "its pods restart there" if not to_flexible else "its pods restart there, and may be moved at night"
        day = "do it in business hours, when its budget is closed: by night the update ends in a conflict"
        yield Danger(
            severity=Severity.WARNING,
            what=f"moves {new.name} from {old.category or 'any'} to {new.category or 'any'} nodes: {what}",
            blast=in_words([old]),
            fix="see that it bears a restart on another node, every night" if to_flexible else day,
        )


def _restarted(seen: Compared) -> Iterator[Danger]:
    """Fixed pods whose template changes; the controller's own bear it."""
    alike: dict[tuple[str, ...], list[Pods]] = {}
    for old, new in seen.pairs:
        change = seen.changed.get(identity(new.urn))
        paths = [field.path for field in change.fields if field.path.startswith(_TEMPLATE)] if change else []
        if paths and old.category == new.category == Category.FIXED and new.name != CONTROLLER:
            alike.setdefault(tuple(path.removeprefix(_TEMPLATE) for path in paths), []).append(old)
    for paths, pods in alike.items():
        more = f", and {len(paths) - 2} more" if len(paths) > 2 else ""
        yield Danger(
            severity=Severity.WARNING,
            what=f"restarts {listed([each.name for each in pods])} (fixed): {', '.join(paths[:2])} changes{more}",
            blast=in_words(pods),
            fix="choose an hour in which their state and sessions may go",
        )


def _unprotected(seen: Compared) -> Iterator[Danger]:
    freed = [key for key, new in seen.new.items() if key in seen.old and seen.old[key].protect and not new.protect]
    if freed:
        yield Danger(
            severity=Severity.WARNING,
            what=f"takes the protection of {', '.join(seen.new[key].name for key in freed)} away",
            blast="a destroy, or a change that replaces them, takes everything",
            fix="only as the first step of a destroy: docs/life.md, The last day",
        )


def _shorter_jobs(before: StackSettings, after: StackSettings, old_pods: Sequence[Pods]) -> Iterator[Danger]:
    for name, pool in after.workers.items():
        old = before.workers.get(name)
        if old is None or pool.longest_job >= old.longest_job:
            continue
        yield Danger(
            severity=Severity.WARNING,
            what=(
                f"pool {name} is told that no job takes longer than {format_duration(pool.longest_job)}; "
                f"it was {format_duration(old.longest_job)}"
            ),
            blast=in_words(pods for pods in old_pods if pods.labels.get(POOL) == name),
            fix="see that no longer job waits: a worker told to stop is killed when that time is over, with its job",
        )


def _fewer_hours(before: BusinessHoursSettings, after: BusinessHoursSettings) -> Iterator[Danger]:
    lost = len(_open_minutes(before.week) - _open_minutes(after.week))
    if before.timezone == after.timezone and not lost:
        return
    moved = f" in {after.timezone} instead of {before.timezone}" if before.timezone != after.timezone else ""
    hours = f"{lost / 60:g} hours a week are business hours no more" if lost else "business hours are the same"
    yield Danger(
        severity=Severity.NOTE,
        what=f"{hours}{moved}",
        blast="flexible services may be moved then",
        fix="see the coming nights",
    )


def _open_minutes(week: Sequence[WeeklyInterval]) -> set[int]:
    each = (range(day.weekday * 1440 + day.start, day.weekday * 1440 + day.end) for day in week)
    return {minute % _MINUTES_PER_WEEK for minute in chain.from_iterable(each)}


def _cut_off(pods: Sequence[Pods], settings: StackSettings | None) -> Iterator[Danger]:
    """Workers that are killed before their job can end: by the kubelet, or by the autoscaler that drains their node."""
    limit = _autoscaler_grace(pods)
    for each in pods:
        pool = settings.workers.get(each.labels.get(POOL, "")) if settings else None
        if pool is None:
            continue
        grace = int(each.spec.get("terminationGracePeriodSeconds") or _KUBERNETES_GRACE)
        longest = int(pool.longest_job.total_seconds())
        who, blast = f"pool {each.name} has jobs of up to {format_duration(pool.longest_job)}", in_words([each])
        if grace < longest:
            fix = f"terminationGracePeriodSeconds of {longest} at least"
            what = f"{who}, and its workers are killed {grace} s after they were told to stop"
            yield Danger(severity=Severity.BLOCKING, what=what, blast=blast, fix=fix)
        elif limit is not None and limit < longest:
            what = f"{who}, and the autoscaler waits {limit} s for a pod that it drains"
            yield Danger(severity=Severity.BLOCKING, what=what, blast=blast, fix=f"{_AUTOSCALER_GRACE}{grace}")


def _autoscaler_grace(pods: Sequence[Pods]) -> int | None:
    containers: list[Mapping[str, Sequence[object]]] = [c for each in pods for c in each.spec.get("containers") or ()]
    words = [str(word) for container in containers for word in container.get("args") or ()]
    limits = [word.removeprefix(_AUTOSCALER_GRACE) for word in words if word.startswith(_AUTOSCALER_GRACE)]
    return int(limits[0]) if limits and limits[0].isdigit() else None


def _open_budgets(pods: Sequence[Pods]) -> Iterator[Danger]:
    for each in pods:
        if each.category not in (Category.FIXED, Category.WORKER):
            continue
        for budget in each.budgets:
            if budget.most_unavailable in (0, "0%") and not budget.opens:
                continue
            allows = "others may open it" if budget.opens else f"maxUnavailable is {budget.most_unavailable}"
            yield Danger(
                severity=Severity.BLOCKING,
                what=f"the budget {budget.name} of {each.category} pods does not stay closed: {allows}",
                blast=in_words([each]),
                fix="maxUnavailable: 0, written by Pulumi alone; to move them on purpose: ebbtide maintenance",
            )
