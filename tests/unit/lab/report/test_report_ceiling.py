"""What the page says that a saving cannot reach."""

from dataclasses import replace

import pytest

from ebbtide.lab.report.charts.scales import ChartWindow
from ebbtide.lab.report.pages.ceiling import ceiling_lines, outside_share
from ebbtide.lab.report.pages.sentences import attainable_line, reached_of
from ebbtide.lab.simulator.results import ClusterSeries, Overload, Replay
from tests.builders.replay import START, a_replay

REPLAY = a_replay(samples_per_day=40)
PRODUCT = REPLAY.strategies["fixed-flexible"]


def bounded(*, attainable: float, saving: float, fleet_usd: float = 1000.0) -> Replay:
    """Build a replay whose fleet, product and bound have these shares of the cost."""
    fleet = replace(REPLAY.strategies["fixed-fleet"], usd=fleet_usd)
    product = replace(PRODUCT, usd=fleet_usd * (1 - saving), node_hours=120.0, saving_vs_fixed_fleet=saving)
    bound = replace(PRODUCT, usd=fleet_usd * (1 - attainable), node_hours=100.0, saving_vs_fixed_fleet=attainable)
    return replace(
        REPLAY,
        attainable=attainable,
        strategies={"fixed-fleet": fleet, "fixed-flexible": product, "zero-wait-bound": bound},
    )


def plain(lines: list[str]) -> str:
    return " ".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def test_a_saving_above_the_attainable_one_is_explained() -> None:
    assert "saves more, 120 % of what is attainable, because some jobs wait for a worker" in plain(
        ceiling_lines(bounded(attainable=0.3, saving=0.36))
    )


def test_where_nothing_is_attainable_no_share_of_it_is_quoted() -> None:
    assert reached_of(bounded(attainable=-0.1, saving=-0.2), "fixed-flexible") is None


def test_an_overload_leaves_no_word_of_a_saving_or_of_an_attainable_one() -> None:
    """Not even from the dollars of fleet and bound, which such a replay has, too."""
    overloaded = replace(
        bounded(attainable=0.5, saving=0.4),
        attainable=None,
        overloads=(Overload(name="train", max=12, node_group=None, needed=87),),
    )

    text = plain(ceiling_lines(overloaded))
    assert text.startswith("Demand exceeds the stack: pool train needs at least 87 workers, its max is 12.")
    assert "attainable" not in text
    assert "would save" not in text
    assert attainable_line(overloaded) is None


def test_the_gap_to_the_bound_is_in_dollars_and_node_hours() -> None:
    sentence = plain(ceiling_lines(bounded(attainable=0.5, saving=0.4)))

    assert "at least $500 of the fixed fleet's $1,000 has to be paid, so 50 % is attainable" in sentence
    assert "reaches 80 % of what is attainable" in sentence
    assert "$100 more than the bound: 1.20 times the bound's node-hours" in sentence


def priced_on_demand(replay: Replay, **usd: float) -> Replay:
    """The same with the dollars that each strategy would pay without a commitment, `-` in its name written `_`."""
    named = {name.replace("_", "-"): amount for name, amount in usd.items()}
    return replace(
        replay,
        strategies={name: replace(result, usd_on_demand=named[name]) for name, result in replay.strategies.items()},
    )


def test_the_effects_of_a_commitment_and_of_scheduling_are_separate() -> None:
    """Of $100 above the bound, 20 are there on demand as well; on demand 38 % is saved of 40 % attainable."""
    replay = bounded(attainable=0.5, saving=0.4)
    sentence = plain(
        ceiling_lines(priced_on_demand(replay, fixed_fleet=1000.0, fixed_flexible=620.0, zero_wait_bound=600.0))
    )

    assert "On demand the difference would be $20.00: 1.20 times the bound's node-hours" in sentence
    assert "The remaining $80.00 is due to the commitment" in sentence
    assert "by scheduling alone, it would save 38 % of a fleet's dollars, of 40 % attainable" in sentence


def test_without_a_commitment_the_page_mentions_none() -> None:
    replay = bounded(attainable=0.5, saving=0.4)
    sentence = plain(
        ceiling_lines(priced_on_demand(replay, fixed_fleet=1000.0, fixed_flexible=600.0, zero_wait_bound=500.0))
    )

    assert "commitment" not in sentence
    assert "on demand" not in sentence


def test_without_the_fleet_the_attainable_saving_is_a_share() -> None:
    alone = replace(REPLAY, attainable=0.5, strategies={"fixed-flexible": PRODUCT})

    assert "at least 50 % of the fixed fleet's dollars has to be paid, so 50 % is attainable" in plain(
        ceiling_lines(alone)
    )


def test_without_a_known_attainable_saving_none_is_shown() -> None:
    assert "attainable" not in plain(ceiling_lines(REPLAY))


def test_the_reason_that_kept_most_nodes_is_named() -> None:
    product = replace(
        PRODUCT, survivors={"above-threshold": 30.0, "not enough pod disruption budget to move api": 90.0}
    )
    sentence = plain(ceiling_lines(replace(REPLAY, strategies={"fixed-flexible": product})))

    assert (
        "120 node-hours were retained in the disruption window, 75 % of them for one reason: not enough pod" in sentence
    )


@pytest.mark.parametrize(
    ("running", "share"), [((4, 0, 0), 0.0), ((0, 4, 0), 1.0), ((4, 4, 0), 2 / 3), ((0, 0, 0), None)]
)
def test_running_time_is_split_by_business_hours(running: tuple[int, ...], share: float | None) -> None:
    """Jobs run in the first hour, which is open, in the two that follow, which are closed, or never."""
    series = ClusterSeries(at=(0.0, 3600.0, 10_800.0), nodes={}, waiting=(0, 0, 0), running=running)
    stretch = ChartWindow(start=START, horizon=14_400.0, open_spans=((0.0, 3600.0),), series=series)

    assert outside_share(stretch) == (None if share is None else pytest.approx(share))


def test_an_empty_replay_has_nothing_to_say() -> None:
    assert ceiling_lines(replace(REPLAY, strategies={})) == []
