"""`python -m tools.mutation [FILE…]`: put small faults into the code, one at a time, and see whether a test fails.

Runs in copies of the tree, two at once. A mutant is killed when a test fails, or when its tests take far longer than
without it; one that cannot even be imported is counted apart, since any test would find it. The tests of every module
pass without a mutant first. A survivor is either explained in `survivors.toml`, where it changes no behaviour, or a
test is missing. Writes `out/mutants.txt` with the diff of each survivor.
"""

import argparse
import sys
from pathlib import Path
from random import Random

from tools.mutation.given import GivenWrong, explained, hand_made, targets
from tools.mutation.operators import mutants_of
from tools.mutation.results import Case, Kind, Result, report
from tools.mutation.runs import BaselineFails, run_all

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tools.mutation", description="Put faults into the code, see which tests fail."
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="modules of targets.toml; none: all of them")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many, drawn by --seed; all made by hand stay")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=float, default=1.0, help="share to be killed, of those that change behaviour")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", metavar="TEXT", help="only those with this text in their key")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants.txt")
    chosen = parser.parse_args(arguments)
    try:
        cases = cases_of(chosen.files, chosen.sample, chosen.seed, chosen.only)
        found = run_all(ROOT, cases, targets(ROOT), chosen.workers)
    except (GivenWrong, BaselineFails) as error:
        print(error, file=sys.stderr)
        return 2
    whole = not chosen.sample and not chosen.only
    return report(found, _stale(found, chosen.files) if whole else [], chosen.out, chosen.least)


def cases_of(files: list[str], sample: int | None, seed: int, only: str = "") -> list[Case]:
    """Raises `GivenWrong`."""
    known = targets(ROOT)
    if strange := [name for name in files if name not in known]:
        raise GivenWrong(f"{', '.join(strange)}: no target, wanted some of {', '.join(known)}")
    why = explained()
    made = [
        Case(file=file, key=one.key, line=one.line, text=one.text, why=why.get((file, one.key), ""))
        for file in files or known
        for one in mutants_of((ROOT / file).read_text())
        if only in one.key
    ]
    if sample is not None:
        made = Random(seed).sample(made, min(sample, len(made)))
    return [*made, *(case for case in _by_hand() if (not files or case.file in files) and only in case.key)]


def _by_hand() -> list[Case]:
    cases: list[Case] = []
    for origin, one in hand_made(ROOT, targets(ROOT)):
        source = (ROOT / one.file).read_text()
        line = source[: source.index(one.before)].count("\n") + 1
        text = source.replace(one.before, one.after)
        key = f"{origin}: {one.about}"
        cases.append(Case(file=one.file, key=key, line=line, text=text, why=one.survives))
    return cases


def _stale(found: list[Result], files: list[str]) -> list[str]:
    """Explanations of mutants that are no longer made, or that a test kills by now."""
    outcome = {(one.case.file, one.case.key): one.kind for one in found}
    told: list[str] = []
    for file, key in explained():
        if files and file not in files:
            continue
        kind = outcome.get((file, key))
        if kind is None:
            told.append(f"survivors.toml: {file}: {key}: no such mutant is made any more")
        elif kind is not Kind.SURVIVED:
            told.append(f"survivors.toml: {file}: {key}: a test kills it by now")
    return told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
