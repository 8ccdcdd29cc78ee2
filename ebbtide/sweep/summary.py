"""What a sweep says: the best setting of each stack, one for all of them, what that costs each, and the spread.

A stack's value at a setting is the objective's figure, the mean over its traces and seeds; it meets the conditions if
it does so on every trace with every seed. One setting for all is the one with the smallest mean over the stacks, of
those that meet the conditions on the most stacks. Its regret on a stack: its value there less that of the stack's best.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean
from typing import Any

from ebbtide.simulator.results import Strategy
from ebbtide.sweep.objective import FIGURES, Objective
from ebbtide.sweep.plan import SweepPlan
from ebbtide.sweep.task import SweepTask

SCHEMA = 1
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A stack at a setting. `by_seed`: the mean over the traces for each seed."""

    value: float
    by_seed: tuple[float, ...]
    other: float  # the figure of the first condition, or the p95 wait: what the objective is traded against
    meets: bool

    @property
    def low(self) -> float:
        return min(self.by_seed)

    @property
    def high(self) -> float:
        return max(self.by_seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFound:
    """`best` None: no setting meets the conditions. `regret`: of the setting for all; None where either meets none."""

    customer: str
    coverage: float  # the least of its traces
    cells: Mapping[str, Cell]
    best: str | None
    regret: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingFound:
    """One setting over all stacks that were played at every setting."""

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
    stacks: tuple[StackFound, ...]
    settings: tuple[SettingFound, ...]
    best: str | None  # for all stacks; None where nothing was played whole
    missing: tuple[tuple[SweepTask, str], ...]  # with the error, or nothing for what was not played
    replays: int
    cpu_s: float
    digest: str
    seeds_matter: bool
    settings_matter: bool


def summary_of(plan: SweepPlan, rows: Sequence[Row], errors: Mapping[str, str]) -> SweepSummary:
    """`rows`: of the plan's replays, in any order. `errors`: by key, of those that failed."""
    objective, strategy = plan.objective, plan.strategy
    by_key: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_key.setdefault(row["key"], {})[row["strategy"]] = row
    played = [(task, by_key[task.key]) for task in plan.tasks if task.key in by_key]
    missing = tuple((task, errors.get(task.key, "")) for task in plan.tasks if task.key not in by_key)
    against = traded_against(objective)
    by_customer: dict[str, dict[str, list[tuple[SweepTask, Mapping[str, Row]]]]] = {}
    for task, found in played:
        by_customer.setdefault(task.customer, {}).setdefault(task.setting, []).append((task, found))
    lacking = {(task.customer, task.setting) for task, _ in missing}
    cells = {
        customer: {
            setting: _cell(some, objective, strategy, against)
            for setting, some in by_setting.items()
            if (customer, setting) not in lacking
        }
        for customer, by_setting in by_customer.items()
    }
    whole = {customer: its for customer, its in cells.items() if len(its) == len(plan.settings)}
    settings = tuple(_over_all(setting, list(whole.values())) for setting in plan.settings) if whole else ()
    best = _best_of_all(settings)
    return SweepSummary(
        objective=objective,
        strategy=strategy,
        against=against,
        seeds=len({task.seed for task in plan.tasks}),
        traces=tuple(dict.fromkeys(task.trace for task in plan.tasks)),
        stacks=tuple(_stack(customer, its, best, plan) for customer, its in cells.items() if its),
        settings=settings,
        best=best,
        missing=missing,
        replays=len(played),
        cpu_s=sum(next(iter(found.values()))["cpu_s"] for _, found in played),
        digest=_digest(played),
        seeds_matter=_differ(played, lambda task: (task.customer, task.trace, task.setting)),
        settings_matter=_differ(played, lambda task: (task.customer, task.trace, task.seed)),
    )


def traded_against(objective: Objective) -> str:
    if objective.conditions:
        return objective.conditions[0].figure
    return "usd" if objective.figure == "wait_p95_s" else "wait_p95_s"


def _cell(
    some: Sequence[tuple[SweepTask, Mapping[str, Row]]], objective: Objective, strategy: Strategy, against: str
) -> Cell:
    by_seed: dict[int, list[float]] = {}
    for task, found in some:
        by_seed.setdefault(task.seed, []).append(_number(found[strategy.value][objective.figure]))
    value = fmean(fmean(values) for values in by_seed.values())
    return Cell(
        value=value,
        by_seed=tuple(fmean(values) for _, values in sorted(by_seed.items())),
        other=fmean(_number(found[strategy.value][against]) for _, found in some),
        meets=not isnan(value) and all(objective.met(found[strategy.value], found) for _, found in some),
    )


def _number(value: float | None) -> float:
    """A figure that is not known (a price is missing) is no number, and meets nothing."""
    return nan if value is None else value


def _over_all(setting: str, cells: Sequence[Mapping[str, Cell]]) -> SettingFound:
    some = [its[setting] for its in cells]
    by_seed = [fmean(values) for values in zip(*(cell.by_seed for cell in some), strict=True)]
    return SettingFound(
        setting=setting,
        value=fmean(by_seed),
        low=min(by_seed),
        high=max(by_seed),
        other=fmean(cell.other for cell in some),
        meets=sum(cell.meets for cell in some),
    )


def _best_of_all(settings: Sequence[SettingFound]) -> str | None:
    most = max((each.meets for each in settings), default=0)
    meeting = [each for each in settings if each.meets == most and most]
    return min(meeting, key=lambda each: each.value).setting if meeting else None


def _stack(customer: str, cells: Mapping[str, Cell], overall: str | None, plan: SweepPlan) -> StackFound:
    meeting = {setting: cell for setting, cell in cells.items() if cell.meets}
    best = min(meeting, key=lambda setting: meeting[setting].value) if meeting else None
    chosen = None if overall is None else meeting.get(overall)
    return StackFound(
        customer=customer,
        coverage=min(share for (name, _), share in plan.coverage.items() if name == customer),
        cells=cells,
        best=best,
        regret=None if best is None or chosen is None else chosen.value - meeting[best].value,
    )


def _figures(found: Mapping[str, Row]) -> dict[str, list[float | None]]:
    return {name: [found[name][figure] for figure in FIGURES] for name in sorted(found)}


def _differ(
    played: Sequence[tuple[SweepTask, Mapping[str, Row]]], alike: Callable[[SweepTask], tuple[object, ...]]
) -> bool:
    """Whether any two replays of one kind have other figures."""
    first: dict[object, object] = {}
    return any(_figures(found) != first.setdefault(alike(task), _figures(found)) for task, found in played)


def _digest(played: Sequence[tuple[SweepTask, Mapping[str, Row]]]) -> str:
    """Of every figure of every replay, to the last bit: equal wherever and in whatever order they were played."""
    told = sorted((task.customer, task.trace, task.setting, task.seed, _figures(found)) for task, found in played)
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


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
        "settings": [
            {
                "setting": each.setting,
                summary.objective.figure: each.value,
                "low": each.low,
                "high": each.high,
                summary.against: each.other,
                "meets": each.meets,
            }
            for each in summary.settings
        ],
        "stacks": [_stack_json(found, summary) for found in summary.stacks],
        "missing": [{"replay": str(task), "error": error or None} for task, error in summary.missing],
        "notes": list(notes_of(summary)),
        "cpu_s": summary.cpu_s,
    }


def _stack_json(found: StackFound, summary: SweepSummary) -> dict[str, Any]:
    return {
        "customer": found.customer,
        "coverage": found.coverage,
        "best": found.best,
        "regret": found.regret,
        "settings": {
            setting: {
                summary.objective.figure: cell.value,
                "low": cell.low,
                "high": cell.high,
                summary.against: cell.other,
                "meets": cell.meets,
            }
            for setting, cell in found.cells.items()
        },
    }


def notes_of(summary: SweepSummary) -> Iterator[str]:
    """What a reader of the figures has to know."""
    if summary.seeds > 1 and not summary.seeds_matter:
        yield "The seed had no effect on any figure: nothing in these replays is left to chance, so one seed is enough."
    if len(summary.settings) > 1 and not summary.settings_matter:
        yield "The settings had no effect on any figure of any stack."
    nothing = [found.customer for found in summary.stacks if found.best is None]
    if nothing:
        yield f"No setting meets the conditions on {_named(nothing)}."
    unmet = [found.customer for found in summary.stacks if found.best is not None and found.regret is None]
    if unmet and summary.best is not None:
        yield f"One setting for all does not meet the conditions on {_named(unmet)}."
    if summary.missing:
        yield f"Missing: {len(summary.missing)} of {len(summary.missing) + summary.replays} replays."
        for task, error in summary.missing[:10]:
            yield f"Missing: {task}: {error or 'not played yet'}"


def _named(customers: Sequence[str]) -> str:
    shown = ", ".join(customers[:5])
    return shown if len(customers) <= 5 else f"{shown} and {len(customers) - 5} more"
