"""What the study says of a case, and what cross-validation chooses."""

import pytest

from benchmarks.defaults_page import PlayedChoice, best
from benchmarks.defaults_page import page as defaults_page
from benchmarks.study_page import page, summary
from tests.unit.benchmarks.studies import a_case


def test_the_share_of_attainable_is_the_saving_by_the_bounds_saving() -> None:
    swept = summary(a_case(460.0))

    assert (swept["attainable_on_demand"], swept["saving_on_demand"]) == pytest.approx((0.6, 0.54))
    assert (swept["share_on_demand"], swept["share"]) == pytest.approx((0.9, 0.9))
    assert swept["node_hours_of_bound"] == pytest.approx(1.1)


def test_a_page_says_what_is_missed_and_by_how_much_or_that_all_is_reached() -> None:
    missed = page([a_case(700.0, hours=130.0)], "command", {"t": ["no job states its cpu"]})
    reached = page([a_case(430.0)], "command", {})

    assert "missed: 50.0 % of attainable, 40 points too few; 30.0 % saved, 10 points too few; node-hours 1.30" in missed
    assert "25.0 % of its work is in jobs over 24 h" in missed
    assert "- **t**: no job states its cpu." in missed
    assert "5 nodes were started, and for each of them 360.0 minutes of nodes are paid for beyond the bound" in missed
    assert "**t, jobs of every length**: all reached." in reached


def test_the_middle_of_the_starts_decides() -> None:
    assert ": all reached." in page([a_case(430.0), a_case(999.0, shift_h=-6), a_case(420.0, shift_h=6)], "command", {})


def tried(piece: str, choice: str, usd: float, p95: float = 100.0) -> PlayedChoice:
    return PlayedChoice(
        piece=f"t, 8h, {piece}, suggested",
        choice=choice,
        usd_of_bound=usd,
        node_hours_of_bound=usd,
        wait_p50_s=0.0,
        wait_p95_s=p95,
        wait_p99_s=p95,
        interrupted=0,
        evictions=0,
    )


def test_a_cheaper_choice_that_makes_jobs_wait_longer_is_not_the_best() -> None:
    values = [
        *(tried("week 1", choice, usd) for choice, usd in (("before", 1.3), ("hasty", 1.0), ("quick", 1.2))),
        tried("week 2", "before", 1.3),
        tried("week 2", "hasty", 1.0, p95=131),
        tried("week 2", "quick", 1.2, p95=130),
    ]

    assert best(values) == "quick"


def test_a_piece_is_played_with_what_is_best_on_the_others() -> None:
    values = [
        *(tried("week 1", choice, usd) for choice, usd in (("before", 1.0), ("a", 0.5), ("b", 0.9))),
        *(tried("week 2", choice, usd) for choice, usd in (("before", 1.0), ("a", 1.5), ("b", 0.8))),
    ]

    text = defaults_page(values, {"before": "", "a": "", "b": ""}, "command")

    assert "| t, 8h, week 1, suggested | b | 1.000 | 0.900 | -10.0 % |" in text
    assert "| t, 8h, week 2, suggested | a | 1.000 | 1.500 | +50.0 % |" in text
