"""A sweep on a Ray cluster of several nodes: the figures of one process of this machine, and a node may be lost."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ebbtide.jobs import __version__
from tests.paths import ROOT, STACK_FILES
from tests.ray.cluster import PROGRAMS, VERSION, RayCluster

pytestmark = pytest.mark.ray

ASKED = [
    *(str(STACK_FILES / f"Pulumi.{name}.yaml") for name in ("demo", "example-berlin")),
    *("--trace", "openb2023-a", "--days", "3", "--seed", "0-2"),
    *("--vary", "stabilizationWindow=30s,2m", "--objective", "usd where wait_p95_s <= keda-defaults"),
]
REPLAYS = 12
FORMER = "2.59.0"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What says in an image that Ebbtide is installed there."""
    folder = tmp_path_factory.mktemp("image")
    about = folder / f"ebbtide-{__version__}.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: ebbtide\nVersion: {__version__}\n")
    return folder


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stands for a former release of Ray: this one, which says that it is the former."""
    place = tmp_path_factory.mktemp("former")
    (place / "ray").mkdir()
    for path in Path(*(PROGRAMS.parent / "lib").glob("python*/site-packages/ray")).iterdir():
        (place / "ray" / path.name).symlink_to(path)
    (place / "ray" / "_version.py").unlink()
    (place / "ray" / "_version.py").write_text(f'version = "{FORMER}"\ncommit = ""\n')
    return place


@pytest.fixture(scope="module")
def nodes(image: Path) -> Iterator[RayCluster]:
    """A head, and two nodes of one CPU."""
    with RayCluster(places=(ROOT, image)) as cluster:
        for _ in range(2):
            cluster.worker(cpus=1)
        yield cluster


@pytest.mark.parametrize(("processes", "client"), [(1, True), (2, False)])
def test_figures_are_the_same_here_and_on_nodes_of_which_one_is_lost_in_the_middle(
    nodes: RayCluster, tmp_path: Path, processes: int, client: bool
) -> None:
    here = done(sweep(sys.executable, tmp_path / "here", "--processes", str(processes)))
    lost = nodes.worker(cpus=1)
    address = nodes.client_address if client else nodes.address
    run = sweep(PROGRAMS / "python", tmp_path / "there", "--ray", address, environment=nodes.environment())
    until_kept(run, tmp_path / "there" / "results", processes)
    before = len(list((tmp_path / "there" / "results").glob("part-*")))

    lost.gone()

    there = done(run)
    assert before < there["replays"] == here["replays"] == REPLAYS
    assert there["digest"] == here["digest"]


def test_a_head_that_is_lost_is_told_in_one_line_and_resume_goes_on(image: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    with RayCluster(places=(ROOT, image)) as cluster:
        cluster.worker(cpus=1)
        address = cluster.client_address
        run = sweep(PROGRAMS / "python", tmp_path, "--ray", address, environment=cluster.environment())
        until_kept(run, results, 2)

        cluster.head.gone()
        _, said = run.communicate(timeout=240)

    *_, line = said.strip().splitlines()  # Ray's own say that a channel reconnects
    kept = len(list(results.glob("part-*")))
    assert run.returncode == 1
    assert "Traceback" not in said
    assert line.startswith(f"--ray {address}: the cluster is gone: ")
    assert line.endswith("; the same command with --resume goes on")
    assert 2 <= kept < REPLAYS
    rest = done(sweep(PROGRAMS / "python", tmp_path, "--resume", environment=cluster.environment()))
    assert rest["replays"] == REPLAYS


def test_a_cluster_without_a_free_cpu_is_told_when_nobody_has_answered(image: Path, tmp_path: Path) -> None:
    """After three seconds here instead of ten minutes."""
    hurried = (
        "import ebbtide.lab.sweep.cluster as it; it.ANSWERS_WITHIN = 3.0; from ebbtide.cli.__main__ import main; main()"
    )
    with RayCluster(places=(ROOT, image)) as cluster:
        address = cluster.address
        python = (PROGRAMS / "python", "-c", hurried)
        run = sweep(python, tmp_path, "--ray", address, environment=cluster.environment())

        _, said = run.communicate(timeout=120)

    assert said.splitlines()[-1] == f"--ray {address}: wanted a worker with a free CPU, found none within 3 s"
    assert run.returncode == 1


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


@pytest.mark.parametrize("client", [True, False])
def test_another_version_of_ray_is_told_in_one_line(former: Path, image: Path, tmp_path: Path, client: bool) -> None:
    with RayCluster(places=(former, ROOT, image)) as cluster:
        address = cluster.client_address if client else cluster.address
        environment = {**cluster.environment(), "PYTHONPATH": f"{ROOT}{os.pathsep}{image}"}
        run = sweep(PROGRAMS / "python", tmp_path, "--ray", address, environment=environment)

        _, said = run.communicate(timeout=240)

    (line,) = said.strip().splitlines()
    assert run.returncode == 1
    assert line.startswith(f"--ray {address}: wanted a cluster of Ray {VERSION}, found RuntimeError: Version mismatch")
    assert f" Ray: {FORMER} Python: " in line
    assert f" Ray: {VERSION} Python: " in line


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:9", "127.0.0.1:9: wanted a Ray cluster, found no answer there ("),
        ("ray://127.0.0.1:9", "ray://127.0.0.1:9: wanted a Ray cluster, found no answer there ("),
        ("auto", "auto: wanted ray://HOST:PORT or HOST:PORT, for example ray://"),
        ("http://head:8265", "http://head:8265: wanted ray://HOST:PORT or HOST:PORT, for example ray://"),
        ("head:client", "head:client: wanted ray://HOST:PORT or HOST:PORT, for example ray://"),
    ],
)
def test_an_address_where_no_ray_is_gets_one_line_at_once(image: Path, tmp_path: Path, address: str, said: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{image}"}
    run = sweep(PROGRAMS / "python", tmp_path, "--ray", address, environment=environment)

    _, lines = run.communicate(timeout=60)

    (line,) = lines.strip().splitlines()
    assert run.returncode == 1
    assert line.startswith(f"--ray {said}")


def sweep(
    python: Path | str | Sequence[Path | str],
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
) -> "subprocess.Popen[str]":
    """`python`: with what follows it in the place of `-m ebbtide.cli`."""
    folder.mkdir(exist_ok=True)
    program = (python, "-m", "ebbtide.cli") if isinstance(python, Path | str) else python
    command = [*map(str, program), "sweep", *ASKED, *options, "--results", str(folder / "results")]
    return subprocess.Popen(
        [*command, "--json", str(folder / "found.json")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_kept(run: "subprocess.Popen[str]", results: Path, replays: int) -> None:
    while len(list(results.glob("part-*"))) < replays:
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)


def done(run: "subprocess.Popen[str]") -> dict[str, Any]:
    out, said = run.communicate(timeout=240)
    assert run.returncode == 0, out + said
    return json.loads(Path(cast("list[str]", run.args)[-1]).read_text())
