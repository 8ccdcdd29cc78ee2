"""The controller among faults, in the modelled world: a hundred runs here, thousands in the long tier."""

import os
import subprocess
import sys
from itertools import islice

import pytest

from tests.counts import count
from tests.harness.bugs import BUGS, Bug
from tests.harness.campaign import FIND_WITHIN, campaign, found_after, replay, report
from tests.harness.habits import Habits
from tests.harness.run import run
from tests.harness.scenario import scenario
from tests.harness.words import CELLS, Fault
from tests.paths import ROOT

pytestmark = pytest.mark.whole

PART = 100  # runs
RUNS = count(15_000, 3_000)
HIT_AT_LEAST = RUNS // 300
AIMED_AT = {  # bugs that need their fault
    "doubt-ignored": Fault.CLOCK_SKEW,
    "replayed-after-crash": Fault.CRASH,
    "count-ignored": Fault.QUOTA,
    "silence-ignored": Fault.NODE_CUT,
}
TRIES = 80


def finders(bug: str) -> list[int]:
    """Seeds to try: for a bug that shows after one kind of fault only, those that aim it."""
    fault = AIMED_AT.get(bug)
    aimed = (seed for seed in range(4_000) if fault is None or fault in {at.fault for at in scenario(seed).targets})
    return list(islice(aimed, TRIES))


def test_no_law_is_broken_in_a_part_of_the_runs_and_the_controller_did_its_work() -> None:
    summary = campaign(range(PART))

    assert summary.failures == [], report(summary)
    for done in ("done", "zeros reached", "lowerings", "window starts met", "demand met", "evictions by night"):
        assert summary.counts[done] > PART / 4, done
    assert len(summary.hits) > len(CELLS) / 2


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_seeded_bug_is_found(bug: str) -> None:
    assert found_after(bug, finders(bug)) is not None


@pytest.mark.process
def test_a_run_is_the_same_each_time_whatever_the_order_of_sets() -> None:
    """In another process, with other hashes of names: else the command that replays a seed would show another run."""
    code = "from tests.harness.run import run; r = run(7); print(r.events, r.turns, sorted(r.counts.items()))"
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert said[0] == said[1]


@pytest.mark.process
def test_a_failing_seed_prints_the_command_that_replays_it() -> None:
    found = found_after("no-version", finders("no-version"))
    assert found is not None
    command = replay(found[1].seed, "no-version")

    shown = subprocess.run(
        [sys.executable, *command.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert shown.returncode == 1
    assert shown.stdout.splitlines()[-1] == str(found[1].violation)


def test_a_run_without_a_controller_that_acts_fails() -> None:
    """Else a controller that does nothing would be the safest of all."""
    does_nothing = Bug(name="nothing", what="acts on nothing", habits=lambda: Habits(forgets=lambda _action: True))

    assert all(run(seed, does_nothing).violation is not None for seed in range(5))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_thousands_of_runs_break_no_law_and_hit_every_gap_with_every_fault() -> None:
    summary = campaign(range(RUNS), jobs=2)
    print(report(summary))

    assert summary.failures == [], report(summary)
    assert summary.events >= RUNS * 200
    assert summary.rarest_cell() >= HIT_AT_LEAST
    assert summary.fewest_events >= 200


@pytest.mark.long
@pytest.mark.parametrize("bug", sorted(BUGS))
def test_every_seeded_bug_is_found_within_a_thousand_runs(bug: str) -> None:
    found = found_after(bug, range(FIND_WITHIN))

    assert found is not None
    print(f"{bug}: after {found[0]} runs, {found[1].violation}\n{replay(found[1].seed, bug)}")
