"""Results in a folder: a file for each replay, one at the end, and none of other code among them."""

from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.lab.sweep.calls import Failed
from ebbtide.lab.sweep.plan import SweepPlan
from ebbtide.lab.sweep.run import run
from ebbtide.lab.sweep.store import ResultStore, ResultStoreError, rows_of
from ebbtide.lab.sweep.task import ReplayFigures, SweepTask
from tests.unit.lab.sweep.stacks import a_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> SweepPlan:
    return a_plan(tmp_path_factory.mktemp("stacks"), seeds=range(2))


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return opened(tmp_path / "results")


def opened(folder: Path, release: str = "1.0", *, resume: bool = True) -> ResultStore:
    store = ResultStore(str(folder), release, "code")
    store.refuse_others(resume=resume)
    store.try_writing()
    return store


def played(plan: SweepPlan, store: ResultStore) -> None:
    run(plan, store, processes=1, ray=None, progress=lambda _done, _failed: None)


def result(task: SweepTask, usd: float = 1.0) -> ReplayFigures:
    return ReplayFigures(days=1, jobs=2, coverage=1.0, strategies={"fixed-flexible": {"usd": usd}}, cpu_s=0.5)


def test_a_second_run_plays_only_what_is_new(plan: SweepPlan, store: ResultStore, tmp_path: Path) -> None:
    played(replace(plan, tasks=plan.tasks[:3]), store)

    again = opened(tmp_path / "results")

    assert plan.without(again.done()).tasks == plan.tasks[3:]


def test_all_files_are_one_at_the_end_with_every_row(plan: SweepPlan, store: ResultStore, tmp_path: Path) -> None:
    played(plan, store)

    (file,) = (tmp_path / "results").iterdir()
    assert file.name == f"all-{len(plan.tasks)}.parquet"
    assert store.done() == {task.key for task in plan.tasks}


def test_a_replay_that_failed_is_a_row_with_its_error_and_is_tried_again(plan: SweepPlan, store: ResultStore) -> None:
    task = plan.tasks[0]
    store.add(task, Failed("no price"))
    (row,) = store.rows()
    before = store.done()
    store.add(task, result(task, usd=7.0))

    (after,) = store.rows()
    assert (row["strategy"], row["error"], row["usd"]) == ("", "no price", None)
    assert before == set()
    assert (after["error"], after["usd"], store.done()) == (None, 7.0, {task.key})


def test_an_error_stays_beside_the_others_when_they_are_gathered(plan: SweepPlan, store: ResultStore) -> None:
    first, second, third = plan.tasks[:3]
    store.add(first, Failed("no price"))
    store.add(second, result(second))
    store.add(third, result(third))

    store.gather()

    assert sorted(str(row["error"]) for row in store.rows()) == ["None", "None", "no price"]
    store.add(first, result(first))
    assert [row["error"] for row in store.rows()] == [None, None, None]


def test_rows_that_are_in_two_files_count_once(plan: SweepPlan, store: ResultStore) -> None:
    """As after a run that was ended between the last file and the removal of those before it."""
    first, second = plan.tasks[:2]
    store.add(first, result(first))
    store.add(second, result(second))
    store.gather()
    store.add(first, result(first))

    assert len(store.rows()) == 3
    assert len(rows_of(store.rows(), [first.key, second.key])) == 2
    store.gather()
    assert len(store.rows()) == 2


def test_half_a_file_is_none(plan: SweepPlan, store: ResultStore, tmp_path: Path) -> None:
    store.add(plan.tasks[0], result(plan.tasks[0]))
    (whole,) = (tmp_path / "results").glob("part-*.parquet")
    (tmp_path / "results" / ".part-other.partial").write_bytes(whole.read_bytes()[:100])

    assert len(opened(tmp_path / "results").rows()) == 1


def test_a_folder_with_results_is_gone_on_with_only_when_that_is_asked(
    plan: SweepPlan, store: ResultStore, tmp_path: Path
) -> None:
    store.add(plan.tasks[0], result(plan.tasks[0]))

    with pytest.raises(ResultStoreError, match="wanted an empty folder, found results in it; --resume continues them"):
        opened(tmp_path / "results", resume=False)


def test_results_of_another_release_are_refused_in_one_line(
    plan: SweepPlan, store: ResultStore, tmp_path: Path
) -> None:
    store.add(plan.tasks[0], result(plan.tasks[0]))

    with pytest.raises(
        ResultStoreError, match=r"wanted results of 2\.0 .* found those of 1\.0 .* name another folder"
    ) as error:
        opened(tmp_path / "results", release="2.0")

    assert "\n" not in str(error.value)


@pytest.mark.parametrize("place", ["/dev/null/results", "nowhere://bucket/x"])
def test_a_place_that_refuses_is_told_in_one_line(place: str) -> None:
    with pytest.raises(ResultStoreError, match=f"--results {place}: ") as error:
        opened(Path(place)) if place.startswith("/") else ResultStore(place, "1", "c")

    assert "\n" not in str(error.value)
