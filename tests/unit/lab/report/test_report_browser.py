"""The report in a real browser: checks that need a layout engine, a keyboard and a script engine."""

import json
import os
import shutil
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.lab.advice.describe_requests import describe_requests, load_sheet
from ebbtide.lab.report import write_report
from ebbtide.lab.report.pages.service_page import write_service_report
from tests.builders.replay import a_replay
from tests.builders.workloads.played import a_request_trace
from tests.builders.workloads.served import a_served_replay

_NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next((path for path in map(shutil.which, _NAMES) if path), None)
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowRight": 39}


class Browser:
    """One page. `complaints` are messages of its console and policies since it was opened."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._session: dict[str, str] = {}
        self._buffer, self._sent = b"", 0
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters, **self._session}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._answers, 1 << 20)
            assert chunk, "the browser is gone"
            self._buffer += chunk
        first, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(first)

    def open(self, page: Path, width: int, *, dark: bool = False, script: bool = True, media: str = "") -> None:
        """Load the page at a width of so many pixels and wait until it is there."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self._events.clear()
        self.call("Page.navigate", url=page.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())

    @property
    def complaints(self) -> list[dict[str, Any]]:
        return [event for event in self._events if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]

    @property
    def asked_for(self) -> list[str]:
        """The addresses that the page asked for, itself first."""
        requests = [event for event in self._events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in requests]

    def value(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        kind = {"type": "keyDown", "text": "\r"} if key == "Enter" else {"type": "rawKeyDown"}
        for event in (kind, {"type": "keyUp"}):
            self.call("Input.dispatchKeyEvent", key=key, code=key, windowsVirtualKeyCode=_KEYS[key], **event)


@contextmanager
def a_browser(folder: Path) -> Generator[Browser]:
    """Chromium with a profile in `folder`. It reads commands from descriptor 3 and answers on 4."""
    assert PROGRAM is not None
    theirs_in, commands = os.pipe()
    answers, theirs_out = os.pipe()
    start = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", start, PROGRAM, *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        browser = Browser(commands, answers)
        yield browser
    finally:
        os.close(commands)  # the browser ends when nobody can command it any more
        os.close(answers)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
def service_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("service") / "service.html"
    load = load_sheet(describe_requests(a_request_trace([60.0, 90.0] * 72)))
    write_service_report(a_served_replay(), path, "ebbtide simulate acme --service embedder-small", load=load)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with a_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_never_scrolls_sideways_and_logs_no_errors(
    browser: Browser, page: Path, width: int, *, dark: bool
) -> None:
    browser.open(page, width, dark=dark)

    assert browser.value("document.documentElement.scrollWidth") == width
    assert browser.complaints == []
    assert browser.asked_for == [page.as_uri()]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 400, 860, 1280, 1920])
def test_the_page_of_a_service_fits_too_and_its_slider_reads_the_day(
    browser: Browser, service_page: Path, width: int, *, dark: bool
) -> None:
    browser.open(service_page, width, dark=dark)
    browser.value("document.querySelector('#day input').focus()")
    first = browser.value("document.querySelector('#day input').getAttribute('aria-valuetext')")
    browser.press("ArrowRight")

    assert browser.value("document.documentElement.scrollWidth") == width
    assert browser.complaints == []
    assert browser.asked_for == [service_page.as_uri()]
    assert first.startswith("Tue 2 Jun 00:00: requests a second ")
    assert "hpa-only: pods ready 2 of 2" in first
    assert browser.value("document.querySelector('#day input').getAttribute('aria-valuetext')").startswith(
        "Tue 2 Jun 00:05"
    )


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
    visibility = [browser.value("getComputedStyle(document.querySelector('#nodes .say')).visibility")]
    browser.press("Escape")
    visibility.append(browser.value("getComputedStyle(document.querySelector('#nodes .say')).visibility"))

    assert before.startswith("Mon 2 Mar 00:0")
    assert after.startswith("Thu 5 Mar")
    assert shown.startswith(after.partition(":")[0])
    assert visibility == ["visible", "hidden"]


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


@pytest.mark.parametrize("dark", [False, True])
def test_a_telephone_shows_savings_and_a_shade_where_a_table_goes_on(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, 390, dark=dark)

    table = "document.querySelector('#compared .scroll')"
    edges = f"(({table}).scrollWidth > ({table}).clientWidth) && getComputedStyle({table}).backgroundImage"
    heading = "[...document.querySelectorAll('#compared th')].find(th => th.textContent.startsWith('saving'))"
    assert browser.value(f"{heading}.getBoundingClientRect().right <= {table}.getBoundingClientRect().right")
    assert browser.value(edges).count("linear-gradient") == 4
