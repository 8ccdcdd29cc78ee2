from dataclasses import replace

import pytest
from rich.console import Console

from ebbtide.simulator.report import strategy_table
from ebbtide.simulator.report.sentences import command
from ebbtide.simulator.report.table import HEADINGS, strategy_rows
from ebbtide.simulator.report.words import short
from ebbtide.simulator.results import Replay
from tests.builders_replay import a_replay

REPLAY = a_replay(samples_per_day=40)


def printed(replay: Replay, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(strategy_table(replay))
    return capture.get()


def test_strategies_stand_in_the_order_in_which_they_build_on_each_other() -> None:
    turned = replace(REPLAY, strategies=dict(reversed(list(REPLAY.strategies.items()))))

    assert [row.strategy for row in strategy_rows(turned)] == [
        "fixed-fleet",
        "worker-autoscaling",
        "cluster-autoscaling",
        "fixed-flexible",
    ]


def test_a_row_says_hours_dollars_saving_waits_interruptions_and_evictions() -> None:
    result = replace(
        REPLAY.strategies["fixed-flexible"],
        node_hours=1204.6,
        usd=1351.2,
        saving_vs_fixed_fleet=0.7196,
        wait_p50_s=38.0,
        wait_p95_s=224.0,
        jobs_interrupted=2,
        evictions_in_window=63,
        evictions_in_business_hours=1,
    )
    (row,) = strategy_rows(replace(REPLAY, strategies={"fixed-flexible": result}))

    assert row.cells == ("1,205", "$1,351", "72 %", "38 s", "3 min 44 s", "2", "63", "1")


def test_the_fixed_fleet_is_not_said_to_save_against_itself() -> None:
    fleet = strategy_rows(REPLAY)[0]

    assert fleet.cells[2] == "\N{EN DASH}"


def test_eighty_columns_cut_no_figure() -> None:
    results = {
        name: replace(result, usd=123_456.0, wait_p50_s=154.0, wait_p95_s=7500.0)
        for name, result in REPLAY.strategies.items()
    }
    replay = replace(REPLAY, strategies=results)
    text = printed(replay)

    assert "…" not in text
    for row in strategy_rows(replay):
        line = next(line for line in text.splitlines() if line.startswith(row.strategy))
        assert line.split() == " ".join((row.strategy, *map(short, row.cells[:6]), "/".join(row.cells[6:]))).split()


def test_the_caption_says_coverage_days_start_and_assumptions() -> None:
    text = " ".join(printed(REPLAY, width=200).split())

    assert "87 % of the trace's jobs, 61 % of its CPU-hours" in text
    assert "7 days from Mon 2 Mar 2026, 00:00 (America/New_York)" in text
    assert all(assumption in text for assumption in REPLAY.assumptions)


@pytest.mark.parametrize(("limit", "said"), [(None, "jobs of every length"), (8 * 3600.0, "jobs up to 8 h 00 min")])
def test_the_caption_says_which_jobs_were_replayed(limit: float | None, said: str) -> None:
    assert said in printed(replace(REPLAY, max_job_s=limit))


def test_a_name_that_looks_like_markup_is_shown_as_it_is() -> None:
    assert "[red]acme[/]" in printed(replace(REPLAY, stack="[red]acme[/]"))


def test_a_replay_without_strategies_has_an_empty_table() -> None:
    table = strategy_table(replace(REPLAY, strategies={}))

    assert table.row_count == 0


def test_the_saving_is_not_said_to_be_at_an_equal_wait() -> None:
    """The smallest fleet that waits no longer may wait far less: fleets come in whole nodes."""
    text = " ".join(printed(REPLAY, width=200).split())

    assert "saving vs fixed fleet (p95 not worse)" in HEADINGS
    assert "smallest fixed fleet whose p95 wait is not above that of fixed-flexible" in text
    assert "equal" not in text


def test_a_replay_without_rollouts_is_repeated_without_them() -> None:
    assert "--no-rollouts" in command(replace(REPLAY, rollouts=False))
    assert "--no-rollouts" not in command(REPLAY)
