"""What can go wrong with the control plane itself: one clear line, and nothing is left behind."""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from control_plane.plane import driver
from control_plane.plane.driver import Component, ControlPlane
from control_plane.plane.errors import Ended, NotStarted
from control_plane.plane.probes import HOST, free_ports

from controllers.adapters.kube_api import ApiError
from tests.builders.control_plane import eventually
from tests.paths import ROOT

pytestmark = pytest.mark.control_plane

# A limit on the size of files stands in for a full disk: the same calls fail, in Python and in etcd.
ON_A_FULL_DISK = """
import resource, sys
from control_plane.plane.driver import ControlPlane
from control_plane.plane.errors import NotStarted
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
try:
    with ControlPlane(with_nodes=False):
        print("started")
except NotStarted as error:
    print(error)
"""

SESSION_WITH_A_DEATH = """
import os, signal, pytest
pytestmark = pytest.mark.control_plane

def test_dies(control_plane):
    api = control_plane.api
    api.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
    os.kill(control_plane.processes.pid("kube-apiserver"), signal.SIGKILL)
    while not control_plane.processes.gone():
        pass
    api.get("/api/v1/namespaces/kept")

def test_goes_on(control_plane):
    assert "kept" in control_plane.kubectl("get", "namespaces")
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where control planes have their folders in this test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def left_in(folder: Path) -> list[str]:
    """Files there, and processes that work there or were told of it."""
    processes = (process for process in Path("/proc").iterdir() if process.name.isdecimal())
    return [*map(str, folder.iterdir()), *(process.name for process in processes if knows(process, folder))]


def knows(process: Path, folder: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace")
        return str(folder) in words or str((process / "cwd").readlink()).startswith(str(folder))
    except OSError:  # it has ended, or is another user's
        return False


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another process listens on."""
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        yield int(other.getsockname()[1])


def hand_out(monkeypatch: pytest.MonkeyPatch, port: int, *, place: int, times: int) -> None:
    """The driver is given a port that is taken between its choice and its use, so many times."""
    attempts: list[int] = []

    def ports(number: int, host: str) -> list[int]:
        attempts.append(number)
        found = free_ports(number, host)
        return [*found[:place], port, *found[place + 1 :]] if len(attempts) <= times else found

    monkeypatch.setattr(driver, "free_ports", ports)


@pytest.mark.parametrize(("component", "place"), [("etcd", 0), ("kube-apiserver", 2)])
def test_a_port_that_stays_taken_is_named_with_its_component(
    temporary: Path, taken: int, monkeypatch: pytest.MonkeyPatch, component: str, place: int
) -> None:
    hand_out(monkeypatch, taken, place=place, times=99)

    with pytest.raises(NotStarted) as error:
        ControlPlane(with_nodes=False).__enter__()

    message = str(error.value)
    assert f"{component} ended by itself" in message
    assert f"{HOST}:{taken}: bind: address already in use" in message
    assert "\n" not in message
    assert left_in(temporary) == []


def test_a_port_that_is_taken_once_costs_one_attempt(
    temporary: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_out(monkeypatch, taken, place=0, times=1)

    with ControlPlane(with_nodes=False) as plane:
        assert [str(plane.folder)] == [str(path) for path in temporary.iterdir()]
        assert plane.api.get("/api/v1/namespaces/default")["metadata"]["name"] == "default"
    assert left_in(temporary) == []


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (0, "no temporary folder can be made: No usable temporary directory found"),
        (64, "cannot write to {folder}/ebbtide-control-plane-.*: File too large"),
        (1 << 20, "etcd ended by itself with exit code 2: failed to create WAL: file too large"),
    ],
)
def test_a_full_disk_is_told_in_one_line(tmp_path: Path, limit: int, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", ON_A_FULL_DISK, str(limit)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    assert re.search(words.format(folder=tmp_path), done.stdout), done.stdout
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    assert left_in(tmp_path) == []


@pytest.fixture(scope="module")
def bare() -> Iterator[ControlPlane]:
    """For these tests alone, without nodes; each leaves it whole."""
    with ControlPlane(with_nodes=False) as plane:
        yield plane


@pytest.mark.parametrize("component", ["etcd", "kube-apiserver"])
def test_what_died_is_named_at_the_next_use_and_brought_back_with_its_data(
    bare: ControlPlane, component: Component
) -> None:
    name = f"kept-{secrets.token_hex(4)}"
    bare.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    die(bare, component)

    with pytest.raises(Ended, match=f"{component} was killed by SIGKILL"):
        bare.kubectl("get", "namespaces")
    with pytest.raises(Ended, match=f"{component} was killed by SIGKILL"):
        bare.api.get("/api")
    bare.heal()

    assert eventually(lambda: bare.api.get(f"/api/v1/namespaces/{name}"), what="the namespace")


def die(plane: ControlPlane, component: Component) -> None:
    os.kill(plane.processes.pid(component), signal.SIGKILL)
    eventually(plane.processes.ended, what=f"the end of {component}")


def test_what_is_killed_on_purpose_surprises_nobody(bare: ControlPlane) -> None:
    bare.kill("kube-apiserver")

    with pytest.raises(ApiError, match="cannot be reached"):
        bare.api.get("/api")
    bare.restart("kube-apiserver")
    assert eventually(lambda: bare.api.get("/api"), what="an answer")


def test_where_data_is_damaged_an_empty_control_plane_takes_its_place(bare: ControlPlane) -> None:
    bare.api.create("/api/v1/namespaces", {"metadata": {"name": "lost"}})
    before = bare.folder
    die(bare, "etcd")
    (before / "etcd" / "member" / "snap" / "db").write_bytes(b"not a database")

    bare.heal()

    assert bare.folder != before
    assert not before.exists()
    with pytest.raises(ApiError, match="not found"):
        bare.api.get("/api/v1/namespaces/lost")


def test_a_death_in_mid_test_fails_that_test_alone_with_one_line(tmp_path: Path) -> None:
    done = session(tmp_path, SESSION_WITH_A_DEATH)

    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "kube-apiserver was killed by SIGKILL" in done.stdout
    assert "cannot be reached" not in done.stdout, "the error that follows from it is not shown"
    assert list(tmp_path.glob("out/control-plane/*test_dies/kube-apiserver.log"))
    assert not list(tmp_path.glob("out/control-plane/*test_goes_on"))


def test_a_build_that_fails_ends_the_session_with_one_line(tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(
        "#!/bin/sh\n[ \"$1\" = version ] && echo 'go version go1.99.0 x' || { echo 'no network' >&2; exit 1; }\n"
    )
    go.chmod(0o755)

    done = session(tmp_path, SESSION_WITH_A_DEATH, PATH=str(go.parent), EBBTIDE_CACHE=str(tmp_path / "cache"))

    assert "control plane: go build of etcd failed: no network" in done.stdout
    assert "1 error in" in done.stdout, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 1


def session(folder: Path, tests: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A run of pytest of its own with our fixtures; all it writes is in `folder`."""
    file = folder / "test_session.py"
    file.write_text(tests)
    options: Sequence[str] = ("-q", "-p", "no:cacheprovider", "-p", "tests.control_plane.conftest")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-c", "pyproject.toml", f"--rootdir={folder}", str(file)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
