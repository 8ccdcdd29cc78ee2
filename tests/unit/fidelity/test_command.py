"""`python -m tests.fidelity`: a table, a document of the agreed form, and one clear line for what is wrong."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tests.fidelity.__main__ import command
from tests.paths import DATA

GIVEN = DATA / "ca-scenarios" / "given.json"
RECORDED: list[dict[str, Any]] = json.loads(GIVEN.read_text(encoding="utf-8"))


def scenario(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def one(tmp_path: Path, name: str, **changes: Any) -> str:
    (found,) = [entry for entry in RECORDED if entry["name"] == name]
    path = tmp_path / "one.json"
    path.write_text(json.dumps({**found, **changes}), encoding="utf-8")
    return str(path)


def test_a_recording_that_holds_is_written_without_differences(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.json"

    result = scenario(one(tmp_path, "group-at-its-maximum-leaves-pods-pending"), "--json", str(out), "--draws", "5")

    assert result.exit_code == 0, result.output
    assert "5 of 5" in result.stdout
    (found,) = json.loads(out.read_text(encoding="utf-8"))["scenarios"]
    assert list(found) == ["name", "nodes", "final_packing", "unremovable_reasons", "differences"]
    assert found["nodes"][0] == {"t_s": 0.0, "nodes": {}}
    assert found["nodes"][-1]["nodes"] == {"flexible": 1}
    assert (found["final_packing"], found["unremovable_reasons"], found["differences"]) == ([["worker"]], [], [])
    assert [path.name for path in out.parent.iterdir()] == ["out.json"]  # nothing partial is left


def test_what_differs_is_told_line_by_line(tmp_path: Path) -> None:
    path = one(tmp_path, "above-the-utilisation-threshold-stays", final_packing=[["api", "api"]])

    result = scenario(path, "--draws", "3")

    assert result.exit_code == 0
    assert "0 of 3" in result.stdout
    assert "above-the-utilisation-threshold-stays: final packing: recorded (('api', 'api'),)" in result.stdout


def test_a_scenario_that_was_not_recorded_is_replayed_all_the_same(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"observed": [], "final_packing": None, "unremovable_reasons": None}

    result = scenario(one(tmp_path, "gpu-group-from-zero-and-back", **nothing), "--draws", "2")

    assert result.exit_code == 0
    assert "not recorded" in result.stdout
    assert "3 gpu" in result.stdout


def test_a_bad_file_is_refused_with_its_faults_and_no_document(tmp_path: Path) -> None:
    out = tmp_path / "out.json"

    result = scenario(one(tmp_path, "gpu-group-from-zero-and-back", end_s="soon"), "--json", str(out))

    assert result.exit_code == 1
    assert "one.json: [0].end_s: wanted seconds above 0, found 'soon' (for example 1)" in result.stderr
    assert not out.exists()
