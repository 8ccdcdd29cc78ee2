from dataclasses import replace

import pytest
from rich.console import Console

from ebbtide.lab.report import strategy_table
from ebbtide.lab.report.pages.sentences import command
from ebbtide.lab.report.pages.table import HEADINGS, SAVING, StrategyRow, comparison_sheets, strategy_rows
from ebbtide.lab.simulator.results import Overload, PoolResult, Replay
from ebbtide.text.durations import short
from tests.builders.replay import a_replay

REPLAY = a_replay(samples_per_day=40)


def printed(replay: Replay, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(strategy_table(replay))
    return capture.get()


def words_of(row: StrategyRow, *headings: str) -> list[str]:
    """What a line of the terminal says, whatever the spaces between."""
    evictions = f"{row.cells['evictions in window']}/{row.cells['evictions in business hours']}"
    return " ".join((row.strategy, *(short(row.cells[heading]) for heading in headings), evictions)).split()


def test_a_trace_named_like_its_stack_is_not_named_twice() -> None:
    assert "mumbai on its trace" in printed(replace(REPLAY, stack="mumbai", trace="mumbai"))
    assert f"{REPLAY.stack} on {REPLAY.trace}" in printed(REPLAY)


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
        usd_on_demand=1701.9,
        usd_with_spot=1100.4,
        wait_p99_s=540.0,
        lost_work_s=5400.0,
        saving_vs_fixed_fleet=0.7196,
        wait_p50_s=38.0,
        wait_p95_s=224.0,
        jobs_interrupted=2,
        evictions_in_window=63,
        evictions_in_business_hours=1,
    )
    (row,) = strategy_rows(replace(REPLAY, attainable=0.8, strategies={"fixed-flexible": result}))

    assert [row.cells[heading] for heading in HEADINGS] == [
        "1,205",
        "$1,351",
        "$1,702",
        "$1,100",
        "72 %",
        "90 %",
        "38 s",
        "3 min 44 s",
        "9 min 00 s",
        "3",
        "2",
        "1 h 30 min",
        "63",
        "1",
    ]


def test_the_fixed_fleet_has_no_saving_against_itself() -> None:
    fleet = strategy_rows(REPLAY)[0]

    assert fleet.cells[SAVING] == "\N{EN DASH}"


def test_a_figure_that_is_not_known_is_a_dash() -> None:
    product = strategy_rows(REPLAY)[-1]

    unknown = ("on demand", "with spot", "share of attainable", "wait p99")
    assert [product.cells[heading] for heading in unknown] == ["\N{EN DASH}"] * 4


def test_a_saving_at_a_worse_wait_is_marked_and_explained() -> None:
    slow = replace(REPLAY.strategies["cluster-autoscaling"], wait_p95_s=600.0)
    text = printed(replace(REPLAY, strategies={**REPLAY.strategies, "cluster-autoscaling": slow}), width=200)

    marked = [line.split()[0] for line in text.splitlines() if "%*" in line]
    assert marked == ["cluster-autoscaling"]
    assert "* The p95 wait is worse than that of fixed-flexible" in text
    assert "*" not in printed(REPLAY)


def test_no_share_of_the_attainable_is_quoted_at_a_worse_wait() -> None:
    slow = replace(REPLAY.strategies["cluster-autoscaling"], wait_p95_s=600.0)
    replay = replace(REPLAY, attainable=0.8, strategies={**REPLAY.strategies, "cluster-autoscaling": slow})

    shares = {row.strategy: row.cells["share of attainable"] for row in strategy_rows(replay)}
    assert shares["cluster-autoscaling"] == "\N{EN DASH}"
    assert shares["worker-autoscaling"].endswith("%")


def test_a_loss_is_no_share_of_the_attainable() -> None:
    dear = replace(REPLAY.strategies["worker-autoscaling"], saving_vs_fixed_fleet=-0.4)
    (row,) = strategy_rows(replace(REPLAY, attainable=0.8, strategies={"worker-autoscaling": dear}))

    assert row.cells["share of attainable"] == "\N{EN DASH}"


def test_an_overload_comes_first_and_leaves_no_saving() -> None:
    results = {name: replace(result, saving_vs_fixed_fleet=None) for name, result in REPLAY.strategies.items()}
    overload = Overload(name="train", max=12, node_group=None, needed=87)
    text = printed(replace(REPLAY, attainable=None, overloads=(overload,), strategies=results))

    first = "Demand exceeds the stack: pool train needs at least 87 workers, its max is 12. demo on openb2023-a"
    assert " ".join(text.split()).startswith(first)
    assert "No saving is stated" in text
    assert "Attainable" not in text
    assert {row.cells[SAVING] for row in strategy_rows(replace(REPLAY, strategies=results))} == {"\N{EN DASH}"}


def test_the_pools_of_product_and_fleet_are_in_a_table() -> None:
    pools = {"train": PoolResult(jobs=1204, wait_p95_s=170.0, wait_p99_s=3600.0, jobs_unfinished=3)}
    results = {name: replace(result, pools=pools) for name, result in REPLAY.strategies.items()}
    sheet = comparison_sheets(replace(REPLAY, strategies=results))[-1]

    assert sheet.body == [
        ["fixed-flexible: train", "1,204", "2 min 50 s", "1 h 00 min", "3"],
        ["fixed-fleet: train", "1,204", "2 min 50 s", "1 h 00 min", "3"],
    ]


def test_a_bound_has_no_interruptions() -> None:
    bound = replace(REPLAY.strategies["fixed-flexible"], wait_p50_s=0.0, wait_p95_s=0.0)
    row = strategy_rows(replace(REPLAY, strategies={"zero-wait-bound": bound}))[0]

    assert {row.cells[heading] for heading in ("jobs interrupted", "lost work", "evictions in window")} == {
        "\N{EN DASH}"
    }


def test_eighty_columns_cut_no_figure() -> None:
    results = {
        name: replace(result, usd=123_456.0, wait_p95_s=7500.0, wait_p99_s=86_000.0)
        for name, result in REPLAY.strategies.items()
    }
    replay = replace(REPLAY, strategies=results)
    text = printed(replay)

    assert "…" not in text
    for row in strategy_rows(replay):
        line = next(line for line in text.splitlines() if line.startswith(row.strategy))
        assert line.split() == words_of(
            row, "node-hours", "dollars", SAVING, "wait p95", "wait p99", "jobs unfinished", "jobs interrupted"
        )


def test_half_a_screen_still_shows_dollars_waits_and_unfinished_jobs_uncut() -> None:
    text = printed(REPLAY, width=60)

    for row in strategy_rows(REPLAY):
        line = next(line for line in text.splitlines() if line.startswith(row.strategy))
        *words, _ = words_of(row, "dollars", "wait p95", "wait p99", "jobs unfinished", "jobs interrupted")
        assert line.split() == words


def test_a_wide_terminal_shows_all_figures_of_a_strategy() -> None:
    results = {
        name: replace(result, usd=123_456.0, usd_on_demand=163_456.0, usd_with_spot=103_456.0, wait_p99_s=97_200.0)
        for name, result in REPLAY.strategies.items()
    }
    replay = replace(REPLAY, attainable=0.8, strategies=results)
    text = printed(replay, width=120)

    for row in strategy_rows(replay):
        line = next(line for line in text.splitlines() if line.startswith(row.strategy))
        assert line.split() == words_of(row, *HEADINGS[:-2])


def test_the_caption_says_coverage_days_start_and_assumptions() -> None:
    text = " ".join(printed(REPLAY, width=200).split())

    assert "87 % of the trace's jobs, 61 % of its CPU-hours" in text
    assert "7 days from Mon 2 Mar 2026, 00:00 (America/New_York)" in text
    assert all(assumption in text for assumption in REPLAY.assumptions)


def test_the_caption_names_estimated_prices() -> None:
    estimates = "m8i.large estimated from us-east-1"

    assert f"Prices: {estimates}." in printed(replace(REPLAY, estimated_prices=estimates), width=200)


@pytest.mark.parametrize(("limit", "said"), [(None, "jobs of every length"), (8 * 3600.0, "jobs up to 8 h 00 min")])
def test_the_caption_names_the_replayed_jobs(limit: float | None, said: str) -> None:
    assert said in printed(replace(REPLAY, max_job_s=limit))


def test_a_name_that_looks_like_markup_is_shown_as_it_is() -> None:
    assert "[red]acme[/]" in printed(replace(REPLAY, stack="[red]acme[/]"))


def test_a_replay_without_strategies_has_an_empty_table() -> None:
    text = printed(replace(REPLAY, strategies={}))

    assert "node-" in text
    assert "autoscaling" not in text


def test_a_saving_at_a_worse_wait_is_marked() -> None:
    """The smallest fleet that waits no longer may wait far less: fleets come in whole nodes."""
    text = " ".join(printed(REPLAY, width=200).split())

    assert "saving vs fixed fleet (p95 not worse)" in HEADINGS
    assert "smallest fixed fleet that is as good for each pool: the p95 wait is no longer than that of" in text
    assert "at equal wait" not in text


def test_a_replay_without_rollouts_is_repeated_without_them() -> None:
    assert "--no-rollouts" in command(replace(REPLAY, rollouts=False))
    assert "--no-rollouts" not in command(REPLAY)


def test_interruptions_and_saves_are_shown_only_for_replays_with_them() -> None:
    fleet, product = REPLAY.strategies["fixed-fleet"], REPLAY.strategies["fixed-flexible"]
    killed = replace(product, jobs_interrupted=7, lost_work_s=60.0)
    saved = replace(
        product,
        jobs_interrupted=3,
        resumes=2,
        lost_work_s=540.0,
        lost_work_share=0.00123,
        saving_s=7200.0,
        completion_p95_s=5400.0,
    )
    plain = replace(REPLAY, strategies={"fixed-fleet": fleet, "keda-defaults": killed})
    spot = replace(REPLAY, strategies={"fixed-fleet": fleet, "keda-defaults": killed, "fixed-flexible-spot": saved})

    assert "interruptions" not in printed(plain)
    assert [sheet.caption for sheet in comparison_sheets(plain)] == ["Cost", "Effect on jobs and services"]
    assert (
        "fixed-flexible-spot: 3 interruptions, 2 resumes from a checkpoint; 9 min 00 s of work lost (0.12 %), "
        "2 h 00 min spent saving; 95 % of the jobs complete within 1 h 30 min of their submission."
    ) in " ".join(printed(spot).split())
    (sheet,) = [sheet for sheet in comparison_sheets(spot) if sheet.caption == "Interruptions and checkpoints"]
    assert [row[0] for row in sheet.rows] == ["keda-defaults", "fixed-flexible-spot"]
    assert sheet.body[1][1:] == ["3", "2", "9 min 00 s", "0.12 %", "2 h 00 min", "1 h 30 min"]
