"""The rows of the page on Karpenter's model, and when its goal is reached."""

from typing import Any

import pytest

from benchmarks.karpenter import OURS, RIVALS, lines
from ebbtide.lab.simulator.results import Strategy


def a_row(strategy: Strategy, usd: float, wait_s: float = 100.0, evictions: int = 0) -> dict[str, Any]:
    return {
        "case": {"trace": "small", "scope": "8h", "strategy": strategy},
        "usd": usd,
        "usd_on_demand": usd + 10,
        "wait_p95_s": {"train": wait_s, "vision": 50.0},
        "interrupted": 0,
        "evictions": evictions,
    }


def verdict(*ours: dict[str, Any]) -> str:
    usd = dict(zip(RIVALS, (200.0, 100.0, 101.0), strict=True))
    return [*lines([*ours, *(a_row(strategy, usd[strategy]) for strategy in RIVALS)])][-1]


def test_the_median_of_the_seeds_counts_against_the_cheapest() -> None:
    assert verdict(a_row(OURS, 90.0), a_row(OURS, 100.4), a_row(OURS, 300.0)) == (
        f"reached: 1.004 of {RIVALS[1]}; longer waits: none"
    )


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (a_row(OURS, 101.0), "1.010"),
        (a_row(OURS, 90.0, wait_s=100.1), "train"),
        (a_row(OURS, 90.0, evictions=1), "0.900"),
    ],
)
def test_more_dollars_longer_waits_and_evictions_by_day_miss_the_goal(row: dict[str, Any], found: str) -> None:
    assert verdict(row).startswith("MISSED: ")
    assert found in verdict(row)


def test_a_row_shows_medians_and_the_shortest_and_longest_wait_of_the_pools() -> None:
    rows = [a_row(OURS, 1000.0), *(a_row(strategy, 2000.0) for strategy in RIVALS)]

    assert next(lines(rows)) == "| small, up to 8h | karpenter | 1,000 | 1,010 | 50 to 100 s | 0 | 0 |"
