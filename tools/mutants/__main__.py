"""`make mutants`: run the listed mutants that have no result yet. README.md next to this file has the options."""

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tools.mutants.child import MARKERS, Attempt, import_product, prepare, run_tests
from tools.mutants.listed import (
    GONE,
    LIST,
    NEW_TEST,
    NOTICED,
    SURVIVED,
    UNKNOWN,
    Mutant,
    draw,
    read,
    replaced,
    reset,
    write,
)
from tools.mutants.product import modules
from tools.mutants.related import UNKNOWN_SECONDS, related
from tools.mutants.sites import MODULE, Site

OUT = Path("out/mutants")
SECONDS = OUT / "seconds.json"
_COLUMNS = (
    *("noticed: fast", "noticed: process or whole", "by a new test"),
    *("equivalent", "unimportant", "survived", "not run"),
)
CUT = "the time was over before the last test"
_FIRST_S = 8.0
_CHECK_S = 900.0


def main() -> None:
    options = _options()
    root = Path.cwd()
    OUT.mkdir(parents=True, exist_ok=True)
    mutants = replaced(root, read(options.list) or draw(root, _below(modules(root), options.paths), options.count))
    open_ = [mutant.site for mutant in mutants if _to_run(mutant, options.again)][: options.most]
    if options.again and not open_:
        raise SystemExit(f"--again {' '.join(options.again)}: wanted test files that noticed a mutant, or survivors")
    write(options.list, [reset(mutant) if mutant.site in open_ else mutant for mutant in mutants])
    if open_:
        prepare(root)
        tiers = list(MARKERS)[: 2 if options.slow else 1]
        if os.fork() == 0:
            import_product(root)
            _each(options.list, lambda mutant: _try_imported(root, mutant, open_))
            os._exit(0)
        if os.wait()[1]:
            raise SystemExit(1)
        _each(options.list, lambda mutant: _try_fresh(root, mutant, open_, tiers, options.seconds))
        _check_tests(options.list, open_)
    print(table(read(options.list)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("paths", nargs="*", help="folders or modules to draw from; needs --list")
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--most", type=int, help="run so many at most")
    parser.add_argument("--again", nargs="*", default=[], help="run what these test files noticed again; `survivors`")
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds for each mutant, at most")
    parser.add_argument("--slow", action="store_true", help="the tests marked process or whole, too")
    options = parser.parse_args()
    if options.count < 1 or (options.most or 0) < 0:
        parser.error("--count: wanted 1 or more, --most: wanted 0 or more")
    if options.paths and (options.list == LIST or options.list.exists()):
        parser.error(
            f"paths choose what to draw for a new list: wanted --list NEW, for example --list {OUT}/windows.jsonl"
        )
    if not _below(modules(Path.cwd()), options.paths):
        parser.error(f"no module of the product is in {' '.join(options.paths)}: wanted for example ebbtide/vocabulary")
    return options


def _below(paths: Sequence[str], folders: Sequence[str]) -> list[str]:
    return [path for path in paths if not folders or any(f"{path}/".startswith(f"{each}/") for each in folders)]


def _to_run(mutant: Mutant, again: Sequence[str]) -> bool:
    if again:
        return mutant.test.partition("::")[0] in again or (mutant.verdict == SURVIVED and "survivors" in again)
    return mutant.verdict == UNKNOWN


def _each(path: Path, attempt: Callable[[Mutant], Mutant]) -> None:
    """Write the list after each mutant, so that an interrupted run resumes."""
    mutants = read(path)
    for index, mutant in enumerate(mutants):
        new = attempt(mutant)
        if new != mutant:
            mutants[index] = new
            write(path, mutants)
            print(f"{new.verdict or 'open'}\t{new.package}\t{new.site.kind}\t{new.site}\t{new.test}", flush=True)


def _try_imported(root: Path, mutant: Mutant, open_: Container[Site]) -> Mutant:
    if mutant.site not in open_ or mutant.site.function == MODULE or mutant.site.kind == "default":
        return mutant
    return _attempt(root, mutant, "fast", _FIRST_S, imported=True)


def _try_fresh(root: Path, mutant: Mutant, open_: Container[Site], tiers: Iterable[str], most_s: float) -> Mutant:
    if mutant.site not in open_:
        return mutant
    for tier in tiers:
        if mutant.verdict == UNKNOWN:
            mutant = _attempt(root, mutant, tier, most_s)
    return mutant if mutant.verdict else replace(mutant, verdict=SURVIVED)


def _attempt(root: Path, mutant: Mutant, tier: str, most_s: float, *, imported: bool = False) -> Mutant:
    seconds = _seconds()
    tests: list[str] = []
    total = 0.0
    for test in related(root, mutant.site, mutant.file, tier, seconds):
        total += seconds.get(test, UNKNOWN_SECONDS)
        tests.append(test)
        if total > most_s:
            break
    if not tests:
        return mutant
    fault = (root, mutant.file, mutant.site)
    run = run_tests(
        OUT / "run.json", Attempt(tests=tests, marker=MARKERS[tier], most_s=most_s, fault=fault, imported=imported)
    )
    if tier == "fast":
        SECONDS.write_text(json.dumps(seconds | run.seconds, indent=0))
    if run.broken:
        raise SystemExit(f"no test ran for {mutant.site}: see {OUT / 'run.log'}")
    if run.test:
        why = "" if mutant.why == CUT else mutant.why
        return replace(mutant, verdict=NOTICED, tier=tier, test=run.test, why=why)
    return replace(mutant, why=CUT if run.cut or total > most_s else "") if not imported else mutant


def _seconds() -> dict[str, float]:
    return json.loads(SECONDS.read_text()) if SECONDS.exists() else {}


def _check_tests(path: Path, open_: Container[Site]) -> None:
    """A test that fails without a fault notices nothing: its mutants are open again."""
    mutants = read(path)
    for tier, marker in MARKERS.items():
        noticing = {each.test for each in mutants if each.site in open_ and each.tier == tier and "::" in each.test}
        while noticing:
            run = run_tests(OUT / "run.json", Attempt(tests=sorted(noticing), marker=marker, most_s=_CHECK_S))
            if run.test not in noticing:
                break
            noticing.remove(run.test)
            print(f"fails without a fault: {run.test}", flush=True)
            mutants = [reset(each) if each.test == run.test else each for each in mutants]
    write(path, mutants)


def table(mutants: Sequence[Mutant]) -> str:
    """Return Markdown: a row for each package, and the sum."""
    listed = [mutant for mutant in mutants if mutant.verdict != GONE]
    columns = [column for column in _COLUMNS if column in set(map(_column, listed))]
    rows = [(package, [each for each in listed if each.package == package]) for package in _packages(listed)]
    lines = [f"| package | mutants | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for name, members in (*rows, ("all", listed)):
        counts = Counter(map(_column, members))
        lines.append(f"| {name} | {len(members)} | {' | '.join(str(counts[column]) for column in columns)} |")
    return "\n".join(lines)


def _packages(mutants: Sequence[Mutant]) -> list[str]:
    return sorted({mutant.package for mutant in mutants})


def _column(mutant: Mutant) -> str:
    if mutant.verdict == NOTICED:
        return "by a new test" if mutant.why == NEW_TEST else f"noticed: {mutant.tier}"
    return mutant.verdict or "not run"


if __name__ == "__main__":
    main()
