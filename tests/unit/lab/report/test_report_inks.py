"""Every strategy and many groups, drawn for light and for dark paper: each mark has its ink, and no two share one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import pytest

from ebbtide.lab.report.charts.palette import CHART_CSS, DARK, LIGHT, literal, strategy_inks
from ebbtide.lab.report.pages.figures import Figure, figures
from ebbtide.lab.simulator.results import Replay, Strategy
from tests.builders.replay import a_replay
from tests.unit.lab.report.looking import SVG

PAPERS = pytest.mark.parametrize("inks", [LIGHT, DARK], ids=["light", "dark"])


@cache
def every_strategy() -> Replay:
    """A stack with Karpenter groups: a group for each instance type."""
    replay = a_replay(samples_per_day=20, strategies=[strategy.value for strategy in Strategy])
    product = replay.strategies[Strategy.FIXED_FLEXIBLE]
    nodes = product.series.nodes["gpu"]
    types = {f"flexible/m7i.{size}xlarge": nodes for size in (1, 2, 4, 8, 12, 16, 24)}
    series = replace(product.series, nodes={**product.series.nodes, **types})
    return replace(replay, strategies={**replay.strategies, Strategy.FIXED_FLEXIBLE: replace(product, series=series)})


@cache
def drawings() -> list[Figure]:
    return [*figures(every_strategy(), Strategy.FIXED_FLEXIBLE)]


def rules(inks: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The declarations of each class."""
    found: dict[str, dict[str, str]] = {}
    for names, body in re.findall(r"([^{}]+)\{([^{}]*)\}", literal(CHART_CSS, inks)):
        declared = dict(part.split(":", 1) for part in body.split(";") if part)
        for name in re.findall(r"\.([\w-]+)", names):
            found.setdefault(name, {}).update(declared)
    return found


def drawn(picture: str, inks: Mapping[str, str]) -> Iterator[tuple[ElementTree.Element, str]]:
    """Each mark with the colour that it is painted in; "" for one that the style does not know, which is black."""
    known = rules(inks)
    for element in ElementTree.fromstring(str(picture)).iter():
        names = (element.get("class") or "").split()
        if any(re.match(r"[fs]-[gk]\d", name) for name in names):
            part = "fill" if any(name.startswith("f-") for name in names) else "stroke"
            declared = {key: value for name in names for key, value in known.get(name, {}).items()}
            yield element, declared.get(part, "")


@PAPERS
def test_every_mark_is_painted_in_an_ink_of_its_paper(inks: Mapping[str, str]) -> None:
    colours = {
        (figure.name, element.get("class"), colour)
        for figure in drawings()
        for picture in figure.pictures.values()
        for element, colour in drawn(picture, inks)
    }

    assert len(colours) > len(Strategy)
    assert {mark for mark in colours if mark[2] not in inks.values()} == set()


@PAPERS
@pytest.mark.parametrize("name", ["waits", "strip", "cost"])
def test_no_two_strategies_are_drawn_alike(inks: Mapping[str, str], name: str) -> None:
    (figure,) = (figure for figure in drawings() if figure.name == name)
    drawn_there = [each for each in every_strategy().strategies if (name, each) != ("waits", "zero-wait-bound")]
    expected = {inks[strategy_inks([each])[each]] for each in drawn_there}

    assert len(expected) == len(drawn_there)
    for picture in figure.pictures.values():
        assert {colour for _, colour in drawn(picture, inks)} == expected


def test_every_mark_has_another_ink_on_dark_paper() -> None:
    for figure in drawings():
        for picture in figure.pictures.values():
            both = zip(drawn(picture, LIGHT), drawn(picture, DARK), strict=True)
            assert [mark.get("class") for (mark, light), (_, dark) in both if light == dark] == []


def test_no_legend_has_one_ink_twice() -> None:
    for figure in drawings():
        for picture in figure.pictures.values():
            root = ElementTree.fromstring(str(picture))
            swatches = [
                rect.get("class")
                for rect in root.iter(f"{SVG}rect")
                if re.match(r"f-", rect.get("class") or "") and rect.get("width") == rect.get("height")
            ]
            assert len(swatches) == len(set(swatches)), figure.name
