"""`python -m benchmarks.karpenter`: Karpenter's strategies beside the cluster autoscaler's on the bundled traces.

Each trace is replayed on the stack that Ebbtide suggests for it. Prints the rows of docs/evidence/karpenter-model.md:
the median over the seeds, and whether the goal is reached. Each finished case is a file, as in `benchmarks.study`.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cases import documents_of, folder_of
from benchmarks.study import SCOPES, stack_for
from ebbtide.lab.simulator.replay import ReplayOptions
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import replay_setup_of, with_known_nodes
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.trace.traces import bundled, find_trace

OURS = Strategy.KARPENTER
RIVALS = (Strategy.KARPENTER_DEFAULTS, Strategy.CLUSTER_AUTOSCALING, Strategy.FIXED_FLEXIBLE)
MOST_DOLLARS = 1.005  # of the cheapest rival's
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterCase:
    trace: str
    scope: str
    seed: int
    days: int | None
    strategy: Strategy

    @property
    def name(self) -> str:
        return f"{self.trace}_{self.scope}_s{self.seed}_{self.days or 'all'}d_{self.strategy}"


def played(case: KarpenterCase) -> dict[str, Any]:
    trace, longest = find_trace(case.trace), SCOPES[case.scope]
    settings = with_known_nodes(stack_for(trace, longest))
    days = None if case.days is None else min(case.days, trace.days)
    setup = replay_setup_of(settings, trace, ReplayOptions(days=days, max_job_s=longest, seed=case.seed))
    result = StrategyResults(setup).of(case.strategy)
    return {
        "case": asdict(case),
        "usd": result.usd,
        "usd_on_demand": result.usd_on_demand,
        "node_hours_by_group": result.node_hours_by_group,
        "wait_p95_s": {name: pool.wait_p95_s for name, pool in result.pools.items()},
        "interrupted": result.jobs_interrupted,
        "evictions": result.evictions_in_business_hours,
    }


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """The rows of one trace and scope. A wait is the median over the seeds of each pool; shown are the extremes."""
    of = {strategy: [row for row in rows if row["case"]["strategy"] == strategy] for strategy in (OURS, *RIVALS)}
    usd = {strategy: median(row["usd"] for row in found) for strategy, found in of.items()}
    waits = {strategy: _waits(found) for strategy, found in of.items()}
    best = min(RIVALS, key=lambda strategy: usd[strategy])
    ratio = usd[OURS] / usd[best]
    longer = [pool for pool, wait in waits[OURS].items() if wait > waits[best][pool]]
    losses = max(row["interrupted"] + row["evictions"] for row in of[OURS])
    scope = "all" if SCOPES[rows[0]["case"]["scope"]] is None else f"up to {rows[0]['case']['scope']}"
    for strategy, found in of.items():
        shown = waits[strategy].values()
        yield (
            f"| {rows[0]['case']['trace']}, {scope} | {strategy} | {usd[strategy]:,.0f} "
            f"| {median(row['usd_on_demand'] for row in found):,.0f} | {min(shown):.0f} to {max(shown):.0f} s "
            f"| {max(row['interrupted'] for row in found)} | {max(row['evictions'] for row in found)} |"
        )
    reached = ratio <= MOST_DOLLARS and not longer and not losses
    yield f"{'reached' if reached else 'MISSED'}: {ratio:.3f} of {best}; longer waits: {', '.join(longer) or 'none'}"


def _waits(rows: Sequence[Row]) -> dict[str, float]:
    return {pool: median(row["wait_p95_s"][pool] for row in rows) for pool in rows[0]["wait_p95_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.karpenter", description=__doc__)
    parser.add_argument("--traces", nargs="+", choices=bundled(), default=list(bundled()))
    parser.add_argument("--scopes", nargs="+", choices=list(SCOPES), default=list(SCOPES))
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0")
    parser.add_argument("--days", type=int, help="of each trace at most; default: all")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/karpenter"))
    chosen = parser.parse_args()
    place = folder_of(chosen.out, "benchmarks.karpenter")
    for trace in chosen.traces:
        for scope in chosen.scopes:
            cases = [
                KarpenterCase(trace=trace, scope=scope, seed=seed, days=chosen.days, strategy=strategy)
                for seed in range(chosen.seeds)
                for strategy in (OURS, *RIVALS)
            ]
            calls = {place / f"{case.name}.json": (case,) for case in cases}
            print("\n".join(lines(documents_of(played, calls, chosen.processes, lambda _name: None))), flush=True)


if __name__ == "__main__":
    main()
