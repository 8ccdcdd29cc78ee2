"""Many runs, by as many processes as asked for, and what they add up to."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.harness.bugs import BUGS, NO_BUG
from tests.harness.run import RunResult, run
from tests.harness.words import CELLS, GAPS, Fault, Gap, Violation

BLOCK = 25
FIND_WITHIN = 1_000  # runs


@dataclass(slots=True, kw_only=True)
class Summary:
    runs: int = 0
    events: int = 0
    fewest_events: int = 0
    seconds: float = 0.0
    hits: Counter[tuple[Fault, Gap]] = field(default_factory=Counter[tuple[Fault, Gap]])
    begun: Counter[Fault] = field(default_factory=Counter[Fault])
    checked: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    stale_waits: list[float] = field(default_factory=list[float])
    failures: list[tuple[int, Violation]] = field(default_factory=list[tuple[int, Violation]])

    def add(self, result: RunResult) -> None:
        self.fewest_events = min(self.fewest_events, result.events) if self.runs else result.events
        self.runs += 1
        self.events += result.events
        self.hits.update(result.hits)
        self.begun.update(result.begun)
        self.checked.update(result.checked)
        self.counts.update(result.counts)
        self.stale_waits += result.stale_waits
        if result.violation is not None:
            self.failures.append((result.seed, result.violation))

    def rarest_cell(self) -> int:
        return min(self.hits[cell] for cell in CELLS)


def campaign(seeds: Sequence[int], jobs: int = 1) -> Summary:
    began = time.monotonic()
    summary = Summary()
    for results in _blocks(seeds, jobs):
        for result in results:
            summary.add(result)
    summary.seconds = time.monotonic() - began
    return summary


def found_after(bug: str, seeds: Iterable[int]) -> tuple[int, RunResult] | None:
    """After how many runs the seeded bug is found, and by which; None if it is not."""
    for number, seed in enumerate(seeds, start=1):
        result = run(seed, BUGS[bug])
        if result.violation is not None:
            return number, result
    return None


def table(summary: Summary) -> str:
    """How often each fault hit each gap."""
    width = max(len(fault) for fault in Fault)
    head = f"{'':{width}} " + " ".join(f"{gap.when[:6]:>7}" for gap in GAPS)
    under = f"{'':{width}} " + " ".join(f"{gap.write:>7}" for gap in GAPS)
    rows = [f"{fault:{width}} " + " ".join(f"{summary.hits[fault, gap]:7d}" for gap in GAPS) for fault in Fault]
    return "\n".join([head, under, *rows])


def report(summary: Summary) -> str:
    rate = summary.runs / max(summary.seconds, 1e-9)
    lines = [
        f"runs {summary.runs}, events {summary.events} (fewest in a run: {summary.fewest_events})",
        f"{summary.seconds:.0f} s, {rate:.0f} runs/s",
        "",
        "fault x gap between writes, times hit",
        table(summary),
        f"rarest cell: {summary.rarest_cell()}",
        "",
        "invariants checked",
        *(f"  {number:9d}  {law}" for law, number in sorted(summary.checked.items())),
        "",
        "counts",
        *(f"  {number:9d}  {what}" for what, number in sorted(summary.counts.items())),
    ]
    waits = sorted(summary.stale_waits)
    if waits:
        middle, high = waits[len(waits) // 2], waits[int(0.99 * (len(waits) - 1))]
        lines.append(
            f"  {len(waits):9d}  stale entries cleared by a worker: {middle:.0f} s in the median, {high:.0f} s p99"
        )
    lines.append("")
    lines += [f"seed {seed}: {violation}\n  replay: {replay(seed)}" for seed, violation in summary.failures[:10]]
    lines.append(f"laws broken in {len(summary.failures)} of {summary.runs} runs")
    return "\n".join(lines)


def replay(seed: int, bug: str = NO_BUG.name) -> str:
    """The command that shows a run again."""
    which = "" if bug == NO_BUG.name else f" --bug {bug}"
    return f".venv/bin/python -m tests.harness --seed {seed}{which} --trace"


def _blocks(seeds: Sequence[int], jobs: int) -> Iterable[list[RunResult]]:
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    if jobs == 1:
        yield from map(_block, blocks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_block, blocks)


def _block(seeds: Sequence[int]) -> list[RunResult]:
    return [run(seed) for seed in seeds]
