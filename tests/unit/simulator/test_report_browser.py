"""The report in a real browser: what only a layout engine, a keyboard and a script engine can tell."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.simulator.report import write_report
from tests.builders_browser import PROGRAM, Browser, a_browser
from tests.builders_replay import a_replay

pytestmark = [pytest.mark.long, pytest.mark.skipif(PROGRAM is None, reason="needs Chromium on PATH")]

WIDTHS = (320, 360, 400, 600, 601, 860, 861, 1160, 1161, 1280, 1699, 1700, 1920)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    replay = a_replay(samples_per_day=120)
    product = replace(
        replay.strategies["fixed-flexible"],
        survivors={"not enough pod disruption budget to move model-serving": 120.0, "above-threshold": 40.0},
        wait_p99_s=900.0,
        wait_quantiles_s=tuple(float(share) for share in range(101)),
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(replace(replay, strategies={**replay.strategies, "fixed-flexible": product}), path)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with a_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_never_scrolls_sideways_and_nobody_complains(
    browser: Browser, page: Path, width: int, *, dark: bool
) -> None:
    browser.open(page, width, dark=dark)

    assert browser.value("document.documentElement.scrollWidth") == width
    assert browser.complaints == []
    assert browser.asked_for == [page.as_uri()]


@pytest.mark.parametrize("width", WIDTHS)
def test_each_figure_shows_one_drawing_that_is_neither_cut_nor_blown_up(
    browser: Browser, page: Path, width: int
) -> None:
    browser.open(page, width)
    scales: list[list[float]] = browser.value(
        "[...document.querySelectorAll('figure')].map(figure => [...figure.querySelectorAll('svg[role=img]')]"
        ".map(svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width).filter(scale => scale > 0))"
    )

    assert [len(shown) for shown in scales] == [1] * 7
    assert all(0.7 <= scale <= 1.65 for shown in scales for scale in shown)


def test_the_paper_is_dark_only_where_the_reader_asks_for_it_and_never_in_print(browser: Browser, page: Path) -> None:
    papers: list[str] = []
    for dark, media in ((False, ""), (True, ""), (True, "print")):
        browser.open(page, 1280, dark=dark, media=media)
        papers.append(browser.value("getComputedStyle(document.querySelector('figure')).backgroundColor"))

    assert papers == ["rgb(255, 255, 255)", "rgb(19, 26, 36)", "rgb(255, 255, 255)"]


def test_a_keyboard_reaches_everything_and_sees_where_it_is(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    reached: list[str] = []
    for _ in range(60):
        browser.press("Tab")
        at: list[str] = browser.value(
            "(at => [at.tagName, getComputedStyle(at).outlineStyle, getComputedStyle(at).outlineWidth])"
            "(document.activeElement)"
        )
        if at[0] == "BODY":
            break
        assert at[1:] == ["solid", "3px"]
        reached.append(at[0])

    links = browser.value("document.querySelectorAll('a').length")
    assert [reached.count(tag) for tag in ("A", "INPUT", "SUMMARY")] == [links, 5, 7]


def test_arrow_keys_read_the_values_and_escape_hides_them(browser: Browser, page: Path) -> None:
    browser.open(page, 1280)
    browser.value("document.querySelector('#nodes input').focus()")
    before = browser.value("document.querySelector('#nodes input').getAttribute('aria-valuetext')")
    for _ in range(300):
        browser.press("ArrowRight")
    after = browser.value("document.querySelector('#nodes input').getAttribute('aria-valuetext')")
    shown = browser.value("document.querySelector('#nodes .say').textContent")
    seen = [browser.value("getComputedStyle(document.querySelector('#nodes .say')).visibility")]
    browser.press("Escape")
    seen.append(browser.value("getComputedStyle(document.querySelector('#nodes .say')).visibility"))

    assert before.startswith("Mon 2 Mar 00:0")
    assert after.startswith("Thu 5 Mar")
    assert shown.startswith(after.partition(":")[0])
    assert seen == ["visible", "hidden"]


def test_the_table_behind_a_chart_opens_by_keyboard_and_can_be_scrolled_on_a_telephone(
    browser: Browser, page: Path
) -> None:
    browser.open(page, 400)
    browser.value("document.querySelector('#nodes summary').focus()")
    browser.press("Enter")
    browser.value("new Promise(done => setTimeout(done, 50))")

    assert browser.value("document.querySelector('#nodes details').open") is True
    assert browser.value("document.querySelector('#nodes .scroll').tabIndex") == 0


@pytest.mark.parametrize("width", [400, 1280])
def test_what_is_touched_is_large_enough(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    smallest = browser.value(
        "Math.min(...[...document.querySelectorAll('nav a, summary, input')]"
        ".map(it => it.getBoundingClientRect().height))"
    )

    assert smallest >= 38


def test_without_script_charts_and_tables_are_there_and_no_slider(browser: Browser, page: Path) -> None:
    browser.open(page, 1280, script=False)

    root = browser.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    counts = [
        len(browser.call("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])
        for selector in ("figure svg[role=img]", "figure table", "input")
    ]
    assert counts == [21, 7, 0]


def test_print_leaves_out_closed_tables_and_keeps_open_ones(browser: Browser, page: Path) -> None:
    browser.open(page, 1280, media="print")
    browser.value("document.querySelector('#cost details').open = true")
    heights = "[...document.querySelectorAll('details')].map(it => it.getBoundingClientRect().height > 0)"

    assert browser.value(heights).count(True) == 1
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
