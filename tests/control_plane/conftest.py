"""One control plane for each process of the session, and what is fresh for each test.

A program of it that dies fails the test during which it died, with one line, and is started again for the next test.
"""

import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from control_plane.plane.binaries import build, how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.errors import ControlPlaneError, Ended, NotStarted

from tests.builders.control_plane import Fresh
from tests.control_plane.support.applying import Applying, quiet_plane
from tests.control_plane.support.logs import folder_of

# Files that take two minutes or more on two cores.
_LONGEST = {
    "test_day_and_night",
    "test_generated_stacks",
    "test_idle_sleepers",
    "test_listed_stacks",
    "test_moving",
    "test_operating",
    "test_sleepers",
    "test_workloads",
}
_LAST_BREATH = 2.0  # seconds
_PLANE = pytest.StashKey[ControlPlane]()
_NOT_BUILT = pytest.StashKey[str]()
_LOG_SIZES = pytest.StashKey[dict[Path, int]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files begin first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.path.stem not in _LONGEST)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build here what is missing: it takes minutes, and a test has a time limit."""
    wanted = any(item.get_closest_marker("control_plane") for item in session.items)
    if wanted and not session.config.option.collectonly and missing() and shutil.which("go"):
        try:
            build(lambda line: print(line, flush=True))
        except ControlPlaneError as error:
            session.stash[_NOT_BUILT] = str(error)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The real thing, with nodes to be added by tests. Shared: leave no object behind outside your namespaces."""
    session = request.session
    if why := session.stash.get(_NOT_BUILT, ""):
        _end(session, why)
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ExitStack() as stack:
        try:
            plane = stack.enter_context(ControlPlane())
        except ControlPlaneError as error:
            _end(session, str(error))
        session.stash[_PLANE] = plane
        yield plane
        del session.stash[_PLANE]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane without controllers, for one module."""
    with quiet_plane() as plane:
        yield plane


@pytest.fixture
def applying(plane: ControlPlane) -> Iterator[Applying]:
    """Applies objects to it, and deletes them after the test."""
    applying = Applying(plane.api)
    yield applying
    applying.delete()


def _end(session: pytest.Session, why: str) -> NoReturn:
    """One line instead of the same line for each test that follows."""
    session.shouldfail = why
    pytest.fail(why, pytrace=False)


@pytest.fixture
def fresh(control_plane: ControlPlane) -> Iterator[Fresh]:
    made = Fresh(control_plane)
    yield made
    made.clean()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    logs = [log for plane in planes(item) for log in plane.folder.glob("*.log")]
    item.stash[_LOG_SIZES] = {log: log.stat().st_size for log in logs}
    with _death_named(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    with _death_named(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    with _death_named(item):
        return (yield)


@contextmanager
def _death_named(item: pytest.Item) -> Generator[None]:
    """In place of the page of connection errors that follow from it."""
    try:
        yield
    except pytest.skip.Exception:
        raise
    except BaseException:
        _wait_for_a_death(item)
        _name_deaths(item)
        raise
    _name_deaths(item)


def _wait_for_a_death(item: pytest.Item) -> None:
    """What broke a connection by dying has not quite ended yet."""
    deadline, running = time.monotonic() + _LAST_BREATH, planes(item)
    while running and time.monotonic() < deadline and not any(plane.processes.gone() for plane in running):
        time.sleep(0.05)


def _name_deaths(item: pytest.Item) -> None:
    for plane in planes(item):
        try:
            plane.require_alive()
        except Ended as died:
            raise pytest.fail.Exception(str(died), pytrace=False) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        _keep_logs(item)
    for plane in planes(item):
        if plane.processes.gone():
            try:
                plane.heal()
            except NotStarted as error:
                item.session.shouldfail = str(error)
    return report


def planes(item: pytest.Item) -> list[ControlPlane]:
    """The session's and those of the test itself, as far as they have begun."""
    shared = item.session.stash.get(_PLANE, None)
    funcargs: dict[str, object] = getattr(item, "funcargs", {})
    own = [value for value in funcargs.values() if isinstance(value, ControlPlane) and value is not shared]
    return own if shared is None else [shared, *own]


def _keep_logs(item: pytest.Item) -> None:
    """What the control plane said during a test that failed goes to out/control-plane/, and nothing else."""
    folder = (
        item.config.rootpath / "out" / "control-plane" / folder_of(item.nodeid.removeprefix("tests/control_plane/"))
    )
    shutil.rmtree(folder, ignore_errors=True)
    sizes = item.stash[_LOG_SIZES]
    for number, plane in enumerate(planes(item)):
        target = folder / str(number) if number else folder
        target.mkdir(parents=True, exist_ok=True)
        for log in plane.folder.glob("*.log"):
            with log.open("rb") as whole:
                whole.seek(sizes.get(log, 0))
                (target / log.name).write_bytes(whole.read())
