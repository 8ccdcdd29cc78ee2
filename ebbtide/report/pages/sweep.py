"""The page of a sweep: the trade-off, what one setting for all costs each stack, and every figure as a table."""

from ebbtide.report.charts.tradeoff import above_best, regret_chart, regret_height, tradeoff_chart, tradeoff_height
from ebbtide.report.pages.figures import Figure, FigurePlan, figure_of
from ebbtide.report.pages.sheets import Sheet, SheetRow
from ebbtide.report.pages.template import rendered
from ebbtide.report.words import DASH, percent, several
from ebbtide.sweep.summary import SweepSummary, notes_of
from ebbtide.sweep.table import figure, regrets, spread_of


def render_sweep(summary: SweepSummary, command: str) -> str:
    """Standalone HTML. `command`: what made it."""
    shares = sorted({percent(stack.coverage) for stack in summary.stacks})
    return rendered(
        "sweep.html.j2",
        title=f"Sweep of {several(len(summary.stacks), 'stack')}",
        verdict=_verdict(summary),
        scope=_scope(summary),
        notes=[*regrets(summary), *notes_of(summary)],
        settings=_settings_sheet(summary),
        stacks=_stacks_sheet(summary),
        figures=_figures(summary) if summary.settings else [],
        coverage=f"{f' {DASH} '.join(dict.fromkeys((shares[0], shares[-1])))} of the traces' jobs"
        if shares
        else "no job",
        command=command,
        digest=summary.digest,
    )


def _verdict(summary: SweepSummary) -> str:
    if summary.best is None:
        return "No setting meets the conditions on any stack"
    (best,) = (each for each in summary.settings if each.setting == summary.best)
    return f"{best.setting} is best for all: {summary.objective.figure} {figure(best.value)} on average"


def _scope(summary: SweepSummary) -> str:
    parts = [
        f"{summary.objective} under {summary.strategy}",
        several(len(summary.stacks), "stack"),
        several(len(summary.settings), "setting"),
        ", ".join(summary.traces),
        several(summary.seeds, "seed"),
        several(summary.replays, "replay"),
    ]
    return "; ".join(parts)


def _figures(summary: SweepSummary) -> list[Figure]:
    tradeoff = FigurePlan(
        heading="Trade-off",
        note="Each setting, the mean over all stacks; its line goes from the lowest to the highest seed.",
        draw=lambda view: tradeoff_chart(summary, view),
        height=lambda width: tradeoff_height(summary, width),
    )
    regret = FigurePlan(
        heading="One setting for all",
        note="Each dot is a stack where the setting meets the conditions: how far it is above the best one there.",
        draw=lambda view: regret_chart(summary, view),
        height=lambda _: regret_height(summary),
    )
    return [
        figure_of("tradeoff", tradeoff, _settings_sheet(summary)),
        figure_of("regret", regret, _regret_sheet(summary)),
    ]


def _settings_sheet(summary: SweepSummary) -> Sheet:
    return Sheet(
        caption="Settings over all stacks",
        over="setting",
        columns=[summary.objective.figure, summary.against, "meets the conditions"],
        rows=[
            SheetRow(each.setting, [spread_of(each), figure(each.other), several(each.meets, "stack")])
            for each in summary.settings
        ],
    )


def _stacks_sheet(summary: SweepSummary) -> Sheet:
    """Those with the greatest regret first."""
    ordered = sorted(summary.stacks, key=lambda stack: (-(stack.regret or 0.0), stack.customer))
    rows: list[SheetRow] = []
    for stack in ordered:
        cell = None if stack.best is None else stack.cells[stack.best]
        found = [DASH, DASH] if cell is None else [spread_of(cell), figure(cell.other)]
        regret = DASH if stack.regret is None else figure(stack.regret)
        rows.append(SheetRow(stack.customer, [stack.best or "none", *found, regret, percent(stack.coverage)]))
    return Sheet(
        caption="The best setting of each stack",
        over="stack",
        columns=["best setting", summary.objective.figure, summary.against, "regret of one for all", "jobs covered"],
        rows=rows,
    )


def _regret_sheet(summary: SweepSummary) -> Sheet:
    return Sheet(
        caption="Per cent above each stack's best",
        over="setting",
        columns=["stacks", "mean", "most"],
        rows=[
            SheetRow(
                setting,
                [
                    str(len(shares)),
                    *((f"{sum(shares) / len(shares):.2f}", f"{max(shares):.2f}") if shares else (DASH, DASH)),
                ],
            )
            for setting, shares in above_best(summary).items()
        ],
    )
