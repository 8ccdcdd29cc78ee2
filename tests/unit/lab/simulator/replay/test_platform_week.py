"""A week of the labelling platform with and without sleep, as the page about sleep has it."""

import re
from functools import cache
from itertools import product

import pytest

from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Strategy, StrategyResult
from ebbtide.lab.simulator.trace.traces import find_trace
from tests.builders.example import example
from tests.builders.replay import priced
from tests.paths import ROOT

pytestmark = pytest.mark.whole

PAGE = (ROOT / "docs" / "how-to" / "sleep.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^ *\| (awake|asleep) \| (awake|asleep) \| ([\d,]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)


@cache
def week(**states: str) -> StrategyResult:
    settings = example()
    awake = {
        name: settings.workloads[name].model_copy(update={"sleep": None})
        for name, state in states.items()
        if state == "awake"
    }
    settings = settings.model_copy(update={"workloads": {**settings.workloads, **awake}})
    options = ReplayOptions(days=7, strategies=(Strategy.FIXED_FLEXIBLE,))
    return replay(settings, find_trace("openb2023-a"), options).strategies["fixed-flexible"]


def test_the_page_has_all_four_combinations() -> None:
    assert sorted((web, api) for web, api, *_ in ROWS) == sorted(product(("awake", "asleep"), repeat=2))


@pytest.mark.parametrize(("web", "api", "hours", "usd"), ROWS)
def test_the_page_has_these_figures(web: str, api: str, hours: str, usd: str) -> None:
    result = week(web=web, api=api)

    assert (f"{result.node_hours:,.0f}", f"{priced(result.usd):.2f}") == (hours, usd)
