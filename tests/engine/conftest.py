"""One stack of each customer, brought up once; each test goes on with a copy of its own."""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane

from tests.engine.project import Project


def _need(program: str, where: str) -> None:
    if shutil.which(program) is None:
        _go_without(f"needs {program} on PATH ({where})")


def _go_without(lacking: str) -> NoReturn:
    """Skip, but for GitHub's runs: the workflow installs all of it, and a tier that skips there proves nothing."""
    if os.environ.get("GITHUB_ACTIONS"):
        pytest.fail(lacking, pytrace=False)
    pytest.skip(lacking)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture, and from one place, so that a session tells what it lacks in one line."""
    if item.get_closest_marker("engine"):
        _need("pulumi", "https://www.pulumi.com/docs/install")
        if "plane" in getattr(item, "fixturenames", ()):
            _need("pulumi-resource-kubernetes", "https://github.com/pulumi/pulumi-kubernetes/releases")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """With room for two of the night's five workers: the others wait for nodes, as at the start of every burst."""
    if lacking := missing():
        _go_without(how_to_get(lacking))
    with ControlPlane() as plane:
        plane.add_node("services-0", labels={"pool": "services"})
        plane.add_node("services-1", labels={"pool": "services"})
        plane.add_node("workers-0", labels={"pool": "workers"}, cpu=4)
        yield plane


@pytest.fixture(scope="session")
def first_up(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    @cache
    def brought_up(name: str) -> Project:
        project = Project(tmp_path_factory.mktemp(name))
        project.ship(name)
        project.up(name)
        return project

    return brought_up


@pytest.fixture
def running(first_up: Callable[[str], Project], tmp_path: Path) -> Callable[[str], Project]:
    """A customer's stack as the first `up` left it, to be changed at will."""
    return lambda name: first_up(name).copy(tmp_path / "copy")
