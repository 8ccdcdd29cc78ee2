"""What the page of spot nodes says of a case: a goal that is missed is called missed, with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import spot
from benchmarks.spot import cases_of, page, verdict
from benchmarks.spot_file import section
from tests.unit.benchmarks.studies import of_this_tree


def figures(usd: float, completion: float = 3600.0, lost: float = 0.0) -> dict[str, float]:
    return {
        "usd": usd,
        "node_hours": 10.0,
        "completion_p95_s": completion,
        "interrupted": 4,
        "lost_share": lost,
        "saving_share": 0.03,
        "done": 90,
    }


def a_row(usd: float = 50.0, *, completion: float = 3600.0, lost: float = 0.0, **case: Any) -> dict[str, Any]:
    saves = case.get("checkpoints", True)
    return {
        "case": {"trace": "t", "rate": 1, "missed": 0.0, "checkpoints": True, "days": None} | case,
        "price_date": "2025-06-28",
        "today": figures(100.0) if saves else None,
        "spot": figures(usd, completion, lost),
        "rates": {"flexible-spot": 0.4, "gpu-spot": 0.62},
    }


def test_all_is_reached_or_each_part_that_is_missed_is_named() -> None:
    assert verdict(a_row()) == "all reached. A spot node of its groups costs 0.40 to 0.62 times one on demand."
    assert verdict(a_row(61.0, completion=4000.0, lost=0.02)).startswith(
        "missed: 0.61 times the dollars; 1.11 times the p95 completion; 2 % of the work lost. A spot node"
    )


def of_file(seed: int, usd: float, shapes: int = 0, interrupted: int = 0, unfinished: int = 2) -> dict[str, Any]:
    return {
        "case": {
            "trace": "t",
            "seed": seed,
            "shapes": shapes,
            "rate": 20,
            "missed": 0.0,
            "shortages": shapes == 2,
            "days": None,
        },
        "jobs": 92,
        "usd": usd,
        "completion_p95_s": 3600.0,
        "interrupted": interrupted,
        "resumes": interrupted,
        "lost_share": 0.0,
        "done": 92 - unfinished,
        "unfinished": unfinished,
        "on_spot": 1.0 if shapes == 1 else 0.9,
    }


def test_a_row_of_the_stack_file_has_the_range_over_seeds_relative_to_the_same_seed() -> None:
    rows = [of_file(0, 100.0), of_file(1, 200.0), of_file(0, 50.0, 1, 3), of_file(1, 90.0, 1, 5, 4)]
    text = "\n".join(section(rows))

    assert "Ranges are over 2 seeds." in text
    assert "Today: 100 to 200 dollars, p95 completion 1.00 h, 90 jobs done." in text
    assert "| 1 | none | 20 | all | 0.45 to 0.50 | 1.000 | 100 % | 3 to 5 | 0 % | = to +2 |" in text
    assert "Runs that miss a [goal](#goals): 0 of 2 with 1 shape without shortages." in text
    assert "In 2 runs 0 jobs are lost. With notices, 8 jobs are interrupted and 8 go on from a save." in text


def test_the_page_sets_spot_without_checkpoints_beside_today() -> None:
    text = page([a_row(), a_row(42.0, completion=7200.0, lost=0.2, checkpoints=False)], [], "command")

    assert "| t | 1 | all | 100 | 50 | 0.50 | 1.00 h | 1.00 h | 1.000 | 4 | 0 % | 3 % |" in text
    assert "| t | 1 | 0.42 | 2.000 | 4 | 20 % | +0 |" in text


def test_cases_that_have_a_file_are_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot, "folder_of", of_this_tree)
    (tmp_path / "of-this-tree").mkdir()
    for case in cases_of(["surf2022-july"], None):
        row = a_row(rate=case.rate, missed=case.missed, checkpoints=case.checkpoints)
        (tmp_path / "of-this-tree" / f"{case.name}.json").write_text(json.dumps(row))

    spot.main(["--traces", "surf2022-july", "--out", str(tmp_path), "--page", str(tmp_path / "page.md")])

    assert (tmp_path / "page.md").read_text().count("| t | ") == 5
