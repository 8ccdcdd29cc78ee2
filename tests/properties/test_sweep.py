"""The figures of a sweep do not depend on how many processes play it, nor in which order."""

from pathlib import Path
from random import Random

import pytest

from ebbtide.lab.sweep.calls import ended
from ebbtide.lab.sweep.plan import SweepPlan
from ebbtide.lab.sweep.run import run
from ebbtide.lab.sweep.store import ResultStore
from ebbtide.lab.sweep.summary import summary_of
from ebbtide.lab.sweep.task import play
from tests.unit.lab.sweep.stacks import a_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> SweepPlan:
    return a_plan(tmp_path_factory.mktemp("stacks"), seeds=range(2), objective="usd where wait_p95_s <= keda-defaults")


def digest(plan: SweepPlan, folder: Path, processes: int) -> str:
    store = ResultStore(str(folder), "1", "c")
    store.try_writing()
    ran = run(plan, store, processes=processes, ray=None, progress=lambda _done, _failed: None)
    assert (ran.done, ran.errors) == (len(plan.tasks), {})
    return summary_of(plan, store.rows(), {}).digest


def test_one_process_and_two_give_the_same_figures_to_the_last_bit(plan: SweepPlan, tmp_path: Path) -> None:
    assert digest(plan, tmp_path / "one", 1) == digest(plan, tmp_path / "two", 2)


def test_the_order_of_the_replays_changes_none(plan: SweepPlan) -> None:
    """What one replay leaves behind in a process, the next does not see."""
    calls = plan.calls
    shuffled = Random(7).sample(range(len(calls)), len(calls))
    there = {each.number: each.result().strategies for each in ended(play, calls)}
    back = {shuffled[each.number]: each.result().strategies for each in ended(play, [calls[at] for at in shuffled])}

    assert back == there
