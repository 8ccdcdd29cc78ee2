"""A sweep is read and checked before anything is played, and its keys tell replays apart."""

from pathlib import Path

import pytest

from ebbtide.lab.sweep import plan as plans
from ebbtide.lab.sweep.plan import SweepInvalid, plan_of
from ebbtide.lab.sweep.sources import digest_of, modules_of
from tests.unit.lab.sweep.stacks import a_plan, a_stack_file, a_trace_file, asked


def test_a_replay_for_each_stack_setting_and_seed(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, seeds=range(3))

    assert len(plan.tasks) == len({task.key for task in plan.tasks}) == 2 * 2 * 3
    assert {str(task) for task in plan.tasks} >= {"acme on some-jobs, stabilizationWindow=10m, seed 2"}


def test_keys_are_the_same_another_time_and_others_with_another_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, trace = a_stack_file(tmp_path, "acme"), a_trace_file(tmp_path)

    def keys() -> set[str]:
        return {task.key for task in plan_of(asked([stack], [trace])).tasks}

    before = keys()
    assert keys() == before
    a_trace_file(tmp_path, jobs=13)
    of_another_trace = keys()
    a_stack_file(tmp_path, "acme", cpu=5)
    of_another_stack = keys()

    def of_other(_module: str) -> str:
        return "of other code"

    monkeypatch.setattr(plans, "digest_of", of_other)
    of_other_code = keys()

    assert len(before | of_another_trace | of_another_stack | of_other_code) == 4 * len(before)


def test_all_settings_of_a_stack_are_replayed_from_one_instant(tmp_path: Path) -> None:
    hours = '{ mon-fri: "06:00-12:00" },{ mon-fri: "12:00-20:00" }'
    plan = a_plan(tmp_path, ("acme",), vary=[f"businessHours.week={hours}"])

    (start,) = {task.options.start for task in plan.tasks}
    assert start is not None
    assert len({str(task.settings.business_hours.week) for task in plan.tasks}) == 2


def test_everything_that_is_wrong_is_told_at_once_in_a_line_each(tmp_path: Path) -> None:
    stack = a_stack_file(tmp_path, "acme")
    (tmp_path / "more").mkdir(exist_ok=True)
    twin = a_stack_file(tmp_path / "more", "acme")

    with pytest.raises(SweepInvalid) as error:
        plan_of(
            asked(
                [stack, twin, "nowhere"],
                [a_trace_file(tmp_path, cpu=64), "no-such-trace"],
                vary=["stabilizationWindow=soon", "max=2,3", "workers.*.max=4", "customer=x"],
                objective="dollars",
            )
        )

    told = "\n".join(error.value.lines)
    assert "wanted a figure of a replay's JSON, found 'dollars'" in told
    assert "--vary customer: cannot be varied" in told
    assert "wanted each key once, found it twice" in told
    assert "wanted the stack 'nowhere', found no such file" in told
    assert "no-such-trace: no such file" in told
    assert "stabilizationWindow: wanted" in told
    assert all("\n" not in line for line in error.value.lines)


def test_two_stacks_of_one_customer_and_a_trace_that_covers_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    stacks = [a_stack_file(tmp_path, "acme"), a_stack_file(tmp_path / "more", "acme")]

    with pytest.raises(SweepInvalid) as error:
        plan_of(asked(stacks, [a_trace_file(tmp_path, cpu=64)]))

    (name, coverage) = error.value.lines
    assert name.startswith("ebbtide:customer: wanted a different name for each stack, found 'acme' in ")
    assert coverage.startswith("acme: trace some-jobs: none of its 12 jobs fits a worker pool")


def test_the_code_is_what_a_replay_imports_and_nothing_of_commands_or_pages() -> None:
    modules = modules_of(plans.TASK)

    assert {"ebbtide.lab.simulator.cluster.scheduler", "controllers.scaler.loop", "ebbtide.prices.rates"} <= set(
        modules
    )
    assert not [name for name in modules if name.startswith(("ebbtide.cli", "ebbtide.lab.report", "benchmarks"))]


def test_a_changed_file_gives_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("1")
    before = digest_of("ebbtide.lab.sweep.calls", path)
    digest_of.cache_clear()
    path.write_text("2")

    assert digest_of("ebbtide.lab.sweep.calls", path) != before


def test_another_python_whose_sums_round_otherwise_gives_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    result: dict[str, str] = {}
    for version in ("3.11.2", "3.11.7", "3.12.7"):
        digest_of.cache_clear()
        monkeypatch.setattr("platform.python_version_tuple", lambda version=version: tuple(version.split(".")))
        result[version] = digest_of("ebbtide.lab.sweep.calls")
    digest_of.cache_clear()

    assert result["3.11.2"] == result["3.11.7"] != result["3.12.7"]
