"""Advice about floors: stack-file lines with their reasons, and their effect on held-out weeks."""

from collections.abc import Collection, Iterator, Sequence
from textwrap import wrap
from typing import Any

from rich.console import Group

from ebbtide.lab.advice.floors import Means
from ebbtide.lab.advice.trials import MORNING_HOURS, SEEDS, FloorAdvice, Trial, TrialOutcome
from ebbtide.lab.report.pages.sentences import unpriced_line
from ebbtide.settings.file.keys import ADOPTED, HOURS, WORKERS
from ebbtide.settings.sections.business_hours import Overnight
from ebbtide.text.counts import count, percent
from ebbtide.text.durations import duration, format_duration
from ebbtide.text.money import dollars
from ebbtide.text.records import plain_values
from ebbtide.text.sheet import Sheet, left, right
from ebbtide.text.terminal import laid_out

SCHEMA = 1
_NARROWEST = 79  # columns of a terminal, and of output into a file


def as_json(advice: FloorAdvice) -> dict[str, Any]:
    """Return plain values; `advised` are indexes into `trials`."""
    outcome = None if advice.total is None else _outcome(advice.total)
    return {
        "schema": SCHEMA,
        "stack": advice.stack,
        "trace": advice.trace,
        "weeks": advice.weeks,
        "spend": advice.spend,
        "trials": [_trial(trial, advice.weeks) for trial in advice.trials],
        "advised": [advice.trials.index(trial) for trial in advice.advised],
        "total": outcome,
    }


def _trial(trial: Trial, weeks: int) -> dict[str, Any]:
    return {
        "pool": trial.floor.pool,
        "means": trial.floor.means.value,
        "quantile": trial.rule.quantile,
        "line": trial.floor.line,
        "reason": trial.floor.reason(trial.rule, weeks),
        **_outcome(trial.verdict),
    }


def _outcome(verdict: TrialOutcome) -> dict[str, Any]:
    return {
        **plain_values(verdict),
        "usd_a_month": verdict.usd_a_month,
        "waited_hours_saved": verdict.saved_hours,
    }


def _heading(advice: FloorAdvice) -> str:
    return "a month" if advice.priced else "vCPU-h"


def as_text(advice: FloorAdvice, adopted: Collection[str] = (), overnight: Sequence[Overnight] = ()) -> Group:
    """Return the advice. `adopted` are the pools of rules for adopted pods, `overnight` the stack's planned nights."""
    return laid_out(
        [
            f"{advice.stack} on {advice.trace}",
            f"Floors are learnt from all weeks but one and tested on that one, {advice.weeks} weeks in turn.",
            "",
            *_advice(advice, adopted, overnight),
            "",
            Sheet(
                columns=[*left("on held-out weeks"), *right("waiting", "p95 wait", _heading(advice), "better")],
                rows=[_row(trial, advised=trial in advice.advised) for trial in advice.trials],
            ),
            "",
            f"Waiting: of all jobs submitted in the first {MORNING_HOURS} hours after an opening, in all these weeks.",
            f"* is advised: it cut this in most weeks, and its mean cut exceeds the spread of {SEEDS} seeds;",
            f"in total they add at most {percent(advice.spend)} to the {'bill' if advice.priced else 'vCPU-hours'}.",
            "Each week is replayed from an empty cluster. "
            + (unpriced_line(advice.unpriced) or "Dollars are nodes only, at the stack's own pricing assumption."),
        ]
    )


def _advice(advice: FloorAdvice, adopted: Collection[str], overnight: Sequence[Overnight]) -> Iterator[str]:
    if advice.total is None:
        yield (
            "No floor is worth its cost on this load: none cut the mornings' waits in most weeks, and by more than "
            f"the spread of {SEEDS} seeds, within the limit."
        )
        return
    nights = [trial for trial in advice.advised if trial.floor.means is Means.OVERNIGHT]
    for trial in advice.advised:
        if trial not in nights:
            pool = trial.floor.pool
            yield from _comment(trial.floor.reason(trial.rule, advice.weeks))
            yield f"{ADOPTED}, {pool}, pool:" if pool in adopted else f"{WORKERS}, {pool}:"
            yield f"  {trial.floor.line}"
    if nights:  # one list: a second key of this name is refused, and would replace the first
        yield f"{HOURS}:"
        yield "  overnight:"
        yield from (f"    - {_entry(planned)}" for planned in overnight)
        for trial in nights:
            yield from _comment(f"{trial.floor.pool}: {trial.floor.reason(trial.rule, advice.weeks)}", "    ")
            yield f"    - {trial.floor.entry}"
    total = advice.total
    yield ""
    yield (
        f"In total: the p95 wait of {total.jobs} jobs from {duration(total.p95_wait_s[0])} to "
        f"{duration(total.p95_wait_s[1])}, the mean from {duration(total.mean_wait_s[0])} to "
        f"{duration(total.mean_wait_s[1])}, for {_a_month(total)} a month ({percent(total.cost_share)})."
    )


def _comment(text: str, indent: str = "") -> Sequence[str]:
    """Return lines that no terminal wraps, since the second line of a wrapped comment would not be a comment."""
    return wrap(text, _NARROWEST, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _entry(planned: Overnight) -> str:
    lasting = format_duration(planned.for_)
    return f'{{ pool: {planned.pool}, at: "{planned.at}", for: {lasting}, workers: {planned.workers} }}'


def _a_month(outcome: TrialOutcome, *, short: bool = False) -> str:
    """Dollars, or vCPU-hours if a node has no price."""
    if outcome.usd_a_month is not None:
        return dollars(outcome.usd_a_month)
    hours = count(outcome.vcpu_hours_a_month)
    return hours if short else f"{hours} vCPU-hours"


def _row(trial: Trial, *, advised: bool) -> tuple[str, ...]:
    verdict = trial.verdict
    hours = f"{verdict.waited_hours[0]:,.1f} → {verdict.waited_hours[1]:,.1f} h"
    before, after = verdict.p95_wait_s
    tail = f"{before / 60:,.1f} → {after / 60:,.1f} min"
    name = f"{'*' if advised else ' '} {trial.floor.pool} {trial.floor.means.value} {trial.rule.quantile:.0%}"
    weeks = f"{verdict.weeks_better} of {verdict.weeks}"
    return (name, hours, tail, _a_month(verdict, short=True), weeks)
