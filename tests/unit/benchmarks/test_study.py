"""The study goes on where it stopped, and its page says how it was made."""

import json
from pathlib import Path

import pytest

from benchmarks import study
from benchmarks.study import StudyCase
from tests.unit.benchmarks.studies import a_case

ASKED = ["--traces", "openb2023-a", "--scopes", "all", "--shifts", "0", "--strategies", "keda-defaults"]


def test_cases_that_have_a_file_are_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No case is left, so nothing is played: the page comes from the files alone, with the command that made it."""

    def folder_of(out: Path, _module: str) -> Path:
        return out / "of-this-tree"

    monkeypatch.setattr(study, "folder_of", folder_of)
    measured = ("fixed-flexible", "fixed-fleet", "keda-defaults", "zero-wait-bound")  # the page needs three of them
    case = StudyCase(trace="openb2023-a", scope="all", shift_h=0, seed=0, days=None, strategies=measured)
    (tmp_path / "of-this-tree").mkdir()
    (tmp_path / "of-this-tree" / f"{case.name}.json").write_text(json.dumps(a_case(430.0)))
    page = tmp_path / "results.md"

    study.main([*ASKED, "--out", str(tmp_path), "--page", str(page)])

    assert f"Written by `python -m benchmarks.study {' '.join(ASKED)}" in page.read_text()
    assert json.loads(page.with_suffix(".json").read_text())["cases"] == [a_case(430.0)]
