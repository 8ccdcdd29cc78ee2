"""What runs and does nothing, as Prometheus recorded it. What was not recorded in full is never idle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ebbtide.idle.finding import Finding
from ebbtide.idle.owners import expired, owners
from ebbtide.idle.pods import Pod, running_pods, usd_of
from ebbtide.idle.questions import LONGEST, STEP, Question, questions_of
from ebbtide.monitoring.client import Forgotten, Prometheus, Silent, Unknown
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.owned import Owned
from ebbtide.units.counts import several
from ebbtide.units.durations import ONE_DAY

_WEEK = timedelta(weeks=1)
_SHOWN = 5  # names in a line


def find_unused(
    asking: Prometheus, settings: StackSettings, now: datetime
) -> tuple[list[Finding], list[str]] | Unknown:
    """Return the findings, and a line for each kind of thing that could not be judged; unknown if none could."""
    pods = asking.doubt() or running_pods(asking, settings)
    if isinstance(pods, Unknown):
        return pods
    findings: list[Finding] = []
    unread: list[str] = []
    named, owned = set[Pod](), owners(settings)
    for question in questions_of(settings, pods, now):
        things = {key: members for key, members in question.things.items() if members and not named & {*members}}
        if not things:
            continue
        activity = _read(asking, question, now)
        if isinstance(activity, Unknown):
            unread.append(f"{question.kind}: {activity.why}")
            continue
        unjudged: list[str] = []
        for key, members in sorted(things.items()):
            verdict = _judge(question, "/".join(key), activity.get(key, {}), members, now)
            if isinstance(verdict, str):
                unjudged.append(verdict)
            elif verdict is not None:
                keys = owned.get(members[0].workload, Owned())
                findings.append(replace(verdict, owner=keys.owner, expires=keys.expires))
                named.update(members)
        if unjudged:
            names = ", ".join([*unjudged[:_SHOWN], *(["…"] if len(unjudged) > _SHOWN else [])])
            unread.append(f"{question.kind}: too young, or with gaps: {names}")
    idle = {found.name.rpartition("/")[2] for found in findings}
    others = [pod for pod in pods if pod not in named]
    findings += (found for found in expired(settings, now.date(), others) if found.name not in idle)
    return findings, unread


def _read(
    asking: Prometheus, question: Question, now: datetime
) -> Mapping[tuple[str, ...], Mapping[int, bool]] | Unknown:
    """Return whether anything happened, by step; steps that were not recorded are missing.

    Week by week, back to where Prometheus keeps nothing: all at once takes too long on a large cluster.
    """
    activity: dict[tuple[str, ...], dict[int, bool]] = {}
    for week in range(LONGEST // _WEEK):
        until = now - week * _WEEK
        course = asking.over(
            question.expression, until - _WEEK + STEP, STEP, stands_on=(), called=question.activity, until=until
        )
        if week and isinstance(course, Forgotten | Silent):
            break
        if isinstance(course, Unknown):
            return course
        for line in course:
            steps = activity.setdefault(tuple(line.labels.get(label, "") for label in question.by), {})
            steps.update((round((now - at) / STEP), value > 0) for at, value in line.points)
    return activity


def _judge(
    question: Question, name: str, active: Mapping[int, bool], pods: Sequence[Pod], now: datetime
) -> Finding | str | None:
    """Return None for what is in use, and text for what is not recorded in full."""
    judged = [step for step in question.steps if step < question.days * ONE_DAY // STEP]
    if not judged or any(active.get(step) for step in judged):
        return None
    recorded = sum(step in active for step in judged)
    if recorded < len(judged):
        return f"{name} ({100 * recorded // len(judged)}% recorded)"
    end = next((step for step in question.steps if active.get(step) is not False), LONGEST // STEP)
    earlier = "" if active.get(end) else "; nothing earlier is recorded"
    return Finding(
        kind=question.kind,
        name=name,
        evidence=f"{several(len(pods), 'pod')}, no {question.activity} for {several(question.days, 'day')}{earlier}",
        usd=usd_of(pods),
        since=now - end * STEP,
    )
