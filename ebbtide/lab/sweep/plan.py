"""The plan of a sweep: all stacks, traces and settings are read and checked before the first replay begins."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ebbtide.lab.simulator.replay import ReplayError, ReplayOptions
from ebbtide.lab.simulator.replay.assumptions import estimated_prices
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import replay_setup_of
from ebbtide.lab.simulator.trace.queues import BY_FIT, with_queue_names
from ebbtide.lab.simulator.trace.traces import Reading, Trace, TraceError, find_trace, trace_path
from ebbtide.lab.sweep.objective import Objective, ObjectiveError, read_objective
from ebbtide.lab.sweep.sources import digest_of
from ebbtide.lab.sweep.task import SweepTask, packed
from ebbtide.lab.sweep.vary import CannotVary, Setting, Vary, label, read_vary, settings_of, varied
from ebbtide.prices.tables import place_in_use
from ebbtide.settings.file.problems import StackInvalid
from ebbtide.settings.load import StackFile, read_stack
from ebbtide.settings.model import StackSettings

TASK = "ebbtide.lab.sweep.task"
"""The module whose sources, with all their imports, are the code of a sweep."""


class SweepInvalid(ValueError):
    """The sweep cannot run. One line for each problem."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """The options of a command line. The objective sets `options.strategies`."""

    stacks: Sequence[str]
    traces: Sequence[str]
    vary: Sequence[str]
    seeds: Sequence[int]
    objective: str
    strategy: Strategy
    options: ReplayOptions
    reading: Reading = field(default_factory=Reading)
    read: Callable[[str, Reading], Trace] = find_trace


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """`data`: the packed trace for `play`, by the trace's name."""

    objective: Objective
    strategy: Strategy
    tasks: tuple[SweepTask, ...]
    data: Mapping[str, bytes]
    settings: tuple[str, ...]
    coverage: Mapping[tuple[str, str], float]  # by customer and trace: the share of its jobs that the stack's pools run
    notes: Mapping[str, Sequence[str]]  # about estimated prices and jobs assigned by fit, with the customers

    @property
    def calls(self) -> list[tuple[SweepTask, bytes]]:
        return [(task, self.data[task.trace]) for task in self.tasks]

    def without(self, keys: set[str]) -> "SweepPlan":
        return replace(self, tasks=tuple(task for task in self.tasks if task.key not in keys))


def plan_of(request: SweepRequest) -> SweepPlan:
    """Raises `SweepInvalid`."""
    problems: list[str] = []
    objective = Objective(figure="usd")
    try:
        objective = read_objective(request.objective)
    except ObjectiveError as error:
        problems += str(error).splitlines()
    strategies = tuple(dict.fromkeys((request.strategy, *objective.strategies)))
    options = replace(request.options, strategies=strategies)
    settings = settings_of(list(_varies(request.vary, problems)))
    files = list(_files(request.stacks, problems))
    customers = [(file, stacks) for file in files if (stacks := _customer(file, settings, problems)) is not None]
    zone = next((base.business_hours.timezone for _, (base, _) in customers), "UTC")
    digests: dict[str, str] = {}
    jobs = list(_traces(request, replace(request.reading, zone=zone), digests, problems))
    problems += _name_conflicts([(file, base) for file, (base, _) in customers])
    if not problems:
        try:
            jobs = with_queue_names(jobs, request.reading.queue_names, [base for _, (base, _) in customers])
        except TraceError as error:
            problems += str(error).splitlines()
    starts: dict[tuple[str, str], ReplayOptions] = {}
    coverage: dict[tuple[str, str], float] = {}
    notes: defaultdict[str, list[str]] = defaultdict(list)
    for _, (base, _) in customers:
        for trace in jobs:
            try:
                setup = replay_setup_of(base, trace, options)
            except ReplayError as error:
                problems.append(f"{base.stack}: {error}")
            else:
                # All settings of a stack start at one local time; otherwise varied business hours would shift the jobs.
                local = trace.start or setup.start.replace(tzinfo=None)
                starts[base.customer, trace.name] = replace(options, start=local)
                coverage[base.customer, trace.name] = setup.assignment.coverage.jobs
                if not setup.assignment.by_queue:
                    notes[f"{trace.name}: {BY_FIT}"].append(base.customer)
    if problems:
        raise SweepInvalid(problems)
    for _, (base, by_setting) in customers:
        for estimates in dict.fromkeys(estimated_prices(stack) for stack in by_setting.values()):
            if estimates:
                notes[f"Prices: {estimates}."].append(base.customer)
    tasks = [
        SweepTask(
            customer=base.customer,
            trace=name,
            setting=setting,
            settings=stack,
            options=replace(starts[base.customer, name], seed=seed),
            inputs=digest,
        )
        for _, (base, by_setting) in customers
        for name, digest in digests.items()
        for setting, stack in by_setting.items()
        for seed in request.seeds
    ]
    data = {trace.name: packed(trace) for trace in jobs}
    return SweepPlan(
        objective=objective,
        strategy=request.strategy,
        tasks=tuple(tasks),
        data=data,
        settings=tuple(map(label, settings)),
        coverage=coverage,
        notes=notes,
    )


def _varies(texts: Sequence[str], problems: list[str]) -> Iterator[Vary]:
    seen: set[tuple[str, ...]] = set()
    for text in texts:
        try:
            vary = read_vary(text)
        except CannotVary as error:
            problems.append(str(error))
            continue
        if vary.path in seen:
            problems.append(f"--vary {vary.key}: wanted each key once, found it twice (for example {vary.key}=v1,v2)")
        else:
            seen.add(vary.path)
            yield vary


def _files(stacks: Sequence[str], problems: list[str]) -> Iterator[StackFile]:
    for stack in dict.fromkeys(stacks):
        try:
            yield read_stack(stack)
        except StackInvalid as error:
            problems += map(str, error.problems)


def _traces(request: SweepRequest, reading: Reading, digests: dict[str, str], problems: list[str]) -> Iterator[Trace]:
    """Read the traces, and add the digest of each trace's file with its options, the prices and the code."""
    folder = Path(place_in_use())  # the shipped prices are part of the code's digest
    prices = b"".join(path.read_bytes() for path in sorted(folder.glob("*.csv"))) if own_prices() else b""
    names: dict[str, str] = {}
    for path_or_name in dict.fromkeys(request.traces):
        try:
            trace = request.read(path_or_name, reading)
        except TraceError as error:
            problems.append(str(error))
            continue
        if (other := names.setdefault(trace.name, path_or_name)) != path_or_name:
            problems.append(
                f"--trace {path_or_name}: wanted traces with different names, found {trace.name} in {other}, too"
            )
            continue
        with trace_path(path_or_name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        digest.update(prices + digest_of(TASK).encode() + repr(reading).encode())
        digests[trace.name] = digest.hexdigest()
        yield trace


def _customer(
    file: StackFile, settings: Sequence[Setting], problems: list[str]
) -> tuple[StackSettings, dict[str, StackSettings]] | None:
    """The stack unchanged, and with each setting; None if a problem was found."""
    by_setting: dict[str, StackSettings] = {}
    before = len(problems)
    try:
        base = file.settings()
    except StackInvalid as error:
        problems += map(str, error.problems)
        return None
    for setting in settings:
        try:
            by_setting[label(setting)] = file.settings(varied(file.merged.config, setting)) if setting else base
        except CannotVary as error:
            problems.append(f"{file.file}: {error}")
        except StackInvalid as error:
            problems += (f"--vary {label(setting)}: {problem}" for problem in error.problems)
    return (base, by_setting) if len(problems) == before else None


def _name_conflicts(stacks: Sequence[tuple[StackFile, StackSettings]]) -> Iterator[str]:
    for customer, count in Counter(base.customer for _, base in stacks).items():
        if count > 1:
            files = ", ".join(file.file for file, base in stacks if base.customer == customer)
            yield f"ebbtide:customer: wanted a different name for each stack, found {customer!r} in {files}"


def own_prices() -> bool:
    """True if the prices come from a directory of this machine."""
    return Path(place_in_use()).is_dir()
