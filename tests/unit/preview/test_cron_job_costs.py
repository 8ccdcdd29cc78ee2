"""The node-hours of cron jobs, and their sentence in the estimate."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.preview.cost.comparison import compare_costs
from ebbtide.preview.cost.shares import node_hours
from tests.builders.settings import loaded, shortest

GROUPS = "ebbtide:nodeGroups: { flexible: { instanceTypes: [m7i.4xlarge], max: 10 } }\n"
DAY = 'image: "example.com/report:1", cpu: 3, memory: 2Gi, schedule: "0 2 * * *"'
"""Five of its pods fill a node of 16 cores."""


def hours(more: str, folder: Path, year: int = 2026) -> float:
    settings = loaded(shortest(more=f"{GROUPS}\nebbtide:cronJobs: {{ report: {{ {DAY}, {more} }} }}"), folder)
    return node_hours(settings, settings.cron_jobs["report"], year)


def said(folder: Path, *, cron: str, costs: str = "{}") -> str:
    text = f"{GROUPS}\nebbtide:costs: {costs}\nebbtide:cronJobs: {{ {cron} }}"
    return compare_costs(None, loaded(shortest(more=text), folder), date(2026, 6, 1)).confidence


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("longestRun: 2h, runTakes: 30m", 730 / 24 * 0.5 / 5),
        ("longestRun: 2h", 730 / 24 * 2 / 5),
        ("longestRun: 2h, completions: 4, parallelism: 4", 730 / 24 * 8 / 5),
        ("longestRun: 2h, completions: 4", 730 / 24 * 2 / 5),
        ("longestRun: 48h", 730 / 5),  # one after the other, so never two
        ("longestRun: 48h, concurrency: allow", 2 * 730 / 5),
    ],
)
def test_a_month_by_hand(more: str, expected: float, tmp_path: Path) -> None:
    assert hours(more, tmp_path) == pytest.approx(expected)


def test_a_schedule_counts_with_all_its_times_of_the_year(tmp_path: Path) -> None:
    text = DAY.replace("0 2 * * *", "0,30 2,14 29 2 *")
    more = f"{GROUPS}\nebbtide:cronJobs: {{ report: {{ {text}, longestRun: 10m }} }}"
    settings = loaded(shortest(more=more), tmp_path)
    job = settings.cron_jobs["report"]

    assert node_hours(settings, job, 2026) == 0
    assert node_hours(settings, job, 2028) == pytest.approx(4 / 6 / 366 / 24 * 730 / 5)


def test_the_estimate_says_what_cron_jobs_fill_and_by_which_assumption(tmp_path: Path) -> None:
    cron = f"known: {{ {DAY}, longestRun: 2h, runTakes: 1h }}, unknown: {{ {DAY}, longestRun: 2h }}"

    found = said(tmp_path, cron=cron)

    assert "; cron jobs fill about 18 node-hours a month of flexible (known, unknown at its longestRun)" in found
    assert ", included in its line; " in found


def test_a_stated_usage_below_what_cron_jobs_fill_is_told(tmp_path: Path) -> None:
    cron = f"report: {{ {DAY}, longestRun: 2h }}"

    few = said(tmp_path, cron=cron, costs="{ expectedNodeHours: { flexible: 10 } }")
    enough = said(tmp_path, cron=cron, costs="{ expectedNodeHours: { flexible: 100 } }")

    assert "more than the 10 that costs.expectedNodeHours states" in few
    assert "that costs.expectedNodeHours states" not in enough


def test_nothing_is_said_without_cron_jobs_that_run(tmp_path: Path) -> None:
    cron = f"report: {{ {DAY}, longestRun: 2h, suspended: true }}"

    assert "cron jobs" not in said(tmp_path, cron=cron)


def test_a_run_of_minutes_is_less_than_a_node_hour(tmp_path: Path) -> None:
    text = DAY.replace("0 2 * * *", "0 2 1 * *")

    assert "fill less than 1 node-hour a month" in said(tmp_path, cron=f"report: {{ {text}, longestRun: 5m }}")
