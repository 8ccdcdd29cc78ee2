"""`python -m benchmarks.ledger_months`: the ledger's alternatives against 100 months whose alternatives are known."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.cases import documents_of, folder_of
from benchmarks.known_month import Cluster, Course, Known, known
from benchmarks.known_stacks import BEFORE, DEMANDS, STACKS, jobs_of, stack_named
from ebbtide.lab.ledger.build import ledger_of
from ebbtide.lab.ledger.month import Month
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.settings.model import StackSettings

MONTHS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthCase:
    number: int
    stack: str
    year: int
    month: int
    demand: str
    load: float
    holes: tuple[tuple[float, float], ...]
    rise: tuple[float, float] | None
    cluster: Cluster

    @property
    def name(self) -> str:
        return f"{self.number:03}"


def case_of(number: int) -> MonthCase:
    """Draw a case. The stacks take turns."""
    chance = Random(f"known month {number}")
    stacks = list(STACKS)
    year, month = chance.choice(((2026, 10), (2026, 3), (2026, 11), (2027, 2), (2026, 7), (2026, 12)))
    hours = 650
    holes: tuple[tuple[float, float], ...] = ()
    if chance.random() < 0.3:
        lengths = chance.choice(((0.2,) * 10, (0.5, 3.0), (24.0,), (6.0, 12.0)))
        begins = sorted(chance.sample(range(10, hours, 30), len(lengths)))
        holes = tuple((float(begin), begin + length) for begin, length in zip(begins, lengths, strict=True))
    rise = (chance.uniform(100, 600), chance.choice((0.85, 0.9, 1.1, 1.2))) if chance.random() < 0.3 else None
    return MonthCase(
        number=number,
        stack=stacks[number % len(stacks)],
        year=year,
        month=month,
        demand=chance.choice(DEMANDS),
        load=chance.choice((0.15, 0.3, 0.6)),
        holes=holes,
        rise=rise,
        cluster=_cluster(chance, number, by_karpenter="karpenter" in stacks[number % len(stacks)]),
    )


def _cluster(chance: Random, number: int, *, by_karpenter: bool) -> Cluster:
    slow = chance.choice((0.0, 0.0, 0.5))
    spread = chance.choice((0.0, 0.3, 0.6))
    return Cluster(
        boot=chance.uniform(0.4, 2.0),
        boot_spread=0.0 if slow else spread,
        daemons_cpu_m=chance.choice((0, 0, 150, 300)),
        daemons_mib=chance.choice((0, 0, 256, 512)),
        pod_start=chance.uniform(0.5, 4.0),
        scan=chance.choice((1.0, 1.0, 2.0)),
        rollouts=chance.choice((0.0, 0.0, 0.4, 1.0, 1.0)),
        second_type=chance.choice((0.0, 0.0, 0.3, 0.6)),
        spot_price=chance.choice((0.85, 1.0, 1.2, 1.35)),
        is_plain=chance.random() < 0.4 and not by_karpenter,
        failures=Failures(
            slow_boots=slow,
            failed_boots=chance.choice((0.0, 0.0, 0.03)),
            image_pull_s=chance.choice((0.0, 0.0, 60.0)),
            spot_interruptions=chance.choice((0.0, 1.0, 2.0)),
        ),
        seed=1000 + number,
    )


def course_of(case: MonthCase) -> Course:
    settings = stack_named(case.stack)
    month = Month(year=case.year, month=case.month, zone=settings.business_hours.timezone)
    kinds = sorted({kind.name for group in _groups(settings) for kind in group.types})
    return Course(
        settings=settings,
        month=month,
        jobs=jobs_of(settings, month, case.demand, case.number, case.load),
        cluster=case.cluster,
        rises={} if case.rise is None else {kinds[case.number % len(kinds)]: case.rise},
        holes=case.holes,
        before=BEFORE.get(case.stack, {}),
    )


def _groups(settings: StackSettings) -> Sequence[Any]:
    from ebbtide.settings.capacity.node_sets import with_node_sets
    return list(with_node_sets(settings).node_groups.values())


def measured(case: MonthCase) -> Mapping[str, Any]:
    """Return the truth and the stated range of each alternative."""
    month = known(course_of(case))
    ledger = ledger_of(month.recording, month.settings, month.month, month.month.end)
    return {
        "case": asdict(case),
        "paid_usd": month.paid_usd,
        "ledger": [ledger.low_usd, ledger.high_usd],
        "alternatives": {
            entry.name: {"truth": month.truths.get(entry.name), "low": entry.low_usd, "high": entry.high_usd, "why": entry.why}
            for entry in ledger.alternatives
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger_months", description=__doc__)
    parser.add_argument("--months", type=int, default=MONTHS, help="how many, from 0")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/ledger-months"))
    chosen = parser.parse_args()
    place = folder_of(chosen.out, "benchmarks.ledger_months")
    calls = {place / f"{case.name}.json": (case,) for case in map(case_of, range(chosen.months))}
    rows = documents_of(measured, calls, chosen.processes)
    for row in rows:
        case = row["case"]
        print(case["number"], case["stack"], case["demand"], f"paid {row['paid_usd']:.0f}", [round(v) for v in row["ledger"]], "holes" if case["holes"] else "", case["rise"] or "")
        for name, it in row["alternatives"].items():
            if it["truth"] is None: continue
            inside = it["low"] is not None and it["low"] <= it["truth"] <= it["high"]
            print("    ", f"{name:22}", f"truth {it['truth']:.1f}", it["why"] or f"{it['low']:.1f}-{it['high']:.1f} {'ok' if inside else 'MISS'} width {(it['high']-it['low'])/it['truth']:.1%}")


if __name__ == "__main__":
    main()
