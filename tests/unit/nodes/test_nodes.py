"""Real nodes, as far as no root is needed: owners of leftovers, missing programs, when an image is built again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from control_plane.nodes import cgroups, host, leftovers
from control_plane.nodes.cgroups import Hierarchy
from control_plane.nodes.images.recipes import Recipe
from control_plane.nodes.run import Failed, run
from control_plane.plane.binaries import ON_NODES, PACKAGES
from control_plane.plane.mode import PLAYED


def test_a_run_belongs_to_the_process_that_began_it() -> None:
    ours = leftovers.name_of_this_run()

    assert leftovers.lives(ours)
    assert ours.startswith(f"{cgroups.PREFIX}{os.getpid()}-")


def test_another_process_of_the_same_id_does_not_own_it() -> None:
    assert not leftovers.lives(f"{leftovers.name_of_this_run()}7")


@pytest.mark.process
def test_a_run_whose_process_has_ended_has_no_owner() -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    stat = Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()
    name = f"{cgroups.PREFIX}{ended.pid}-{stat[19]}"
    before = leftovers.lives(name)
    assert ended.stdin is not None
    ended.stdin.close()
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    nobody_waited = leftovers.lives(name)
    ended.wait()

    assert (before, nobody_waited, leftovers.lives(name)) == (True, False, False)


@pytest.mark.parametrize("name", ["ebbtide-nodes-", "ebbtide-nodes-x-1", "ebbtide-nodes-1", "other"])
def test_a_name_of_another_form_has_no_owner(name: str) -> None:
    assert not leftovers.lives(name)


def test_a_machine_without_the_programs_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "PLUGINS", tmp_path)
    monkeypatch.setattr(host, "hierarchies", lambda: (Hierarchy(tmp_path, frozenset({"cpu", "memory"})),))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    line = host.one_line(host.missing())

    assert "\n" not in line
    assert all(f"the package {name}" in line for name in (*host.PROGRAMS.values(), "containernetworking-plugins"))
    assert "lacks root; " in line
    assert "cgroup v1 hierarchies of blkio, cpuacct, cpuset, devices, freezer, pids (" in line


def recipe(folder: Path, text: str = "FROM x", content: str = "1", tag: str = "one") -> Recipe:
    (folder / "Dockerfile").write_text(text)
    inner = folder / "package" / "inner"
    inner.mkdir(parents=True, exist_ok=True)
    (inner / "module.py").write_text(content)
    return Recipe(name="one", tag=tag, dockerfile=folder / "Dockerfile", files=(("package", folder / "package"),))


def test_an_image_of_the_same_content_is_not_built_again(tmp_path: Path) -> None:
    before = recipe(tmp_path).key("base")
    (tmp_path / "package" / "module.cpython-311.pyc").write_text("made by running it")

    assert recipe(tmp_path).key("base") == before


def test_any_changed_input_makes_another_image(tmp_path: Path) -> None:
    keys = [
        recipe(tmp_path).key("base"),
        recipe(tmp_path).key("another base"),
        recipe(tmp_path, text="FROM y").key("base"),
        recipe(tmp_path, content="2").key("base"),
        recipe(tmp_path, tag="two").key("base"),
    ]

    assert len(set(keys)) == len(keys)


@pytest.mark.process
def test_a_program_that_fails_is_one_line() -> None:
    with pytest.raises(Failed) as failed:
        run(["sh", "-c", "echo one >&2; echo two >&2; exit 1"])

    assert str(failed.value).endswith("failed: one / two")


def test_without_nodes_there_is_no_wait_for_the_kubelet() -> None:
    assert PLAYED.programs == tuple(PACKAGES)
    assert not ON_NODES.keys() & PACKAGES.keys()
