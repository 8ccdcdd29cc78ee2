"""What became of each mutant, as a table, with the diff of each survivor."""

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    KILLED = "killed"
    SLOW = "too slow"  # its tests did not end in time: nobody would miss that
    BROKEN = "no import"  # the module does not even load; any test finds it, so it counts as nothing
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`why` says that it changes no behaviour, if somebody wrote that down."""

    file: str
    key: str
    line: int
    text: str  # of the whole module
    why: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    kind: Kind
    before: str  # the module without the mutant

    @property
    def diff(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(), self.case.text.splitlines(), self.case.file, self.case.file, lineterm="", n=1
        )
        return "\n".join(lines)


def report(results: Sequence[Result], stale: Sequence[str], out: Path, least: float = 1.0) -> int:
    """Print the table and write the survivors; 1 if fewer than `least` were killed, or an explanation is stale."""
    unexplained = [one for one in results if one.kind is Kind.SURVIVED and not one.case.why]
    accepted = [one for one in results if one.kind is Kind.SURVIVED and one.case.why]
    text = "\n".join(
        [*_table(results), "", *_survivors("not explained", unexplained), *_survivors("explained", accepted)]
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n")
    print("\n".join(_table(results)))
    for line in stale:
        print(line)
    print(f"diffs of the survivors: {out}")
    return 1 if share(results) < least or stale else 0


def share(results: Sequence[Result]) -> float:
    """Killed, of those that change behaviour."""
    counted = [
        one for one in results if one.kind is not Kind.BROKEN and not (one.kind is Kind.SURVIVED and one.case.why)
    ]
    return sum(one.kind is not Kind.SURVIVED for one in counted) / len(counted) if counted else 1.0


def _table(results: Sequence[Result]) -> Iterator[str]:
    yield f"{'module':44} {'made':>5} {'killed':>6} {'slow':>5} {'survived':>8} {'explained':>9} {'share':>7}"
    for file in [*dict.fromkeys(one.case.file for one in results), "all"]:
        here = [one for one in results if file in (one.case.file, "all")]
        kinds = Counter(one.kind for one in here)
        made = len(here) - kinds[Kind.BROKEN]
        reasons = sum(one.kind is Kind.SURVIVED and bool(one.case.why) for one in here)
        yield (
            f"{file:44} {made:5} {kinds[Kind.KILLED]:6} {kinds[Kind.SLOW]:5} {kinds[Kind.SURVIVED] - reasons:8} "
            f"{reasons:9} {share(here):7.1%}"
        )


def _survivors(name: str, results: Sequence[Result]) -> Iterator[str]:
    for one in results:
        yield f"--- survived, {name}: {one.case.key}" + (f"\n    {one.case.why}" if one.case.why else "")
        yield f"{one.diff}\n"
