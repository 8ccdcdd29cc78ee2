"""A sweep on a Ray cluster of several nodes: the figures of one process of this machine, and a node may be lost."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from ebbtide.jobs import __version__
from tests.paths import ROOT
from tests.ray.cluster import PROGRAMS, RayCluster

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

ASKED = [
    *("demo", "example-berlin", "--traces", "openb2023-a", "--days", "3", "--seeds", "3"),
    *("--vary", "stabilizationWindow=30s,2m", "--objective", "usd where wait_p95_s <= keda-defaults"),
]
REPLAYS = 12


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What says in an image that Ebbtide is installed there."""
    folder = tmp_path_factory.mktemp("image")
    about = folder / f"ebbtide-{__version__}.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: ebbtide\nVersion: {__version__}\n")
    return folder


@pytest.fixture(scope="module")
def nodes(image: Path) -> Iterator[RayCluster]:
    """A head, and two nodes of one CPU."""
    with RayCluster(places=(ROOT, image)) as cluster:
        for _ in range(2):
            cluster.worker(cpus=1)
        yield cluster


@pytest.mark.parametrize("processes", [1, 2])
def test_figures_are_the_same_here_and_on_nodes_of_which_one_is_lost_in_the_middle(
    nodes: RayCluster, tmp_path: Path, processes: int
) -> None:
    here = done(sweep(sys.executable, tmp_path / "here", "--processes", str(processes)))
    lost = nodes.worker(cpus=1)
    run = sweep(PROGRAMS / "python", tmp_path / "there", "--ray", nodes.address, environment=nodes.environment())
    while len(list((tmp_path / "there" / "results").glob("part-*"))) < processes:
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    before = len(list((tmp_path / "there" / "results").glob("part-*")))

    lost.gone()

    there = done(run)
    assert before < there["replays"] == here["replays"] == REPLAYS
    assert there["digest"] == here["digest"]


def test_nodes_without_our_code_are_told_in_one_line_before_anything_is_played(
    nodes: RayCluster, image: Path, tmp_path: Path
) -> None:
    with RayCluster(places=()) as cluster:
        cluster.worker(cpus=1)
        environment = {**cluster.environment(), "PYTHONPATH": nodes.environment()["PYTHONPATH"]}
        run = sweep(PROGRAMS / "python", tmp_path, "--ray", cluster.address, environment=environment)

        _, said = run.communicate(timeout=240)

    (line,) = said.strip().splitlines()
    assert run.returncode == 1
    assert line.startswith(f"--ray {cluster.address}: wanted nodes with this code of Ebbtide, found ")
    assert "ebbtide" in line.partition("found ")[2]
    assert not list((tmp_path / "results").iterdir())


def sweep(
    python: Path | str, folder: Path, *options: str, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    command = [str(python), "-m", "ebbtide.cli", "sweep", *ASKED, *options, "--results", str(folder / "results")]
    return subprocess.Popen(
        [*command, "--json", str(folder / "found.json")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(run: "subprocess.Popen[str]") -> dict[str, Any]:
    out, said = run.communicate(timeout=240)
    assert run.returncode == 0, out + said
    return json.loads(Path(cast("list[str]", run.args)[-1]).read_text())
