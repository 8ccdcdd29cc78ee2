from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.report.charts.palette import (
    CHART_CSS,
    DARK,
    LIGHT,
    MARKS,
    group_inks,
    job_inks,
    literal,
    strategy_inks,
)
from ebbtide.lab.simulator.results import Strategy

PAPERS = pytest.mark.parametrize("inks", [LIGHT, DARK], ids=["light", "dark"])


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(ink: str, paper: str) -> float:
    darker, lighter = sorted((luminance(ink), luminance(paper)))
    return (lighter + 0.05) / (darker + 0.05)


@PAPERS
def test_marks_stand_out_from_their_paper(inks: Mapping[str, str]) -> None:
    marks = {name: contrast(inks[name], inks["paper"]) for name in MARKS}

    assert {name for name, ratio in marks.items() if ratio < 3} == set()


@PAPERS
@pytest.mark.parametrize("text", ["text", "quiet"])
@pytest.mark.parametrize("ground", ["paper", "open", "ground", "code"])
def test_text_can_be_read_on_every_ground(inks: Mapping[str, str], text: str, ground: str) -> None:
    assert contrast(inks[text], inks[ground]) >= 4.5


@PAPERS
@pytest.mark.parametrize("ground", ["paper", "ground"])
def test_links_and_the_ring_of_focus_stand_out(inks: Mapping[str, str], ground: str) -> None:
    assert contrast(inks["accent"], inks[ground]) >= 4.5


@PAPERS
def test_levels_and_crosshairs_stand_out_from_paper_and_shade(inks: Mapping[str, str]) -> None:
    assert min(contrast(inks["mark"], inks[ground]) for ground in ("paper", "open")) >= 4.5


@PAPERS
def test_stacked_neighbours_differ_in_lightness(inks: Mapping[str, str]) -> None:
    steps = [contrast(inks[f"g{place}"], inks[f"g{place + 1}"]) for place in range(3)]

    assert min(steps) >= 1.2


def test_known_names_come_first_and_keep_their_inks() -> None:
    assert group_inks(["zoo", "gpu", "fixed"]) == {"fixed": "g0", "gpu": "g2", "zoo": "g5"}
    assert list(strategy_inks(["mine", "fixed-flexible", "keda-defaults", "fixed-fleet"])) == [
        "fixed-fleet",
        "keda-defaults",
        "fixed-flexible",
        "mine",
    ]


def test_up_to_eight_names_have_inks_of_their_own() -> None:
    names = ["fixed", "spot", *(f"pool-{number}" for number in range(6))]

    assert len(set(group_inks(names).values())) == 8


@pytest.mark.parametrize("others", range(9))
def test_the_jobs_of_a_day_have_inks_that_none_of_its_groups_has(others: int) -> None:
    groups = ["fixed", "flexible", "gpu", *(f"flexible/type-{number}" for number in range(others))]

    inks = [*group_inks(groups).values(), *job_inks(groups).values()]

    assert len(set(inks)) == len(groups) + 2


def test_every_strategy_of_the_simulator_has_an_ink_of_its_own() -> None:
    inks = strategy_inks([strategy.value for strategy in Strategy])

    assert len(set(inks.values())) == len(Strategy)
    assert strategy_inks(["mine"])["mine"] not in inks.values()


@given(names=st.lists(st.text(max_size=4), max_size=20))
def test_every_name_has_an_ink_that_the_style_knows(names: list[str]) -> None:
    inks = group_inks(names)

    assert set(inks) == set(names)
    assert set(inks.values()) <= set(LIGHT)


def test_literal_style_has_no_variables_left() -> None:
    css = literal(CHART_CSS, LIGHT)

    assert "var(" not in css
    assert LIGHT["g2"] in css


def test_both_papers_define_the_same_inks() -> None:
    assert set(LIGHT) == set(DARK)
