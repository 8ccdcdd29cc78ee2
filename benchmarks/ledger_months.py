"""`python -m benchmarks.ledger_months`: the ledger's alternatives in 100 months whose alternatives are known.

97 months are drawn: a stack, jobs, gaps, a price change, and a cluster that differs from the ledger's model. Three are
made of recordings. Drawn months with an even number may choose the ledger's constants; all others judge it. Prints the
rows of docs/evidence/ledger-alternatives.md, and the alternatives whose truth is outside of the stated range.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.cases import Document, documents_of, folder_of
from benchmarks.known_month import Cluster, Course, Known, known
from benchmarks.known_recordings import KARPENTER, karpenter_month, night_month
from benchmarks.known_stacks import BEFORE, DEMANDS, STACKS, jobs_of, stack_named
from ebbtide.lab.ledger.build import ledger_of
from ebbtide.lab.ledger.month import Month
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.settings.capacity.node_sets import with_node_sets

DRAWN = 97
_MONTHS = ((2026, 10), (2026, 3), (2026, 11), (2027, 2), (2026, 7), (2026, 12))  # clocks change in the first two
_GAPS = ((0.2,) * 10, (0.5, 3.0), (24.0,), (6.0, 12.0))  # hours
_ROUNDING = 1e-4


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


def case_of(number: int) -> MonthCase:
    """Draw a case. The stacks take turns."""
    chance = Random(f"known month {number}")
    stack = list(STACKS)[number % len(STACKS)]
    year, month = chance.choice(_MONTHS)
    holes: tuple[tuple[float, float], ...] = ()
    if chance.random() < 0.3:
        lengths = chance.choice(_GAPS)
        begins = sorted(chance.sample(range(10, 650, 30), len(lengths)))
        holes = tuple((float(begin), begin + length) for begin, length in zip(begins, lengths, strict=True))
    rise = (chance.uniform(100, 600), chance.choice((0.85, 0.9, 1.1, 1.2))) if chance.random() < 0.3 else None
    return MonthCase(
        number=number,
        stack=stack,
        year=year,
        month=month,
        demand=chance.choice(DEMANDS),
        load=chance.choice((0.15, 0.3, 0.6)),
        holes=holes,
        rise=rise,
        cluster=_cluster(chance, number, by_karpenter="karpenter" in stack, most_mib=300 if stack == "gpus" else 512),
    )


def _cluster(chance: Random, number: int, *, by_karpenter: bool, most_mib: int) -> Cluster:
    """`most_mib`: memory that DaemonSets may request beside the stack's pods."""
    slow = chance.choice((0.0, 0.0, 0.5))
    spread = chance.choice((0.0, 0.3, 0.6))
    return Cluster(
        boot=chance.uniform(0.4, 2.0),
        boot_spread=0.0 if slow else spread,
        daemons_cpu_m=chance.choice((0, 0, 150, 300)),
        daemons_mib=min(most_mib, chance.choice((0, 0, 256, 512))),
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
    groups = with_node_sets(settings).node_groups.values()
    kinds = sorted({kind.name for group in groups for kind in group.types})
    return Course(
        settings=settings,
        month=month,
        jobs=jobs_of(settings, month, case.demand, case.number, case.load),
        cluster=case.cluster,
        rises={} if case.rise is None else {kinds[case.number % len(kinds)]: case.rise},
        holes=case.holes,
        before=BEFORE.get(case.stack, {}),
    )


def drawn(number: int) -> Document:
    case = case_of(number)
    return document_of(f"{number} {case.stack}", tags_of(case), known(course_of(case)), judges=number % 2 == 1)


def tags_of(case: MonthCase) -> list[str]:
    """Return the properties by which the page groups months."""
    cluster = case.cluster
    differs = {
        "gaps": bool(case.holes),
        "Karpenter": "karpenter" in case.stack,
        "an existing cluster": "existing" in case.stack,
        "two flexible groups": case.stack == "two flexible groups",
        "spot": case.stack == "spot",
        "the second model": cluster.is_plain,
        "DaemonSets that the file lacks": bool(cluster.daemons_cpu_m or cluster.daemons_mib),
        "rollouts": cluster.rollouts > 0,
    }
    return [name for name, value in differs.items() if value]


def document_of(name: str, tags: Sequence[str], month: Known, *, judges: bool) -> Document:
    return {"name": name, "judges": judges, "tags": tags, **measured(month)}


def recorded(name: str) -> Document:
    month = night_month() if name == "night" else karpenter_month(name)
    return document_of(name, ["recordings"], month, judges=True)


def measured(month: Known) -> Document:
    """Return the truth and the stated range of each alternative."""
    ledger = ledger_of(month.recording, month.settings, month.month, month.month.end)
    return {
        "paid": [month.paid_usd, ledger.low_usd, ledger.high_usd],
        "alternatives": [
            {"name": it.name, "truth": month.truths[it.name], "low": it.low_usd, "high": it.high_usd, "why": it.why}
            for it in ledger.alternatives
            if it.name in month.truths
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """An alternative of one month: its truth, and the stated range; None: the ledger states none."""

    month: str
    tags: Sequence[str]
    name: str
    truth: float
    low: float | None
    high: float | None

    @property
    def width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / self.truth

    @property
    def miss(self) -> float:
        """Return the distance of the truth from the range, as a share of the truth: 0 within it or without a range."""
        if self.low is None or self.high is None:
            return 0.0
        distance = max(self.low - self.truth, self.truth - self.high, 0.0) / self.truth
        return distance if distance > _ROUNDING else 0.0


def stated_in(documents: Sequence[Document]) -> Iterator[Stated]:
    for document in documents:
        for it in document["alternatives"]:
            fields = {key: it[key] for key in ("name", "truth", "low", "high")}
            yield Stated(month=document["name"], tags=document["tags"], **fields)


def row(name: str, alternatives: Sequence[Stated]) -> str:
    """Return a row of the page. Alternatives without a range count as not contained."""
    widths = [it.width for it in alternatives if it.width is not None]
    inside = [it for it in alternatives if it.width is not None and not it.miss]
    worst = max((it.miss for it in alternatives), default=0.0)
    return (
        f"| {name} | {len(alternatives)} | {len(inside) / len(alternatives):.0%} | {median(widths):.1%} "
        f"| {max(widths):.0%} | {worst:.1%} |"
    )


def lines(documents: Sequence[Document]) -> Iterator[str]:
    stated = [*stated_in(documents)]
    yield row("all", stated)
    without = [it for it in stated if "gaps" not in it.tags]
    yield row("all, months without gaps", without)
    for name in dict.fromkeys(it.name for it in stated):
        yield row(name, [it for it in without if it.name == name])
    for tag in sorted({tag for it in stated for tag in it.tags}):
        yield row(f"months with {tag}", [it for it in stated if tag in it.tags])
    for it in stated:
        if it.width is None or it.miss:
            bounds = "no range" if it.width is None else f"{it.low:,.0f} to {it.high:,.0f}"
            yield f"  {it.month}: {it.name}: {it.truth:,.0f}, stated {bounds} ({it.miss:.1%}; {', '.join(it.tags)})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger_months", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first drawn month")
    parser.add_argument("--drawn", type=int, default=DRAWN, help="how many drawn months")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/ledger-months"))
    chosen = parser.parse_args()
    place = folder_of(chosen.out, "benchmarks.ledger_months")
    calls: Mapping[Path, tuple[Any, ...]] = {
        place / f"{number:03}.json": (number,) for number in range(chosen.first, chosen.first + chosen.drawn)
    }
    documents = documents_of(drawn, calls, chosen.processes, lambda _name: None)
    documents += [recorded(name) for name in (*KARPENTER, "night")]
    for title, judges in (("months that may choose constants", False), ("months that judge", True)):
        chosen_months = [it for it in documents if it["judges"] is judges]
        print("\n".join((f"{len(chosen_months)} {title}", *lines(chosen_months))), flush=True)


if __name__ == "__main__":
    main()
