"""`ebbtide sweep`: its output and its files; a fault prevents all writes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli import sweep as command
from ebbtide.lab.simulator.trace.queues import BY_FIT
from tests.unit.lab.sweep.stacks import HEADER, a_stack_file, a_trace_file


@pytest.fixture(autouse=True)
def _code_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the hash of all sources, which takes a second and is tested in tests/unit/lab/sweep/test_plan.py."""

    def digest_of(_module: str = "") -> str:
        return "of-this-tree"

    monkeypatch.setattr(command, "code", digest_of)
    monkeypatch.setattr("ebbtide.lab.sweep.plan.digest_of", digest_of)


def swept(folder: Path, *options: str, stacks: tuple[str, ...] = ("acme", "bolt")) -> Result:
    asked = [*(a_stack_file(folder, name) for name in stacks), "--trace", a_trace_file(folder), "--processes", "1"]
    return CliRunner().invoke(command.command, [*asked, "--results", str(folder / "results"), *options])


def test_the_table_the_json_and_the_page_are_of_one_sweep(tmp_path: Path) -> None:
    json_file, page = tmp_path / "found.json", tmp_path / "page.html"

    ran = swept(tmp_path, "--vary", "max=2,3", "--json", str(json_file), "--report", str(page))

    found = json.loads(json_file.read_text())
    assert ran.exit_code == 0, ran.output
    assert (found["replays"], len(found["stacks"])) == (4, 2)
    assert found["digest"] in ran.output
    assert found["digest"] in page.read_text()


def test_estimates_jobs_by_fit_and_demand_above_a_setting_are_notes(tmp_path: Path) -> None:
    path = Path(a_stack_file(tmp_path, "acme"))
    path.write_text(path.read_text().replace("us-east-1", "il-central-1"))
    trace = tmp_path / "much.csv"
    trace.write_text(HEADER + "".join(f"{1800 * number},3600,q,2,4,0\n" for number in range(47)))
    options = ["--vary", "max=1,3", "--processes", "1", "--results", str(tmp_path / "results"), "--json", "-"]

    ran = CliRunner().invoke(command.command, [str(path), "--trace", str(trace), *options])

    found = json.loads(ran.stdout)
    assert found["best"] == "max=3"
    assert (found["settings"][0]["usd"], found["settings"][0]["meets"]) == (None, 0)
    assert "Demand exceeds acme (max=1): pool train needs at least 2 workers, its max is 1." in found["notes"]
    assert f"much: {BY_FIT.removesuffix('.')} (acme)." in found["notes"]
    assert "Prices: m7i.2xlarge, m7i.4xlarge estimated from us-east-1 (acme)." in found["notes"]


def test_with_resume_what_is_there_is_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = swept(tmp_path)
    monkeypatch.setattr("ebbtide.lab.sweep.run.play", None)  # whoever calls it fails

    again, refused = swept(tmp_path, "--resume"), swept(tmp_path)

    assert (again.exit_code, again.stdout) == (0, first.stdout)
    assert refused.exit_code == 1
    assert "wanted an empty folder, found results in it; --resume continues them" in refused.output


def test_a_replay_that_fails_is_told_and_the_others_are_there(tmp_path: Path) -> None:
    ran = swept(tmp_path, "--vary", 'workers.train.memory=8Gi,"1Gi"', "--json", str(tmp_path / "found.json"))

    found = json.loads((tmp_path / "found.json").read_text())
    assert ran.exit_code == 1
    assert found["replays"] == 2
    assert [each["replay"] for each in found["missing"]] == [
        'acme on some-jobs, workers.train.memory="1Gi", seed 0',
        'bolt on some-jobs, workers.train.memory="1Gi", seed 0',
    ]
    assert "none of its 12 jobs fits a worker pool" in found["missing"][0]["error"]
    assert "2 replays failed; the same command with --resume tries them again" in ran.output


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    ran = swept(tmp_path, "--vary", "customer=a,b", "--objective", "dollars", "--report", str(tmp_path / "page.html"))

    assert ran.exit_code == 1
    assert len(ran.output.strip().splitlines()) == 2
    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "page.html").exists()


def test_without_ray_an_address_is_told_what_it_needs(tmp_path: Path) -> None:
    ran = swept(tmp_path, "--ray", "127.0.0.1:1")

    assert ran.exit_code == 1
    assert ran.output.strip() == "--ray needs ray, which is not installed; pip install 'ebbtide[ray]'"


def test_prices_of_ones_own_stay_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "own_prices", lambda: True)

    ran = swept(tmp_path, "--ray", "127.0.0.1:1")

    assert ran.exit_code == 1
    assert ran.output.startswith("--ray: wanted the shipped prices, found --prices")


@pytest.mark.parametrize(("given", "seeds"), [(["--seed", "3"], 1), (["--seed", "0-1", "--seed", "5"], 3)])
def test_seeds_are_numbers_and_ranges(given: list[str], seeds: int, tmp_path: Path) -> None:
    found = json.loads(swept(tmp_path, *given, "--json", "-", stacks=("acme",)).stdout)

    assert (found["seeds"], found["replays"]) == (seeds, seeds)


@pytest.mark.parametrize("given", ["x", "3-1", "0-", "0-1000"])
def test_a_range_that_is_none_is_told(given: str, tmp_path: Path) -> None:
    ran = swept(tmp_path, f"--seed={given}")

    assert ran.exit_code == 2
    assert "(for example 0-4)" in ran.output


def test_a_number_of_seeds_is_read_for_one_more_release(tmp_path: Path) -> None:
    ran = swept(tmp_path, "--seeds", "2", "--json", "-", stacks=("acme",))

    assert json.loads(ran.stdout)["seeds"] == 2
    assert ran.stderr.startswith("--seeds 2 is --seed 0-1 now; the next release no longer reads it\n")
