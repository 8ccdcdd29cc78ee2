"""Advice about the targets of a service, for a terminal."""

from collections.abc import Iterator

from rich.console import Group

from ebbtide.lab.advice.services.choice import ScaleVerdict, ShownSetting
from ebbtide.lab.advice.services.stretches import Stretches
from ebbtide.lab.advice.services.targets import TargetAdvice
from ebbtide.lab.advice.services.trial import SettingOutcome
from ebbtide.text.counts import several
from ebbtide.text.sheet import DOLLARS, Cell, Sheet, Unit, exact_share, left, right
from ebbtide.text.terminal import laid_out


def as_text(advice: TargetAdvice, diff: str) -> Group:
    """Lay out the advice; `diff` is the patch of the stack file."""
    return laid_out(_parts(advice, diff))


def _parts(advice: TargetAdvice, diff: str) -> Iterator[str | Sheet]:
    yield f"{advice.service} of {advice.stack} on {advice.trace}, {advice.requests_per_second:,.3g} requests a second"
    yield f"Tried: {several(advice.tried, 'setting')} on {hours_text(advice.tuned)}; {_shown_on(advice)}"
    goal = f"{advice.goal.within:.2%} of the requests within {seconds(advice.slo_s)}"
    yield f"Wanted: {goal}, and {advice.goal.lost_text} lost.{_why(advice)}"
    yield ""
    yield advice.reason
    yield from (f"  {line}" for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---"))
    yield ""
    yield Sheet(
        columns=[
            *left(""),
            *OUTCOME_COLUMNS,
            *right("p95", "p99", unit=SECONDS),
            *left(""),
            *left("setting", fold=True),
        ],
        rows=[_row(row) for row in advice.rows],
        notes=[] if all(row.keeps for row in advice.rows) else ["* keeps less than is wanted"],
    )
    yield ""
    yield (
        "a month, pod-hours: at the pace of the hours shown; dollars are the pods' shares of their nodes, on demand. "
        "beyond: answered later than the SLO, or not at all."
    )
    yield from advice.assumptions
    if advice.verdict is ScaleVerdict.CHANGE:
        yield "--patch FILE writes the change for `git apply`, --json FILE for `ebbtide advise apply`."


def hours_text(played: Stretches) -> str:
    if played.complete:
        return several(round(played.hours / 24), "day") if played.hours % 24 == 0 else f"{played.hours:,.0f} hours"
    return f"{played.hours:,.0f} of {played.of_hours:,.0f} hours, the busiest among them"


def _shown_on(advice: TargetAdvice) -> str:
    if advice.held_out:
        return f"shown on the {hours_text(advice.shown_on)} after, which had no part in the choice."
    return "shown on the same days, since the history is too short to hold a week back: expect slightly worse results."


def _why(advice: TargetAdvice) -> str:
    allowed = " Every tried setting loses requests; slo.errors allows this share." if advice.goal.lost else ""
    if advice.alone >= 1:
        return allowed
    alone = f" (An idle pod answers {advice.alone:.2%} within it; the other requests take longer by themselves.)"
    return allowed + alone


def _row(row: ShownSetting) -> tuple[Cell, ...]:
    result = row.outcome.result
    mark = "" if row.keeps else "*"
    return (row.role.value, *outcome_cells(row.outcome), result.p95_s, result.p99_s, mark, row.scale.text)


OUTCOME_COLUMNS = (
    *right("a month", unit=DOLLARS),
    *right("pod-hours"),
    *right("beyond", unit=exact_share(2)),
    *right("lost"),
)


def outcome_cells(outcome: SettingOutcome) -> tuple[Cell, ...]:
    return (outcome.month_usd, outcome.month_pod_hours, outcome.result.beyond_slo, outcome.result.lost)


def seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


SECONDS = Unit("s", seconds)
