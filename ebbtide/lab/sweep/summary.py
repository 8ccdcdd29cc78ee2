"""The summary of a sweep: the best setting of each stack, the best one for all stacks, its regrets, and the spread.

A stack's value at a setting is the mean of the objective's figure over traces and seeds. A setting meets the conditions
on a stack if every trace meets them with every seed. Among the settings that meet the conditions on the most stacks,
the setting for all stacks has the smallest mean over the stacks. Its regret on a stack is its value there less the
value of the stack's best setting.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isnan, nan
from statistics import fmean
from typing import Any

from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.sweep.objective import FIGURES, Objective
from ebbtide.lab.sweep.plan import SweepPlan
from ebbtide.lab.sweep.task import SweepTask

SCHEMA = 1
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A stack at a setting. `by_seed`: the mean over the traces for each seed."""

    value: float
    by_seed: tuple[float, ...]
    other: float  # the figure that the objective is traded against: of the first condition, or the p95 wait
    meets: bool
    overload: str  # demand that exceeds the stack on one of the traces; the figures are then unknown

    @property
    def low(self) -> float:
        return min(self.by_seed)

    @property
    def high(self) -> float:
        return max(self.by_seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSummary:
    """`best` None: no setting meets the conditions. `regret`: of the setting for all; None if it does not meet them."""

    customer: str
    coverage: float  # the smallest of its traces
    cells: Mapping[str, Cell]
    best: str | None
    regret: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSummary:
    """One setting over all stacks that were played at every setting and have a known value at one or more."""

    setting: str
    value: float
    low: float  # of the seeds' means over the stacks
    high: float
    other: float
    meets: int  # stacks


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    objective: Objective
    strategy: Strategy
    against: str  # the figure that the objective is traded against
    seeds: int
    traces: tuple[str, ...]
    stacks: tuple[StackSummary, ...]
    settings: tuple[SettingSummary, ...]
    best: str | None  # for all stacks; None if no stack is complete
    notes: Mapping[str, Sequence[str]]  # of the plan
    missing: tuple[tuple[SweepTask, str], ...]  # with the error, or an empty text if not played
    replays: int
    cpu_s: float
    digest: str
    seeds_matter: bool
    settings_matter: bool


def summary_of(plan: SweepPlan, rows: Sequence[Row], errors: Mapping[str, str]) -> SweepSummary:
    """`rows`: of the plan's replays, in any order. `errors`: of failed replays, by key."""
    objective, strategy = plan.objective, plan.strategy
    by_key: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_key.setdefault(row["key"], {})[row["strategy"]] = row
    played = [(task, by_key[task.key]) for task in plan.tasks if task.key in by_key]
    missing = tuple((task, errors.get(task.key, "")) for task in plan.tasks if task.key not in by_key)
    against = traded_against(objective)
    by_customer: dict[str, dict[str, list[tuple[SweepTask, Mapping[str, Row]]]]] = {}
    for task, strategies in played:
        by_customer.setdefault(task.customer, {}).setdefault(task.setting, []).append((task, strategies))
    incomplete = {(task.customer, task.setting) for task, _ in missing}
    cells = {
        customer: {
            setting: _cell(replays, objective, strategy, against)
            for setting, replays in by_setting.items()
            if (customer, setting) not in incomplete
        }
        for customer, by_setting in by_customer.items()
    }
    complete = [
        by_setting
        for by_setting in cells.values()
        if len(by_setting) == len(plan.settings) and not all(isnan(cell.value) for cell in by_setting.values())
    ]
    settings = tuple(_over_all(setting, complete) for setting in plan.settings) if complete else ()
    best = _best_of_all(settings)
    figures = sorted((task.customer, task.trace, task.setting, task.seed, _figures(rows)) for task, rows in played)
    return SweepSummary(
        objective=objective,
        strategy=strategy,
        against=against,
        seeds=len({task.seed for task in plan.tasks}),
        traces=tuple(dict.fromkeys(task.trace for task in plan.tasks)),
        stacks=tuple(_stack(customer, by_setting, best, plan) for customer, by_setting in cells.items() if by_setting),
        settings=settings,
        best=best,
        notes=plan.notes,
        missing=missing,
        replays=len(played),
        cpu_s=sum(next(iter(strategies.values()))["cpu_s"] for _, strategies in played),
        digest=hashlib.sha256(json.dumps(figures).encode()).hexdigest()[:16],  # to the last bit, in a fixed order
        seeds_matter=_differ(played, lambda task: (task.customer, task.trace, task.setting)),
        settings_matter=_differ(played, lambda task: (task.customer, task.trace, task.seed)),
    )


def traded_against(objective: Objective) -> str:
    if objective.conditions:
        return objective.conditions[0].figure
    return "usd" if objective.figure == "wait_p95_s" else "wait_p95_s"


def _cell(
    replays: Sequence[tuple[SweepTask, Mapping[str, Row]]], objective: Objective, strategy: Strategy, against: str
) -> Cell:
    overload = next((text for _, rows in replays if (text := rows[strategy.value]["overload"])), "")

    def number(rows: Mapping[str, Row], figure: str) -> float:
        """NaN for an unknown figure: a price is missing, or demand exceeds the stack."""
        value = rows[strategy.value][figure]
        return nan if overload or value is None else value

    by_seed: dict[int, list[float]] = {}
    for task, rows in replays:
        by_seed.setdefault(task.seed, []).append(number(rows, objective.figure))
    value = fmean(fmean(values) for values in by_seed.values())
    return Cell(
        value=value,
        by_seed=tuple(fmean(values) for _, values in sorted(by_seed.items())),
        other=fmean(number(rows, against) for _, rows in replays),
        meets=not isnan(value) and all(objective.met(rows[strategy.value], rows) for _, rows in replays),
        overload=overload,
    )


def _over_all(setting: str, cells: Sequence[Mapping[str, Cell]]) -> SettingSummary:
    stacks = [by_setting[setting] for by_setting in cells]
    by_seed = [fmean(values) for values in zip(*(cell.by_seed for cell in stacks), strict=True)]
    return SettingSummary(
        setting=setting,
        value=fmean(by_seed),
        low=min(by_seed),
        high=max(by_seed),
        other=fmean(cell.other for cell in stacks),
        meets=sum(cell.meets for cell in stacks),
    )


def _best_of_all(settings: Sequence[SettingSummary]) -> str | None:
    most = max((setting.meets for setting in settings), default=0)
    meeting = [setting for setting in settings if setting.meets == most and most]
    return min(meeting, key=_rank).setting if meeting else None


def _rank(result: Cell | SettingSummary) -> tuple[bool, float, float]:
    """The sort key of settings, best first: unknown values are last, and `other` breaks ties."""
    return isnan(result.value), result.value, result.other


def _stack(customer: str, cells: Mapping[str, Cell], overall: str | None, plan: SweepPlan) -> StackSummary:
    meeting = {setting: cell for setting, cell in cells.items() if cell.meets}
    best = min(meeting, key=lambda setting: _rank(meeting[setting])) if meeting else None
    chosen = None if overall is None else meeting.get(overall)
    return StackSummary(
        customer=customer,
        coverage=min(share for (name, _), share in plan.coverage.items() if name == customer),
        cells=cells,
        best=best,
        regret=None if best is None or chosen is None else chosen.value - meeting[best].value,
    )


def _figures(rows: Mapping[str, Row]) -> dict[str, list[float | None]]:
    return {name: [rows[name][figure] for figure in FIGURES] for name in sorted(rows)}


def _differ(
    played: Sequence[tuple[SweepTask, Mapping[str, Row]]], kind: Callable[[SweepTask], tuple[object, ...]]
) -> bool:
    """True if two replays of one kind have different figures."""
    first: dict[object, object] = {}
    return any(_figures(rows) != first.setdefault(kind(task), _figures(rows)) for task, rows in played)


def as_json(summary: SweepSummary) -> dict[str, Any]:
    """Plain values. Equal sweeps give equal documents, except for `cpu_s`."""
    return {
        "schema": SCHEMA,
        "objective": str(summary.objective),
        "strategy": summary.strategy.value,
        "traces": list(summary.traces),
        "seeds": summary.seeds,
        "replays": summary.replays,
        "digest": summary.digest,
        "best": summary.best,
        "settings": [{"setting": setting.setting} | _cell_json(setting, summary) for setting in summary.settings],
        "stacks": [_stack_json(stack, summary) for stack in summary.stacks],
        "missing": [{"replay": str(task), "error": error or None} for task, error in summary.missing],
        "notes": list(notes_of(summary)),
        "cpu_s": summary.cpu_s,
    }


def _stack_json(stack: StackSummary, summary: SweepSummary) -> dict[str, Any]:
    return {
        "customer": stack.customer,
        "coverage": stack.coverage,
        "best": stack.best,
        "regret": stack.regret,
        "settings": {setting: _cell_json(cell, summary) for setting, cell in stack.cells.items()},
    }


def _cell_json(cell: Cell | SettingSummary, summary: SweepSummary) -> dict[str, Any]:
    return {
        summary.objective.figure: _known(cell.value),
        "low": _known(cell.low),
        "high": _known(cell.high),
        summary.against: _known(cell.other),
        "meets": cell.meets,
    }


def _known(value: float) -> float | None:
    """JSON has no NaN."""
    return None if isnan(value) else value


def notes_of(summary: SweepSummary) -> Iterator[str]:
    """Notes about the figures."""
    if summary.seeds > 1 and not summary.seeds_matter:
        yield "The seed had no effect on any figure: nothing in these replays is left to chance, so one seed is enough."
    if len(summary.settings) > 1 and not summary.settings_matter:
        yield "The settings had no effect on any figure of any stack."
    for note, customers in summary.notes.items():
        yield f"{note.removesuffix('.')} ({_named(customers)})."
    for stack in summary.stacks:
        overloads = {setting: cell.overload for setting, cell in stack.cells.items() if cell.overload}
        for setting in islice(overloads, 1):
            others = f" and {len(overloads) - 1} more" if len(overloads) > 1 else ""
            yield f"Demand exceeds {stack.customer} ({setting}{others}): {overloads[setting]}."
    unknown = [
        stack.customer
        for stack in summary.stacks
        if any(isnan(cell.value) and not cell.overload for cell in stack.cells.values())
    ]
    if unknown:
        yield (
            f"{summary.objective.figure} is not known on {_named(unknown)}: a node has no price "
            "(--objective vcpu_hours needs none)."
        )
    without_best = [stack.customer for stack in summary.stacks if stack.best is None and stack.customer not in unknown]
    if without_best:
        yield f"No setting meets the conditions on {_named(without_best)}."
    unmet = [stack.customer for stack in summary.stacks if stack.best is not None and stack.regret is None]
    if unmet and summary.best is not None:
        yield f"One setting for all does not meet the conditions on {_named(unmet)}."
    if summary.missing:
        yield f"Missing: {len(summary.missing)} of {len(summary.missing) + summary.replays} replays."
        for task, error in summary.missing[:10]:
            yield f"Missing: {task}: {error or 'not played yet'}"


def _named(customers: Sequence[str]) -> str:
    shown = ", ".join(customers[:5])
    return shown if len(customers) <= 5 else f"{shown} and {len(customers) - 5} more"
