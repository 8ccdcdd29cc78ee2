"""What a sweep has kept when it is killed, in a folder and in a bucket. Real processes, and moto's S3 on loopback."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.builders.redis import wait_until
from tests.paths import ROOT
from tests.ray.cluster import PROGRAMS, free_port
from tests.unit.lab.sweep.stacks import a_stack_file, a_trace_file

pytestmark = pytest.mark.ray

SEEDS, REPLAYS = 6, 24
KILLS = 3


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    stacks = [a_stack_file(tmp_path, "acme"), a_stack_file(tmp_path, "bolt")]
    changes = ["--vary", "stabilizationWindow=30s,10m", "--seed", f"0-{SEEDS - 1}", "--processes", "2"]
    return [*stacks, "--trace", a_trace_file(tmp_path, jobs=200), *changes]


@pytest.fixture
def bucket() -> Iterator[dict[str, str]]:
    """The environment in which `s3://results` is a bucket of this machine."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [str(PROGRAMS / "moto_server"), "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: _made(address), "the bucket", limit=60)
        yield {
            **os.environ,
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "of-a-test",
            "AWS_SECRET_ACCESS_KEY": "of-a-test",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        server.kill()
        server.wait()


def _made(address: str) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(urllib.request.Request(f"{address}/results", method="PUT"), timeout=5).close()
        return True
    return False


def test_a_sweep_killed_three_times_loses_nothing_that_was_done(asked: list[str], tmp_path: Path) -> None:
    whole = done(asked, tmp_path / "whole")
    folder = tmp_path / "killed"
    kept: set[str] = set()
    for times in range(1, KILLS + 1):
        run = started(asked, str(folder), "--resume")
        wait_until(lambda times=times: len(parts(folder)) >= 4 * times, "replays to be kept", limit=120)
        workers = children(run.pid)
        killed(run)
        assert kept < parts(folder)
        kept = parts(folder)
        assert len(workers) >= 2
        wait_until(lambda workers=workers: not any(map(alive, workers)), "the workers to follow", limit=30)
    assert len(kept) < REPLAYS
    times_of = {name: (folder / name).stat().st_mtime_ns for name in kept}
    run = started(asked, str(folder), "--resume")
    wait_until(lambda: len(parts(folder)) > len(kept), "the rest to begin", limit=120)

    assert {name: (folder / name).stat().st_mtime_ns for name in kept} == times_of  # none was played again
    finished(run)
    again = done([*asked, "--resume"], folder)
    assert again["replays"] == whole["replays"] == REPLAYS
    assert again["digest"] == whole["digest"]


def test_a_bucket_keeps_the_same_and_a_killed_sweep_goes_on_there(
    asked: list[str], bucket: Mapping[str, str], tmp_path: Path
) -> None:
    here = done(asked, tmp_path / "here")
    run = started(asked, "s3://results/july", environment=bucket)
    wait_until(lambda: len(listed(bucket)) >= 3, "replays to be kept", limit=120)
    killed(run)

    there = done([*asked, "--resume"], "s3://results/july", environment=bucket)

    assert (there["digest"], there["replays"]) == (here["digest"], REPLAYS)
    assert listed(bucket) == [f"july/all-{REPLAYS}.parquet"]


def test_a_bucket_that_refuses_is_told_in_one_line_before_anything_is_played(
    asked: list[str], bucket: Mapping[str, str]
) -> None:
    run = started(asked, "s3://nobodys/july", environment=bucket)

    _, said = run.communicate(timeout=240)

    (line,) = said.strip().splitlines()
    assert run.returncode == 1
    assert line.startswith("--results s3://nobodys/july: cannot be written: ")
    assert "bucket" in line


def test_notebooks_read_the_whole_folder_as_one_table(asked: list[str], tmp_path: Path) -> None:
    found = done(asked, tmp_path / "results")

    parquet: Any = import_module("pyarrow.parquet")
    rows: list[dict[str, Any]] = parquet.read_table(tmp_path / "results").to_pylist()
    assert len({row["key"] for row in rows}) == found["replays"]
    assert {row["setting"] for row in rows} == {"stabilizationWindow=30s", "stabilizationWindow=10m"}


def started(asked: list[str], place: str, *options: str, environment: Mapping[str, str] | None = None) -> Any:
    command = [sys.executable, "-m", "ebbtide.cli", "sweep", *asked, *options, "--results", place]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def killed(run: Any) -> None:
    run.kill()
    run.communicate()


def finished(run: Any) -> None:
    out, said = run.communicate(timeout=240)
    assert run.returncode == 0, out + said


def done(asked: list[str], place: Path | str, *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    file = Path(asked[0]).with_name("found.json")
    finished(started(asked, str(place), "--json", str(file), environment=environment))
    return json.loads(file.read_text())


def parts(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("part-*.parquet")}


def listed(bucket: Mapping[str, str]) -> list[str]:
    with urllib.request.urlopen(f"{bucket['AWS_ENDPOINT_URL']}/results?list-type=2", timeout=5) as answer:
        text = answer.read().decode()
    keys = (part.partition("</Key>")[0] for part in text.split("<Key>")[1:])
    return sorted(key for key in keys if key.endswith(".parquet"))  # beside them Arrow marks that there is a folder


def children(pid: int) -> list[int]:
    """Those that play, and the one that looks after their shared memory."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
