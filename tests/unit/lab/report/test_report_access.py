"""Accessibility of the page, as far as it can be checked without a browser: contrast, structure, print and keyboard."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from ebbtide.lab.report.pages.figures import WIDTHS, figures
from ebbtide.lab.report.pages.page import render
from ebbtide.lab.simulator.results import Replay, StrategyResult
from tests.builders.replay import a_replay, priced
from tests.unit.lab.report.looking import outline, words_outside, words_overlapping


def odd_replays() -> Mapping[str, Replay]:
    """Short, long, large and narrow replays, whose words no chart may cut."""
    week = a_replay(samples_per_day=20)
    product = replace(
        week.strategies["fixed-flexible"],
        survivors={"not enough pod disruption budget to move model-serving-behind-the-gateway": 120.0, "x": 1.0},
        wait_p99_s=9e5,
        wait_quantiles_s=tuple(float(share**3) for share in range(101)),
    )
    idle = (0,) * len(product.series.at)
    groups = {f"flexible-pool-{place}": product.series.nodes["gpu"] for place in range(6)}
    return {
        "week": replace(week, strategies={**week.strategies, "fixed-flexible": product}),
        "day": a_replay(days=1, samples_per_day=60),
        "four weeks": a_replay(days=28, samples_per_day=10),
        "large": grown(week, 8.0),
        "huge": grown(week, 1e5),
        "six groups": only(week, product, nodes=groups),
        "gpu only": only(week, product, nodes={"gpu": product.series.nodes["gpu"]}),
        "idle": only(replace(week, open_spans=()), replace(product, usd=0.0, usd_per_day=(0.0,) * 7), waiting=idle),
    }


def grown(replay: Replay, times: float) -> Replay:
    """The same with other dollars and node-hours."""
    return replace(
        replay,
        strategies={
            name: replace(
                result,
                usd=priced(result.usd) * times,
                usd_per_day=tuple(usd * times for usd in result.usd_per_day),
                node_hours=result.node_hours * times,
            )
            for name, result in replay.strategies.items()
        },
    )


def only(replay: Replay, product: StrategyResult, **series: object) -> Replay:
    changed = replace(product.series, **series)  # pyright: ignore[reportArgumentType] - the fields are the caller's
    return replace(replay, strategies={"fixed-flexible": replace(product, series=changed)})


REPLAYS = odd_replays()
PAGE = render(REPLAYS["week"], live={"jobs done": "12"}, title="Ebbtide replay")


OUTLINE = outline(PAGE)


def found(*tags: str) -> list[dict[str, str]]:
    return [attributes for tag, attributes, _ in OUTLINE.tags if tag in tags]


def test_every_tag_that_opens_is_closed_in_order() -> None:
    assert OUTLINE.around == []


def test_headings_leave_no_level_out() -> None:
    levels = [int(tag[1]) for tag, _, _ in OUTLINE.tags if re.fullmatch(r"h[1-6]", tag)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(following <= level + 1 for level, following in pairwise(levels))


def test_the_first_thing_a_keyboard_reaches_skips_to_the_results() -> None:
    first = next((tag, attributes) for tag, attributes, _ in OUTLINE.tags if tag in ("a", "button", "input", "summary"))

    assert first == ("a", {"class": "skip", "href": "#main"})
    assert found("main") == [{"id": "main", "tabindex": "-1"}]


def test_there_is_one_landmark_of_each_kind_and_the_page_has_a_language() -> None:
    assert [len(found(tag)) for tag in ("header", "nav", "main", "footer")] == [1, 1, 1, 1]
    assert found("html") == [{"lang": "en"}]


def test_every_link_and_every_label_leads_to_something() -> None:
    ids = {attributes["id"] for _, attributes, _ in OUTLINE.tags if "id" in attributes}
    links = {attributes["href"].removeprefix("#") for attributes in found("a")}
    labels = {name for _, attributes, _ in OUTLINE.tags for name in attributes.get("aria-labelledby", "").split()}

    assert links | labels <= ids
    assert {"limits", "compared", "nodes", "day", "kept", "assumed"} <= links


def test_every_picture_has_a_name_or_is_left_out_of_speech() -> None:
    for attributes in found("svg"):
        assert attributes.get("aria-hidden") == "true" or attributes.get("role") == "img"


def test_behind_each_figure_is_a_table_with_named_rows_and_columns() -> None:
    for figure in re.findall(r"<figure.*?</figure>", PAGE, flags=re.DOTALL):
        table = figure.partition("<details><summary>")[2].partition("</details>")[0]
        assert table.count("<caption>") == 1
        assert table.count('<th scope="row">') >= 1
        assert table.count('<th scope="col">') >= 2


def test_a_table_that_scrolls_can_be_scrolled_by_keyboard_and_has_a_name() -> None:
    scrolled = [attributes for attributes in found("div") if attributes.get("class") == "scroll"]

    assert len(scrolled) == len(found("table")) > 0
    assert all(area.get("tabindex") == "0" and area.get("role") == "region" for area in scrolled)
    assert len({area["aria-label"] for area in scrolled}) == len(scrolled)


def test_only_this_style_and_this_script_may_run() -> None:
    policy = next(a["content"] for a in found("meta") if a.get("http-equiv") == "Content-Security-Policy")
    style = re.findall(r"<style>(.*?)</style>", PAGE, flags=re.DOTALL)
    script = re.findall(r"<script>(.*?)</script>", PAGE, flags=re.DOTALL)

    for kind, (text,) in (("style-src", style), ("script-src", script)):
        digest = b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not [attributes for _, attributes, _ in OUTLINE.tags if "style" in attributes]


def test_motion_dark_paper_and_print_are_asked_for_by_the_reader() -> None:
    style = PAGE.partition("<style>")[2].partition("</style>")[0]

    assert "@media screen and (prefers-color-scheme:dark)" in style
    assert "prefers-reduced-motion: no-preference" in style
    assert "@media print" in style
    assert not re.search(r"\b(animation|transition)\s*:", style)


@pytest.mark.parametrize("replay", REPLAYS.values(), ids=REPLAYS)
def test_no_words_of_a_chart_leave_its_picture(replay: Replay) -> None:
    for figure in figures(replay, "fixed-flexible"):
        for form, picture in figure.pictures.items():
            assert not words_outside(picture, WIDTHS[form]), (figure.name, form)


@pytest.mark.parametrize("replay", REPLAYS.values(), ids=REPLAYS)
def test_no_two_words_on_one_line_of_a_chart_overlap(replay: Replay) -> None:
    for figure in figures(replay, "fixed-flexible"):
        for form, picture in figure.pictures.items():
            assert not words_overlapping(picture), (figure.name, form)
