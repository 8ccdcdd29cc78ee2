"""One control plane for the whole session, and what is fresh for each test."""

import re
import shutil
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest
from control_plane.binaries import build, how_to_get, missing
from control_plane.driver import ControlPlane

from tests.builders_control_plane import Fresh

_LOGS = Path(__file__).parents[2] / "out" / "control-plane"
_PLANE = pytest.StashKey[ControlPlane]()
_FAILED = pytest.StashKey[bool]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build here what is missing: it takes minutes, and a test has a time limit."""
    wanted = any(item.get_closest_marker("control_plane") for item in session.items)
    if wanted and not session.config.option.collectonly and missing() and shutil.which("go"):
        build(lambda line: print(line, flush=True))


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The real thing, with nodes to be added by tests. Shared: leave no object behind outside your namespaces."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane() as plane:
        request.session.stash[_PLANE] = plane
        yield plane
        del request.session.stash[_PLANE]


@pytest.fixture
def fresh(control_plane: ControlPlane) -> Iterator[Fresh]:
    made = Fresh(control_plane)
    yield made
    made.clean()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def _logs_of_failures(request: pytest.FixtureRequest) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - used by every test
    """What the control plane said during a test that failed goes to out/control-plane/, and nothing else."""
    plane = request.session.stash.get(_PLANE, None)
    before = _sizes(plane)
    yield
    folder = _LOGS / re.sub(r"[^\w.-]+", "-", request.node.nodeid.removeprefix("tests/control_plane/"))
    shutil.rmtree(folder, ignore_errors=True)
    plane = request.session.stash.get(_PLANE, None)
    if plane is not None and request.node.stash.get(_FAILED, False):
        folder.mkdir(parents=True)
        for log in plane.folder.glob("*.log"):
            with log.open("rb") as whole:
                whole.seek(before.get(log.name, 0))
                (folder / log.name).write_bytes(whole.read())


def _sizes(plane: ControlPlane | None) -> Mapping[str, int]:
    return {} if plane is None else {log.name: log.stat().st_size for log in plane.folder.glob("*.log")}
