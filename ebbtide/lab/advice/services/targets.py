"""Find the cheapest metric, target, min and max that keep a service's SLO on its history.

**Kept** means that no request is lost, and that KEPT of the requests that an idle pod answers within the SLO are
answered within it: more pods do not shorten a request that takes longer by itself. If every tried setting loses
requests, `slo.errors` limits how many may be lost.

Settings are tuned on the earlier days and shown on the last week, which has no part in the choice. If the history is
too short, both are the same days, and the output says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.lab.advice.services.choice import Role, ScaleVerdict, ShownSetting, alternatives, chosen, verdict
from ebbtide.lab.advice.services.place import ScaleEntry, StackText, changes_to, place_of
from ebbtide.lab.advice.services.search import Goal, Progress, Search, Tried
from ebbtide.lab.advice.services.stretches import Stretches, stretches
from ebbtide.lab.advice.services.trial import Trials, mean_rate
from ebbtide.lab.simulator.services.backtest import JUDGED_DAYS, KEPT
from ebbtide.lab.simulator.services.counts import MINUTE_S
from ebbtide.lab.simulator.services.replay import ServiceCourse, ServiceOptions
from ebbtide.lab.simulator.services.run import TraceSpan
from ebbtide.lab.simulator.services.served import simulated
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.settings.patch import Change
from ebbtide.text.durations import DAY_S
from ebbtide.text.records import plain_values
from ebbtide.vocabulary.labels import Category

SCHEMA = 1
FEWEST_TUNED = 2
"""Days required before the last week to hold it out."""
TRIAL_REQUESTS = 300_000
"""Requests of one trial of a search: a second or two."""
SHOWN_REQUESTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAdvice:
    stack: str
    file: str
    service: str
    trace: str
    start: str  # ISO: the instant of the trace's second 0
    requests_per_second: float
    tuned: Stretches
    shown_on: Stretches
    held_out: bool
    tried: int
    slo_s: float
    alone: float  # the share of requests that an idle pod answers within the SLO
    goal: Goal
    verdict: ScaleVerdict
    reason: str
    rows: tuple[ShownSetting, ...]  # the stack file's setting first, then the search's from the cheapest
    changes: tuple[Change, ...]
    assumptions: tuple[str, ...]


def target_advice(
    stack: StackText,
    name: str,
    trace: RequestTrace,
    options: ServiceOptions,
    progress: Progress = lambda _done, _total: None,
) -> TargetAdvice:
    """Search and judge settings; `options.rate` None takes the history's own counts. Raises `ReplayError`."""
    place = _place(stack, name)
    known_at_once = options.at_once is not None
    service = simulated(stack.settings, name, options.at_once)
    rate = mean_rate(trace) if options.rate is None else options.rate
    options = ServiceOptions(start=options.start, rate=rate, at_once=service.pod.at_once, seed=options.seed)
    trials = Trials(stack=stack, place=place, trace=trace, options=options)
    course = trials.course(place.scale)
    if course is None:
        raise ReplayError(f"{stack.file}: wanted a sound stack file")
    earlier, last = _spans(trace)
    tuned = _hours(course, earlier, TRIAL_REQUESTS, options.seed)
    same = earlier == last and tuned.complete
    shown_on = tuned if same else _hours(course, last, SHOWN_REQUESTS, options.seed)
    alone = _alone(course)
    errors = 0.0 if place.of.slo is None else place.of.slo.errors / 100
    for goal in (Goal(KEPT * alone), Goal(KEPT * alone, errors)):
        tried = Search(trials, tuned, goal, progress, known_at_once=known_at_once).run()
        best = chosen(tried)
        if best is not None or not errors:
            break
    rows = tuple(_rows(trials, tried, best, shown_on, goal))
    outcome, reason = verdict(rows, best, goal, held_out=earlier != last)
    advised = next((row for row in rows if row.role is Role.ADVISED), None)
    changes = [] if outcome is not ScaleVerdict.CHANGE or advised is None else changes_to(place, advised.scale, reason)
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
        verdict=outcome,
        reason=reason,
        rows=rows,
        changes=tuple(changes),
        assumptions=tuple(_assumptions(course, place, known_at_once=known_at_once)),
    )


def _place(stack: StackText, name: str) -> ScaleEntry:
    """Raises `ReplayError` for a service without advice."""
    place = place_of(stack, name)
    if place is None:
        simulated(stack.settings, name)  # raises with the names of the services
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
        raise ReplayError(f"{here}: wanted min of at least 1, found 0: no request wakes a service that sleeps")
    return place


def _spans(trace: RequestTrace) -> tuple[TraceSpan, TraceSpan]:
    """Return the spans to tune on and to show; both are the same if too few days precede the last week."""
    end = len(trace.totals) * trace.window_s
    if trace.days < FEWEST_TUNED + JUDGED_DAYS:
        return TraceSpan(0.0, end), TraceSpan(0.0, end)
    begin = end - JUDGED_DAYS * DAY_S
    return TraceSpan(max(0.0, begin - JUDGED_DAYS * DAY_S), begin), TraceSpan(begin, end)


def _hours(course: ServiceCourse, span: TraceSpan, most: int, seed: int) -> Stretches:
    end = min(span.end, len(course.minutes.rates) * MINUTE_S)
    return stretches(course.trace, course.factor, course.minutes, TraceSpan(span.begin, end), most, seed)


def _alone(course: ServiceCourse) -> float:
    times = course.service.pod.times()
    return sum(time <= course.service.slo_s for time in times) / len(times)


def _rows(
    trials: Trials, tried: Sequence[Tried], best: Tried | None, shown_on: Stretches, goal: Goal
) -> Iterator[ShownSetting]:
    now = tried[0]
    roles: list[tuple[Role, Tried]] = [(Role.NOW, now)]
    others = alternatives(tried, best or now)
    if best is not None and best is not now:
        roles.append((Role.ADVISED, best))
    roles += [(role, other) for role, other in others if other is not now]
    shown = [_shown(trials, role, setting, shown_on, goal) for role, setting in roles]
    yield shown[0]
    yield from sorted(shown[1:], key=lambda row: row.outcome.result.pod_hours)


def _shown(trials: Trials, role: Role, tried: Tried, shown_on: Stretches, goal: Goal) -> ShownSetting:
    outcome = trials.played(tried.scale, shown_on) or tried.outcome
    return ShownSetting(role=role, scale=tried.scale, outcome=outcome, keeps=goal.kept(outcome))


def _assumptions(course: ServiceCourse, place: ScaleEntry, *, known_at_once: bool) -> Iterator[str]:
    service, pod = course.service, course.service.pod
    yield (
        f"One pod works on {pod.at_once} requests at a time"
        + (" (--at-once)" if known_at_once else " (its target in flight, rounded up, or 1; say --at-once if you know)")
        + f", each {pod.request_s:g} s on average (requestTakes; log-normal, coefficient of variation {pod.spread:g}), "
        f"and is ready {pod.starts_s:g} s after its node, which takes {pod.node_boot_s:g} s."
    )
    if not known_at_once:
        yield (
            "So only targets in flight that round up to the same number are tried, and other metrics only if it is 1: "
            "--at-once lifts both limits."
        )
    yield (
        "Counts by window are the history's; the times within a window are random. The stabilization is not a key of "
        f"the stack file: it follows from startsWithin, and is {service.behavior.down.stabilization_s:g} s."
    )
    ignored = [key for key in ("memory", "query") if key in place.scale.metrics]
    if ignored:
        yield f"Not played, since requests say nothing about it: {', '.join(ignored)}."
    if place.settings.scale.floor is not None:
        kind = place.settings.scale.floor.value
        yield f"floor: {kind} is unchanged, and min stays below its pods; see `ebbtide advise floors`."


def as_json(advice: TargetAdvice) -> dict[str, Any]:
    """Return plain values; the caller adds `changes`."""
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
        "wanted": {"within": advice.goal.within, "alone": advice.alone, "lost": advice.goal.lost},
        "verdict": advice.verdict.value,
        "reason": advice.reason,
        "settings": [_row_json(row) for row in advice.rows],
        "assumptions": list(advice.assumptions),
    }


def _row_json(row: ShownSetting) -> dict[str, Any]:
    return {
        "role": row.role.name.lower(),
        "metrics": dict(row.scale.metrics),
        "min": row.scale.min,
        "max": row.scale.max,
        "keeps": row.keeps,
        "month_usd": row.outcome.month_usd,
        "month_pod_hours": row.outcome.month_pod_hours,
        **plain_values(row.outcome.result),
    }
