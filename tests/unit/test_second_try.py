"""The second try of a tier: every test passes in one of the two, and what never ran in the first runs in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.second_try import READ, WRITTEN

pytestmark = pytest.mark.process

CONFTEST = """
import pytest
from tests import second_try

def pytest_configure(config):
    second_try.register(config)
"""
TESTS = """
import os
import pytest

LATE = os.environ["LATE"] == "yes"

@pytest.fixture(scope="module")
def site(request):
    assert not LATE, "no site"

@pytest.fixture
def left():
    yield
    assert not LATE, "left behind"

def test_sound(): pass
def test_skipped(): pytest.skip("not here")
def test_late(): assert not LATE
def test_late_in_set_up(site): pass
def test_late_in_tear_down(left): pass
def test_cut_short(request):
    if LATE:
        request.session.shouldfail = "the server died"
        pytest.fail("the server died")
def test_after_the_cut(): pass
"""
SOUND = {"test_sound", "test_skipped"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    return tmp_path


def run(folder: Path, *options: str, late: bool, **files: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LATE": "yes" if late else "no"}
    environment |= {name: str(folder / file) for name, file in files.items()}
    command = [sys.executable, "-m", "pytest", "-q", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True).returncode


def listed(file: Path) -> list[str]:
    return sorted(line.partition("::")[2] for line in file.read_text().splitlines())


@pytest.mark.parametrize("options", [("-n", "0"), ("-n", "2", "--dist", "loadfile")], ids=["serial", "xdist"])
def test_the_second_try_runs_what_failed_anywhere_and_what_never_ran(folder: Path, options: tuple[str, ...]) -> None:
    assert run(folder, *options, late=True, **{WRITTEN: "first"}) != 0
    assert set(listed(folder / "first")) == SOUND

    assert run(folder, *options, late=False, **{WRITTEN: "second", READ: "first"}) == 0
    late = ["test_late", "test_late_in_set_up", "test_late_in_tear_down"]
    assert listed(folder / "second") == sorted([*late, "test_cut_short", "test_after_the_cut"])


def test_a_second_try_that_fails_is_red(folder: Path) -> None:
    run(folder, "-n", "0", late=True, **{WRITTEN: "first"})

    assert run(folder, "-n", "0", late=True, **{READ: "first"}) == 1


@pytest.mark.parametrize("options", [("-n", "0"), ("-n", "2")], ids=["serial", "xdist"])
def test_a_run_of_a_tier_that_has_passed_already_stops_no_second_try(folder: Path, options: tuple[str, ...]) -> None:
    assert run(folder, *options, late=False, **{WRITTEN: "first"}) == 0

    assert run(folder, *options, late=False, **{WRITTEN: "second", READ: "first"}) == 0
    assert not (folder / "second").exists()


def test_without_a_first_list_everything_runs(folder: Path) -> None:
    assert run(folder, "-n", "0", late=False, **{WRITTEN: "second", READ: "none"}) == 0
    assert len(listed(folder / "second")) == 7
