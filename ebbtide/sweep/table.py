"""A sweep on a terminal: a row for each stack with its best setting, and one for each setting over all stacks."""

from rich.console import Group, RenderableType
from rich.text import Text

from ebbtide.sweep.summary import Cell, SettingFound, StackFound, SweepSummary, notes_of
from ebbtide.terminal import table

SHOWN = 40
"""Stacks, those with the greatest regret first; the others are in the JSON and the Parquet."""


def sweep_table(summary: SweepSummary) -> RenderableType:
    spread = f"over {summary.seeds} seeds" if summary.seeds > 1 else "one seed"
    stacks = sorted(summary.stacks, key=lambda found: (-(found.regret or 0), found.customer))
    parts: list[RenderableType] = [
        Text(f"{summary.objective} ({summary.strategy}) on {', '.join(summary.traces)}, {spread}"),
        Text(),
        table(
            ["stack", "best setting", f">{summary.objective.figure}", f">{summary.against}", ">regret", ">covered"],
            [_of_stack(found) for found in stacks[:SHOWN]],
            fold=None,
        ),
    ]
    if len(stacks) > SHOWN:
        parts.append(Text(f"and {len(stacks) - SHOWN} stacks more, with less regret"))
    if summary.settings:
        of = len([found for found in summary.stacks if len(found.cells) == len(summary.settings)])
        parts += [
            Text(),
            table(
                ["for all stacks", f">{summary.objective.figure}", f">{summary.against}", ">meets"],
                [_of_setting(each, summary.best, of) for each in summary.settings],
                fold=None,
            ),
        ]
    parts += [Text(), *map(Text, regrets(summary)), *map(Text, notes_of(summary))]
    parts.append(Text(f"{summary.replays} replays, {summary.cpu_s:.1f} CPU seconds, figures {summary.digest}"))
    return Group(*parts)


def regrets(summary: SweepSummary) -> list[str]:
    """What one setting for all costs, in a sentence."""
    known = [(found, found.regret) for found in summary.stacks if found.regret is not None]
    if summary.best is None or not known:
        return []
    worst, most = max(known, key=lambda pair: pair[1])
    if most <= 0:
        return [f"One setting for all, {summary.best}: the best of every stack that it suits."]
    mean = sum(regret for _, regret in known) / len(known)
    bests = sum(found.cells[str(found.best)].value for found, _ in known) / len(known)
    share = f" ({mean / bests:.2%})" if bests else ""
    above = f"{summary.objective.figure} is {figure(mean)}{share} above each stack's best on average"
    return [f"One setting for all, {summary.best}: {above}, at most {figure(most)} ({worst.customer})."]


def _of_stack(found: StackFound) -> list[str]:
    regret = "-" if found.regret is None else figure(found.regret)
    if found.best is None:
        return [found.customer, "none meets", "-", "-", regret, f"{found.coverage:.0%}"]
    cell = found.cells[found.best]
    return [found.customer, found.best, spread_of(cell), figure(cell.other), regret, f"{found.coverage:.0%}"]


def _of_setting(found: SettingFound, best: str | None, of: int) -> list[str]:
    name = f"{found.setting} (best)" if found.setting == best else found.setting
    return [name, spread_of(found), figure(found.other), f"{found.meets} of {of}"]


def spread_of(found: Cell | SettingFound) -> str:
    """The mean, and between what the seeds are where they differ."""
    around = f" ({figure(found.low)} to {figure(found.high)})" if found.low != found.high else ""
    return f"{figure(found.value)}{around}"


def figure(value: float) -> str:
    """Enough digits to tell two settings apart, and no more."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.5g}"
