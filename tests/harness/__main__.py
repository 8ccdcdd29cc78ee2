"""`python -m tests.harness --runs 10000 --jobs 2` prints the summary; `--seed N --trace` shows one run again."""

import argparse
import sys

from tests.harness.bugs import BUGS, NO_BUG
from tests.harness.campaign import FIND_WITHIN, campaign, found_after, replay, report
from tests.harness.real_workers import run_real
from tests.harness.run import run


def main() -> int:
    asked = _arguments()
    if asked.real is not None:
        (outcome,) = run_real([asked.real], at_once=1)
        print(outcome)
        return int(bool(outcome.broken))
    if asked.seed is not None:
        result = run(asked.seed, BUGS.get(asked.bug, NO_BUG), print if asked.trace else None)
        print(result.violation or f"no law broken in {result.events} events")
        return int(result.violation is not None)
    summary = campaign(range(asked.first, asked.first + asked.runs), asked.jobs)
    print(report(summary))
    missed = 0
    if asked.bugs:
        print("\nseeded bugs")
        for name, bug in BUGS.items():
            found = found_after(name, range(FIND_WITHIN))
            missed += found is None
            after = f"not found in {FIND_WITHIN} runs"
            if found is not None and found[1].violation is not None:
                after = f"found after {found[0]} runs: {found[1].violation.law}\n      {replay(found[1].seed, name)}"
            print(f"  {name} ({bug.what}): {after}")
    return int(bool(summary.failures) or bool(missed))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description="the controller among faults")
    parser.add_argument("--runs", type=int, default=150, help="how many seeds to run (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--no-bugs", dest="bugs", action="store_false", help="do not look for the seeded bugs")
    parser.add_argument("--seed", type=int, help="one run only")
    parser.add_argument("--real", type=int, metavar="SEED", help="one run with real workers")
    parser.add_argument("--bug", choices=sorted(BUGS), help="with that bug seeded into the controller")
    parser.add_argument("--trace", action="store_true", help="say what happens in it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
