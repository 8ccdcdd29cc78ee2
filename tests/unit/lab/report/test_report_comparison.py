import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.lab.report import write_comparison
from ebbtide.lab.report.pages.comparison import main_sheets, render_comparison, sides_of, strategies_sheet, verdict
from ebbtide.lab.simulator.results import Coverage, Replay
from tests.builders.replay import START, a_replay, priced

REPLAY = a_replay(samples_per_day=40)


def other(stack: str = "bigger", *, usd: float = 1.0, wait: float = 1.0, replay: Replay = REPLAY) -> Replay:
    """The same replay on another stack: its dollars and its p95 waits times so much."""
    changed = {
        name: replace(
            result,
            usd=priced(result.usd) * usd,
            usd_per_day=tuple(day * usd for day in result.usd_per_day),
            wait_p95_s=result.wait_p95_s * wait,
        )
        for name, result in replay.strategies.items()
    }
    return replace(replay, stack=stack, strategies=changed)


def shifted(hours: int, saving: float) -> Replay:
    product = replace(REPLAY.strategies["fixed-flexible"], saving_vs_fixed_fleet=saving)
    start = START + timedelta(hours=hours)
    return replace(REPLAY, start=start, strategies={**REPLAY.strategies, "fixed-flexible": product})


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_cheaper_stack_is_named_with_its_dollars_and_its_wait() -> None:
    paid = priced(REPLAY.strategies["fixed-flexible"].usd)
    sentence = plain(verdict(sides_of([REPLAY, other(usd=0.8, wait=2.0)])))

    assert sentence == (
        f"bigger costs ${paid * 0.2:,.0f} (20 %) less than demo over 7 days, "
        "with a p95 wait of 7 min 28 s instead of 3 min 44 s"
    )


def test_a_more_expensive_stack_is_called_so() -> None:
    assert "bigger costs" in verdict(sides_of([REPLAY, other(usd=1.5)]))
    assert "(50\N{NO-BREAK SPACE}%) more than demo" in verdict(sides_of([REPLAY, other(usd=1.5)]))


def test_of_several_stacks_the_cheapest_is_named() -> None:
    sentence = verdict(sides_of([REPLAY, other("a", usd=0.9), other("b", usd=0.7), other("c", usd=0.8)]))

    assert sentence.startswith("b, the cheapest of 4 stacks, costs")


def test_shifts_of_the_start_are_shown_as_a_range() -> None:
    sides = sides_of([shifted(0, 0.72), shifted(6, 0.6), shifted(-6, 0.65)])

    assert list(sides.replays) == ["Mon 2 Mar 00:00", "Mon 2 Mar 06:00", "Sun 1 Mar 18:00"]
    assert plain(verdict(sides)) == (
        "fixed-flexible saves 60 % to 72 % against the fixed fleet of its start, at 3 starts over 7 days"
    )


def test_a_saving_that_does_not_depend_on_the_start_is_shown_once() -> None:
    assert "saves 72 % against" in plain(verdict(sides_of([shifted(0, 0.72), shifted(6, 0.7204)])))


def test_changes_are_relative_to_the_first_side() -> None:
    costs, harm = main_sheets(sides_of([REPLAY, other(usd=0.5, wait=2.0)]))
    changes = [row[[column.name for column in costs.columns].index("change")] for row in costs.body]
    waits = [row[[column.name for column in harm.columns].index("wait p95")] for row in harm.body]

    assert changes == ["\N{EN DASH}", f"\N{MINUS SIGN}${priced(REPLAY.strategies['fixed-flexible'].usd) / 2:,.0f}"]
    assert waits == ["3 min 44 s", "7 min 28 s"]


def test_a_strategy_that_one_side_lacks_is_a_dash_there() -> None:
    less = replace(REPLAY, stack="less", strategies={"fixed-flexible": REPLAY.strategies["fixed-flexible"]})
    sheet = strategies_sheet(sides_of([REPLAY, less]))

    assert [row[2] == "\N{EN DASH}" for row in sheet.body] == [True, True, True, False]


def test_stacks_of_one_name_are_numbered() -> None:
    assert list(sides_of([REPLAY, other("demo", usd=0.5)]).replays) == ["demo (1)", "demo (2)"]


def test_the_charts_of_nodes_share_one_scale() -> None:
    small = a_replay(samples_per_day=40, strategies=["fixed-flexible"])
    series = small.strategies["fixed-flexible"].series
    tiny = replace(series, nodes={"fixed": tuple(1 for _ in series.at)})
    alone = replace(
        small, stack="tiny", strategies={"fixed-flexible": replace(small.strategies["fixed-flexible"], series=tiny)}
    )
    page = render_comparison([REPLAY, alone], title="T")

    second = page.partition('id="nodes-1"')[2].partition("</figure>")[0]
    assert ">25</text>" in second


def test_days_are_set_side_by_side_only_where_they_are_the_same_days() -> None:
    def drawn(replays: list[Replay]) -> list[str]:
        return re.findall(r'<figure id="([^"]+)"', render_comparison(replays, title="T"))

    assert drawn([REPLAY, other()]) == ["nodes-0", "nodes-1", "strip", "cost", "waits"]
    assert drawn([shifted(0, 0.7), shifted(6, 0.6)]) == ["nodes-0", "nodes-1", "waits"]


def test_assumptions_of_all_sides_are_listed_once_and_those_of_one_by_its_name() -> None:
    with_own_assumption = replace(other(), assumptions=(*REPLAY.assumptions, "Only here."))
    page = render_comparison([REPLAY, with_own_assumption], title="T")

    assert page.count(REPLAY.assumptions[0].partition(",")[0]) == 1
    assert "<h3>bigger</h3>" in page
    assert "<h3>demo</h3>" not in page
    assert page.count("Only here.") == 1


def test_a_chart_of_all_sides_does_not_claim_one_sides_coverage() -> None:
    same = render_comparison([REPLAY, other()], title="T")
    differing = render_comparison([REPLAY, replace(other(), coverage=Coverage(jobs=0.5, cpu_hours=0.4))], title="T")

    assert "a different part of the trace on each side" not in plain(same)
    assert plain(differing).count("a different part of the trace on each side") == 3


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = '</script><script>alert("1")</script>'
    write_comparison([REPLAY, other(name)], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")

    assert "<script>alert" not in page
    assert "unsafe-inline" not in page


@pytest.mark.parametrize("strategy", ["fixed-fleet", "fixed-flexible", "zero-wait-bound"])
def test_one_strategy_is_enough(strategy: str) -> None:
    lone = a_replay(samples_per_day=20, strategies=[strategy])

    page = render_comparison([lone, other(usd=0.5, replay=lone)], title="T")

    assert f"Cost, {strategy}" in page
