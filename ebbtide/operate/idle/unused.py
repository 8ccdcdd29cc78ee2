"""Things that run and do nothing, as Prometheus recorded them. A thing with gaps in its recording is never idle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ebbtide.monitoring.client import Forgotten, Prometheus, Silent, UnknownAnswer
from ebbtide.monitoring.history import TimeRange, history
from ebbtide.operate.idle.finding import IdleFinding
from ebbtide.operate.idle.owners import expired, owners
from ebbtide.operate.idle.pods import PricedPod, running_pods, usd_of
from ebbtide.operate.idle.questions import LONGEST, STEP, IdleQuestion, questions_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.owned import Owned
from ebbtide.text.counts import several
from ebbtide.text.durations import ONE_DAY

_WEEK = timedelta(weeks=1)
_PIECE = timedelta(hours=6)
_SHOWN = 5  # names in a line


def find_unused(
    asking: Prometheus, settings: StackSettings, now: datetime
) -> tuple[list[IdleFinding], list[str]] | UnknownAnswer:
    """Return the findings, and a line for each kind that could not be judged; `UnknownAnswer` if none could."""
    pods = asking.doubt() or running_pods(asking, settings)
    if isinstance(pods, UnknownAnswer):
        return pods
    findings: list[IdleFinding] = []
    unread: list[str] = []
    named, owned = set[PricedPod](), owners(settings)
    for question in questions_of(settings, pods, now):
        things = {key: members for key, members in question.things.items() if members and not named & {*members}}
        if not things:
            continue
        activity = _read(asking, question, now)
        if isinstance(activity, UnknownAnswer):
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
    asking: Prometheus, question: IdleQuestion, now: datetime
) -> Mapping[tuple[str, ...], Mapping[int, bool]] | UnknownAnswer:
    """Return whether anything happened, by step; steps that were not recorded are missing.

    It reads week by week, back to the end of the retention, and in pieces within: on a large cluster a query about the
    busiest two minutes of a week takes too long, and too much of Prometheus' memory.
    """
    activity: dict[tuple[str, ...], dict[int, bool]] = {}
    for week in range(LONGEST // _WEEK):
        until = now - week * _WEEK
        steps = TimeRange(since=until - _WEEK + STEP, until=until, step=STEP, piece=_PIECE)
        recorded = history(asking, question.expression, steps, by=question.by, called=question.activity)
        if week and isinstance(recorded, Forgotten | Silent):
            break
        if isinstance(recorded, UnknownAnswer):
            return recorded
        for labels, points in recorded.items():
            activity.setdefault(labels, {}).update(((now - at) // STEP, value > 0) for at, value in points.items())
    return activity


def _judge(
    question: IdleQuestion, name: str, active: Mapping[int, bool], pods: Sequence[PricedPod], now: datetime
) -> IdleFinding | str | None:
    """Return None if the thing is in use, and a text if it was not recorded in full."""
    judged = [step for step in question.steps if step < question.days * ONE_DAY // STEP]
    if not judged or any(active.get(step) for step in judged):
        return None
    recorded = sum(step in active for step in judged)
    if recorded < len(judged):
        return f"{name} ({100 * recorded // len(judged)}% recorded)"
    end = next((step for step in question.steps if active.get(step) is not False), LONGEST // STEP)
    earlier = "" if active.get(end) else "; nothing earlier is recorded"
    return IdleFinding(
        kind=question.kind,
        name=name,
        evidence=f"{several(len(pods), 'pod')}, no {question.activity} for {several(question.days, 'day')}{earlier}",
        usd=usd_of(pods),
        since=now - end * STEP,
    )
