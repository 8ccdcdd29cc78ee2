"""Advice about the targets of a service, for a terminal."""

from collections.abc import Iterator

from ebbtide.advice.services.choice import Shown, Verdict
from ebbtide.advice.services.stretches import Stretches
from ebbtide.advice.services.targets import TargetAdvice
from ebbtide.report.words import DASH, count, dollars, several


def as_text(advice: TargetAdvice, diff: str) -> str:
    """Lay out the advice; `diff` is the patch of the stack file."""
    return "\n".join(_lines(advice, diff))


def _lines(advice: TargetAdvice, diff: str) -> Iterator[str]:
    yield f"{advice.service} of {advice.stack} on {advice.trace}, {advice.requests_per_second:,.3g} requests a second"
    yield f"Tried: {several(advice.tried, 'setting')} on {hours_text(advice.tuned)}; {_shown_on(advice)}"
    goal = f"{advice.goal.within:.2%} of the requests within {seconds(advice.slo_s)}"
    yield f"Wanted: {goal}, and {advice.goal.lost_text} lost.{_why(advice)}"
    yield ""
    yield advice.reason
    yield from (f"  {line}" for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---"))
    yield ""
    yield f"{'':<9}{'a month':>8}{'pod-hours':>11}{'beyond':>8}{'lost':>7}{'p95':>8}{'p99':>8}  setting"
    yield from (_row(row) for row in advice.rows)
    if not all(row.keeps for row in advice.rows):
        yield "* keeps less than is wanted"
    yield ""
    yield (
        "a month, pod-hours: at the pace of the hours shown; dollars are the pods' shares of their nodes, on demand. "
        "beyond: answered later than the SLO, or not at all."
    )
    yield from advice.assumptions
    if advice.verdict is Verdict.CHANGE:
        yield "--patch FILE writes the change for `git apply`, --json FILE for `ebbtide advise apply`."


def hours_text(played: Stretches) -> str:
    if played.complete:
        return several(round(played.hours / 24), "day") if played.hours % 24 == 0 else f"{played.hours:,.0f} hours"
    return f"{played.hours:,.0f} of {played.of_hours:,.0f} hours, the busiest among them"


def _shown_on(advice: TargetAdvice) -> str:
    if advice.held_out:
        return f"shown on the {hours_text(advice.shown_on)} after, which had no part in the choice."
    return "shown on the same, since the history is too short to hold a week back: expect a little less."


def _why(advice: TargetAdvice) -> str:
    allowed = " Nothing that was tried loses none; slo.errors allows so much." if advice.goal.lost else ""
    if advice.alone >= 1:
        return allowed
    alone = f" (A pod with nothing else to do answers {advice.alone:.2%} within it; the rest takes longer by itself.)"
    return allowed + alone


def _row(row: Shown) -> str:
    result, usd = row.outcome.result, row.outcome.month_usd
    return (
        f"{row.role.value:<9}{DASH if usd is None else dollars(usd):>8}{count(row.outcome.month_pod_hours):>11}"
        f"{f'{result.beyond_slo:.2%}':>8}{count(result.lost):>7}{seconds(result.p95_s):>8}{seconds(result.p99_s):>8}"
        f"{' ' if row.keeps else '*'} {row.scale.text}"
    )


def seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
