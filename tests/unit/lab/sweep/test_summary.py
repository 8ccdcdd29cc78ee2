"""The best of each stack, one for all, its regret, and what is missing."""

import json
from collections.abc import Mapping
from dataclasses import replace
from math import nan
from typing import Any

import pytest

from ebbtide.lab.report.pages.sweep import render_sweep
from ebbtide.lab.sweep.objective import FIGURES
from ebbtide.lab.sweep.plan import SweepPlan
from ebbtide.lab.sweep.summary import SweepSummary, as_json, notes_of, summary_of
from ebbtide.lab.sweep.table import regrets, sweep_table
from ebbtide.text.terminal import console
from tests.unit.lab.sweep.stacks import a_plan

OBJECTIVE = "usd where wait_p95_s <= 100"
SHORT, LONG = "stabilizationWindow=30s", "stabilizationWindow=10m"
USD = {("acme", SHORT): 10.0, ("acme", LONG): 11.0, ("bolt", SHORT): 30.0, ("bolt", LONG): 20.0}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> SweepPlan:
    plan = a_plan(tmp_path_factory.mktemp("stacks"), seeds=range(2), objective=OBJECTIVE)
    return replace(plan, notes={})  # about queues and prices, which are tested with the command


def summary(
    plan: SweepPlan,
    usd: Mapping[tuple[str, str], float] = USD,
    waits: Mapping[tuple[str, str], float] | None = None,
    *,
    lost: int = 0,
    overloads: Mapping[tuple[str, str], str] | None = None,
    by_seed: float = 1.0,
) -> SweepSummary:
    rows: list[dict[str, Any]] = []
    for task in plan.tasks[lost:]:
        case = (task.customer, task.setting)
        figures = dict.fromkeys(FIGURES, 0.0)
        figures |= {"usd": usd[case] + by_seed * task.seed, "wait_p95_s": (waits or {}).get(case, 50.0)}
        overload = (overloads or {}).get(case, "")
        rows.append({"key": task.key, "strategy": "fixed-flexible", "overload": overload, "cpu_s": 1.0, **figures})
    return summary_of(plan, rows, {task.key: "no price" for task in plan.tasks[:lost]})


def test_each_stack_has_its_best_and_one_for_all_has_the_smallest_mean(plan: SweepPlan) -> None:
    swept = summary(plan)

    assert {stack.customer: (stack.best, stack.regret) for stack in swept.stacks} == {
        "acme": (SHORT, 1.0),
        "bolt": (LONG, 0.0),
    }
    assert swept.best == LONG
    assert [(each.setting, each.value, each.low, each.high) for each in swept.settings] == [
        (SHORT, 20.5, 20.0, 21.0),
        (LONG, 16.0, 15.5, 16.5),
    ]
    assert regrets(swept) == [
        f"One setting for all, {LONG}: usd is 0.5 (3.23%) above each stack's best on average, at most 1 (acme)."
    ]


def test_of_equal_values_the_shorter_wait_is_the_best(plan: SweepPlan) -> None:
    swept = summary(plan, dict.fromkeys(USD, 5.0), {("acme", SHORT): 99.0, ("bolt", SHORT): 99.0})

    assert {stack.best for stack in swept.stacks} == {LONG} == {swept.best}


def test_a_setting_that_misses_a_condition_is_no_stacks_best(plan: SweepPlan) -> None:
    swept = summary(plan, waits={("bolt", LONG): 101.0})

    (_, bolt) = swept.stacks
    assert (bolt.best, swept.best) == (SHORT, SHORT)
    assert [each.meets for each in swept.settings] == [2, 1]


def test_a_stack_where_nothing_meets_the_conditions_is_named(plan: SweepPlan) -> None:
    swept = summary(plan, waits={("bolt", LONG): 101.0, ("bolt", SHORT): 101.0})

    assert (swept.stacks[1].best, swept.stacks[1].regret) == (None, None)
    assert "No setting meets the conditions on bolt." in list(notes_of(swept))


def test_a_stack_whose_dollars_are_unknown_has_no_best_and_the_figures_are_dashes(plan: SweepPlan) -> None:
    swept = summary(plan, {case: nan if case[0] == "acme" else usd for case, usd in USD.items()})
    document = json.loads(json.dumps(as_json(swept), allow_nan=False))

    assert {stack.customer: stack.best for stack in swept.stacks} == {"acme": None, "bolt": LONG}
    assert (swept.best, [each.value for each in swept.settings]) == (LONG, [30.5, 20.5])  # of bolt alone
    assert document["stacks"][0]["settings"][SHORT]["usd"] is None
    assert "usd is not known on acme: a node has no price" in " ".join(shown(swept).split())
    assert "nan" not in shown(swept)


def test_a_setting_that_cannot_hold_the_demand_keeps_no_figure_and_meets_nothing(plan: SweepPlan) -> None:
    swept = summary(plan, overloads={("acme", SHORT): "pool train needs at least 4 workers, its max is 3"})

    (acme, bolt) = swept.stacks
    assert (acme.best, bolt.best, swept.best) == (LONG, LONG, LONG)
    assert as_json(swept)["stacks"][0]["settings"][SHORT] == {
        "usd": None,
        "low": None,
        "high": None,
        "wait_p95_s": None,
        "meets": False,
    }
    assert list(notes_of(swept)) == [
        f"Demand exceeds acme ({SHORT}): pool train needs at least 4 workers, its max is 3."
    ]


def test_a_stack_that_holds_the_demand_at_no_setting_has_no_best(plan: SweepPlan) -> None:
    swept = summary(plan, overloads={("acme", SHORT): "too small", ("acme", LONG): "too small"})

    assert [stack.best for stack in swept.stacks] == [None, LONG]
    assert f"Demand exceeds acme ({SHORT} and 1 more): too small." in list(notes_of(swept))
    assert "No setting meets the conditions on acme." in list(notes_of(swept))


def test_what_is_missing_is_told_and_its_stack_counts_for_no_setting_for_all(plan: SweepPlan) -> None:
    swept = summary(plan, lost=1)

    assert swept.best == LONG
    assert [stack.customer for stack in swept.stacks if len(stack.cells) == 2] == ["bolt"]
    assert list(notes_of(swept))[:2] == [
        "Missing: 1 of 8 replays.",
        "Missing: acme on some-jobs, stabilizationWindow=30s, seed 0: no price",
    ]


def test_with_nothing_played_there_is_a_summary_too(plan: SweepPlan) -> None:
    swept = summary(plan, lost=8)

    assert (swept.best, swept.stacks, swept.replays) == (None, (), 0)
    assert "Missing: 8 of 8 replays." in shown(swept)
    assert "No setting meets" in render_sweep(swept, "command")


def test_seeds_and_settings_without_effect_are_told(plan: SweepPlan) -> None:
    same = summary(plan, dict.fromkeys(USD, 5.0), by_seed=0.0)

    told = " ".join(notes_of(same))
    assert "The seed had no effect on any figure" in told
    assert "The settings had no effect on any figure" in told
    assert not list(notes_of(summary(plan)))


def test_equal_figures_have_an_equal_digest_and_others_another(plan: SweepPlan) -> None:
    assert summary(plan).digest == summary(plan).digest
    assert summary(plan).digest != summary(plan, USD | {("acme", LONG): 11.0000001}).digest


def test_json_table_and_page_say_the_same(plan: SweepPlan) -> None:
    swept = summary(plan)
    document, text, page = as_json(swept), shown(swept), render_sweep(swept, "ebbtide sweep acme --trace x")

    assert document["best"] == LONG
    assert document["stacks"][0]["settings"][SHORT] == {
        "usd": 10.5,
        "low": 10.0,
        "high": 11.0,
        "wait_p95_s": 50.0,
        "meets": True,
    }
    for told in ("10.5 (10 to 11)", "20.5 (20 to 21)", swept.digest, regrets(swept)[0].replace("'", "&#39;")):
        assert told in page
    for told in ("10.5 (10 to 11)", "20.5 (20 to 21)", swept.digest, f"{LONG} (best)"):
        assert told in text
    assert "ebbtide sweep acme" in page
    assert page.count('class="f-k3 point"') >= 1


def shown(result: SweepSummary) -> str:
    out = console(min_width=160)
    with out.capture() as captured:
        out.print(sweep_table(result))
    return captured.get()


def test_a_page_fetches_nothing(plan: SweepPlan) -> None:
    assert "://" not in render_sweep(summary(plan), "c").replace("http://www.w3.org/2000/svg", "")
