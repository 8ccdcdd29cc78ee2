"""Which metric, target, min and max a service's history would have liked: the cheapest that keep its SLO.

**Kept** means that KEPT of the requests are answered within the SLO that a pod with nothing else to do would answer
within it, and that none is lost: of requests that take longer by themselves no number of pods makes others.

Tuned is on the earlier days, shown on the last week, which no setting was chosen by; where the history is too short for
that, on the same days, and it is said. A change that saves less than LEAST_GAIN is none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ebbtide.advice.services.search import Goal, Progress, Search, Tried
from ebbtide.advice.services.stretches import Stretches, stretches
from ebbtide.advice.services.trial import Outcome, Place, Scale, StackText, Trials, changes_to, place_of, whole_days
from ebbtide.report.words import dollars
from ebbtide.settings.patch import Change, changes_json
from ebbtide.simulator.replay.setup import ReplayError
from ebbtide.simulator.services.backtest import JUDGED_DAYS, KEPT
from ebbtide.simulator.services.counts import MINUTE_S
from ebbtide.simulator.services.replay import ServiceCourse, ServiceOptions
from ebbtide.simulator.services.run import Span
from ebbtide.simulator.services.served import simulated
from ebbtide.simulator.trace.counted import RequestTrace
from ebbtide.units.durations import DAY_S
from ebbtide.vocabulary.labels import Category

SCHEMA = 1
LEAST_GAIN = 0.03
"""Of the cost: for less nobody changes a service that keeps its SLO."""
TELLING = 0.03
"""Of cost or of requests missed: settings that differ by less are not shown beside each other."""
FEWEST_TUNED = 2
"""Days before the last week, so that it can be held out."""
TRIAL_REQUESTS = 300_000
"""Of one trial of a search: a second or two."""
SHOWN_REQUESTS = 1_000_000


class Verdict(StrEnum):
    RIGHT = "nothing-to-do"
    CHANGE = "change"
    NONE_KEEPS = "none-keeps"  # nothing that was tried keeps enough
    NOT_HELD = "not-held"  # what was cheapest on the earlier days does not hold on the last week


class Role(StrEnum):
    NOW = "now"
    ADVISED = "advised"
    CHEAPER = "cheaper"
    BETTER = "better"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    role: Role
    scale: Scale
    outcome: Outcome
    keeps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAdvice:
    stack: str
    file: str
    service: str
    trace: str
    start: str  # ISO: where the trace's second 0 was put
    requests_per_second: float
    tuned: Stretches
    shown_on: Stretches
    held_out: bool
    tried: int
    slo_s: float
    alone: float  # the share that a pod with nothing else to do answers within the SLO
    goal: Goal
    verdict: Verdict
    reason: str
    rows: tuple[Shown, ...]  # the stack file's first, then those of the search from the cheapest
    changes: tuple[Change, ...]
    assumptions: tuple[str, ...]


def target_advice(
    stack: StackText,
    name: str,
    trace: RequestTrace,
    options: ServiceOptions,
    progress: Progress = lambda _done, _total: None,
) -> TargetAdvice:
    """`options.rate` None: the history's own counts. Raises `ReplayError`."""
    place = _place(stack, name)
    known_at_once = options.at_once is not None
    service = simulated(stack.settings, name, options.at_once)
    rate = _mean_rate(trace) if options.rate is None else options.rate
    options = ServiceOptions(start=options.start, rate=rate, at_once=service.pod.at_once, seed=options.seed)
    trials = Trials(stack=stack, place=place, trace=trace, options=options)
    course = trials.course(place.scale)
    if course is None:
        raise ReplayError(f"{stack.file}: wanted a sound stack file")
    earlier, last = _spans(trace)
    tuned = _hours(course, earlier, TRIAL_REQUESTS, options.seed)
    shown_on = _hours(course, last, SHOWN_REQUESTS, options.seed)
    alone = _alone(course)
    goal = Goal(KEPT * alone)
    tried = Search(trials, tuned, goal, progress, known_at_once=known_at_once).found()
    best = _chosen(tried)
    rows = tuple(_rows(trials, tried, best, shown_on, goal))
    verdict, reason = _verdict(rows, best, goal, held_out=earlier != last)
    advised = next((row for row in rows if row.role is Role.ADVISED), None)
    changes = [] if verdict is not Verdict.CHANGE or advised is None else changes_to(place, advised.scale, reason)
    return TargetAdvice(
        stack=stack.stack,
        file=stack.file,
        service=place.pods,
        trace=trace.name,
        start=course.start.isoformat(),
        requests_per_second=rate,
        tuned=tuned,
        shown_on=shown_on,
        held_out=earlier != last,
        tried=len(tried),
        slo_s=service.slo_s,
        alone=alone,
        goal=goal,
        verdict=verdict,
        reason=reason,
        rows=rows,
        changes=tuple(changes),
        assumptions=tuple(_assumptions(course, place, known_at_once=known_at_once)),
    )


def _place(stack: StackText, name: str) -> Place:
    """Raises `ReplayError` for what cannot be advised on."""
    place = place_of(stack, name)
    if place is None:
        simulated(stack.settings, name)  # which says what there is
        raise ReplayError(f"{stack.file}: wanted a service, found {name!r}")
    here = f"{stack.settings.stack}, services.{name}"
    if place.pods in place.of.sharing(place.service):
        raise ReplayError(
            f"{here}: wanted a service without a variant on spot nodes, found one: its requests go to the pods of "
            "several variants, and the simulator plays one"
        )
    if place.settings.category is Category.FIXED:
        raise ReplayError(f"{here}: wanted a flexible service, found category: fixed, whose number of pods stays")
    if place.scale.min == 0:
        raise ReplayError(f"{here}: wanted min of at least 1, found 0: what wakes a service that sleeps is no request")
    return place


def _mean_rate(trace: RequestTrace) -> float:
    known = [count for count in trace.totals if count is not None]
    return sum(known) / (len(known) * trace.window_s)


def _spans(trace: RequestTrace) -> tuple[Span, Span]:
    """To tune on and to show; both the same where too few days are left before the last week."""
    end = len(trace.totals) * trace.window_s
    if whole_days(trace) < FEWEST_TUNED + JUDGED_DAYS:
        return (whole := Span(0.0, end)), whole
    begin = end - JUDGED_DAYS * DAY_S
    return Span(max(0.0, begin - JUDGED_DAYS * DAY_S), begin), Span(begin, end)


def _hours(course: ServiceCourse, span: Span, most: int, seed: int) -> Stretches:
    end = min(span.end, len(course.minutes.rates) * MINUTE_S)
    return stretches(course.trace, course.factor, course.minutes, Span(span.begin, end), most, seed)


def _alone(course: ServiceCourse) -> float:
    times = course.service.pod.times()
    return sum(it <= course.service.slo_s for it in times) / len(times)


def _chosen(tried: Sequence[Tried]) -> Tried | None:
    """The cheapest that keeps enough; of those as cheap the one that changes least in the file, whose own is first."""
    keeping = [it for it in tried if it.keeps]
    if not keeping:
        return None
    least = min(it.pod_hours for it in keeping)
    now = tried[0].scale
    return min(
        (it for it in keeping if it.pod_hours <= least * (1 + LEAST_GAIN)),
        key=lambda it: (_differences(now, it.scale), it.pod_hours),
    )


def _differences(now: Scale, other: Scale) -> int:
    metrics = now.metrics.keys() != other.metrics.keys()
    return 4 * metrics + (now.metrics != other.metrics) + (now.min != other.min) + (now.max != other.max)


def _rows(
    trials: Trials, tried: Sequence[Tried], best: Tried | None, shown_on: Stretches, goal: Goal
) -> Iterator[Shown]:
    now = tried[0]
    roles: list[tuple[Role, Tried]] = [(Role.NOW, now)]
    around = _around(tried, best or now)
    if best is not None and best is not now:
        roles.append((Role.ADVISED, best))
    roles += [(role, it) for role, it in around if it is not now]
    shown = [_shown(trials, role, it, shown_on, goal) for role, it in roles]
    yield shown[0]
    yield from sorted(shown[1:], key=lambda it: it.outcome.result.pod_hours)


def _shown(trials: Trials, role: Role, it: Tried, shown_on: Stretches, goal: Goal) -> Shown:
    outcome = trials.played(it.scale, shown_on) or it.outcome
    return Shown(role=role, scale=it.scale, outcome=outcome, keeps=goal.kept(outcome))


def _around(tried: Sequence[Tried], middle: Tried) -> Iterator[tuple[Role, Tried]]:
    """Of those that no other beats in both cost and requests missed: the next that differ by something in one of them.

    Where nothing keeps enough, the one that misses least is among them.
    """
    front: list[Tried] = []
    for it in sorted(tried, key=lambda it: (it.pod_hours, it.missed)):
        if not front or it.missed < front[-1].missed:
            front.append(it)
    cheaper = [it for it in front if it.pod_hours < middle.pod_hours * (1 - TELLING)]
    better = [it for it in front if it.missed < middle.missed * (1 - TELLING) and it.pod_hours > middle.pod_hours]
    yield from ((Role.CHEAPER, it) for it in cheaper[-2:])
    yield from ((Role.BETTER, it) for it in ([better[0], better[-1]] if len(better) > 1 else better))


def _verdict(rows: Sequence[Shown], best: Tried | None, goal: Goal, *, held_out: bool) -> tuple[Verdict, str]:
    now = rows[0]
    if best is None:
        nearest = min(rows, key=lambda row: row.outcome.result.beyond_slo)
        return Verdict.NONE_KEEPS, (
            f"Nothing is advised: none of what was tried keeps {goal.within:.2%} without a loss. Nearest comes "
            f"{nearest.scale.text}: {_missed(nearest.outcome)}."
        )
    advised = next((row for row in rows if row.role is Role.ADVISED), None)
    if advised is None:
        return Verdict.RIGHT, (
            f"Nothing to do: the stack file keeps the SLO, and nothing that was tried keeps it for {LEAST_GAIN:.0%} "
            "less."
        )
    if held_out and not advised.keeps and advised.outcome.result.beyond_slo >= now.outcome.result.beyond_slo:
        return Verdict.NOT_HELD, (
            f"Nothing is advised: {advised.scale.text} was the cheapest on the earlier days and does not hold on "
            f"the last week: {_missed(advised.outcome)}."
        )
    short = "" if advised.keeps else f", where {goal.within:.2%} and none are wanted"
    return Verdict.CHANGE, (
        f"{_cost(now.outcome, advised.outcome)}; {_missed(now.outcome)} before, {_missed(advised.outcome)} after"
        f"{short}."
    )


def _cost(now: Outcome, then: Outcome) -> str:
    before, after = now.month_usd, then.month_usd
    if before is None or after is None:
        return f"{now.month_pod_hours:,.0f} pod-hours a month before, {then.month_pod_hours:,.0f} after"
    return f"{dollars(before)} a month before, {dollars(after)} after"


def _missed(outcome: Outcome) -> str:
    lost = outcome.result.lost
    return f"{outcome.within:.2%} within the SLO and {lost or 'none'} lost"


def _assumptions(course: ServiceCourse, place: Place, *, known_at_once: bool) -> Iterator[str]:
    service, pod = course.service, course.service.pod
    yield (
        f"One pod works on {pod.at_once} requests at a time"
        + (" (--at-once)" if known_at_once else " (its target in flight, rounded up, or 1; say --at-once if you know)")
        + f", each {pod.request_s:g} s on average (requestTakes; log-normal, coefficient of variation {pod.spread:g}), "
        f"and is ready {pod.starts_s:g} s after its node, which takes {pod.node_boot_s:g} s."
    )
    if not known_at_once:
        yield (
            "So only targets in flight are tried that are rounded up to the same number, and other metrics only where "
            "it is 1: --at-once opens both."
        )
    yield (
        "Counts by window are the history's; when requests come within one is drawn. The stabilization is no key of a "
        f"stack file: it follows from startsWithin, and is {service.behavior.down.stabilization_s:g} s."
    )
    ignored = [key for key in ("memory", "query") if key in place.scale.metrics]
    if ignored:
        yield f"Not played, since requests tell nothing of it: {', '.join(ignored)}."
    if place.settings.scale.floor is not None:
        yield f"floor: {place.settings.scale.floor.value} stays as it is; `ebbtide advise floors` is about it."


def as_json(advice: TargetAdvice) -> dict[str, Any]:
    """Plain values; `changes` are what `ebbtide.settings.patch` takes."""
    return {
        "schema": SCHEMA,
        "stack": advice.stack,
        "file": advice.file,
        "service": advice.service,
        "trace": advice.trace,
        "start": advice.start,
        "requests_per_second": advice.requests_per_second,
        "hours": {
            "tuned": {"played": advice.tuned.hours, "of": advice.tuned.of_hours},
            "shown": {"played": advice.shown_on.hours, "of": advice.shown_on.of_hours, "held_out": advice.held_out},
        },
        "tried": advice.tried,
        "slo_s": advice.slo_s,
        "wanted": {"within": advice.goal.within, "alone": advice.alone, "lost": 0},
        "verdict": advice.verdict.value,
        "reason": advice.reason,
        "settings": [_row_json(row) for row in advice.rows],
        "changes": changes_json(advice.changes),
        "assumptions": list(advice.assumptions),
    }


def _row_json(row: Shown) -> dict[str, Any]:
    return {
        "role": row.role.name.lower(),
        "metrics": dict(row.scale.metrics),
        "min": row.scale.min,
        "max": row.scale.max,
        "keeps": row.keeps,
        "month_usd": row.outcome.month_usd,
        "month_pod_hours": row.outcome.month_pod_hours,
        **asdict(row.outcome.result),
    }
