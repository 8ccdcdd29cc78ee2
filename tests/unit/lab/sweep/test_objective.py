"""The objective: a figure to make small, and conditions against numbers and strategies."""

import pytest

from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.sweep.objective import FIGURES, ObjectiveError, read_objective

ROWS = {"fixed-flexible": {"usd": 10.0, "wait_p95_s": 90.0}, "keda-defaults": {"usd": 12.0, "wait_p95_s": 60.0}}


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("usd", True),
        ("usd where wait_p95_s <= 90", True),
        ("usd where wait_p95_s < 90", False),
        ("usd where wait_p95_s <= keda-defaults", False),
        ("usd where wait_p95_s <= keda-defaults + 30", True),
        ("usd where usd <= keda-defaults and wait_p95_s > keda-defaults", True),
        ("usd where wait_p95_s >= keda-defaults.usd", True),
    ],
)
def test_a_setting_meets_all_conditions_or_it_does_not(text: str, met: bool) -> None:
    objective = read_objective(text)

    assert objective.met(ROWS["fixed-flexible"], ROWS) is met
    assert read_objective(str(objective)) == objective


def test_a_figure_that_is_not_known_meets_nothing() -> None:
    objective = read_objective("usd where usd_with_spot <= 5")

    assert not objective.met({"usd": 1.0, "usd_with_spot": None}, {})


def test_strategies_that_are_named_are_played() -> None:
    objective = read_objective("usd where wait_p95_s <= fixed-fleet and usd <= fixed-fleet and usd < keda-defaults")

    assert objective.strategies == (Strategy.FIXED_FLEET, Strategy.KEDA_DEFAULTS)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ObjectiveError) as error:
        read_objective("dollars where wait_p95 <= 3 and wait_p95_s <= fixed-fleat and whatever")

    lines = str(error.value).splitlines()
    assert [line.partition("found ")[2].partition(" (")[0].partition(";")[0] for line in lines] == [
        "'dollars'",
        "'wait_p95'",
        "'fixed-fleat'",
        "'whatever'",
    ]


def test_figures_are_the_plain_numbers_of_the_json() -> None:
    assert {"usd", "wait_p95_s", "usd_with_spot", "jobs_interrupted"} <= set(FIGURES)
    assert not {"series", "node_hours_by_group", "ray"} & set(FIGURES)
