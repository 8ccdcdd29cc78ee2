"""One cluster of three real nodes for the session, with a customer's stack on it: one fixed node and two flexible ones.

Serial, and without a bound on how long anything takes. Where this machine cannot hold nodes all of it is skipped with
one line.
"""

import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest
from control_plane.nodes.cluster import RealCluster
from control_plane.nodes.host import missing, one_line
from control_plane.nodes.images import building, store
from control_plane.plane.binaries import OF_RAY, WITH_NODES, build
from control_plane.plane.errors import ControlPlaneError

from tests.control_plane.support.logs import folder_of
from tests.node.harbour import Harbour, boot_nodes, settle

_CLUSTER = pytest.StashKey[RealCluster]()
_IMAGES = pytest.StashKey[tuple[str, ...]]()
_NOT_MADE = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build here what is missing: a test has no way to the internet, and a time limit."""
    chosen = [item for item in session.items if item.get_closest_marker("node")]
    if not chosen or session.config.option.collectonly:
        return
    session.stash[_NOT_MADE] = ""
    if missing():
        return
    without_ray = all(item.get_closest_marker("every_run") for item in chosen)
    session.stash[_IMAGES] = images = building.WITHOUT_RAY if without_ray else ()
    try:
        build(_tell, WITH_NODES if without_ray else (*WITH_NODES, *OF_RAY))
        building.build(_tell, images)
        store.prepare(_tell, building.archives(images))
    except ControlPlaneError as error:
        session.stash[_NOT_MADE] = str(error)


def _tell(line: str) -> None:
    print(line, flush=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture, and from one place, so that a session tells what it lacks in one line."""
    if item.get_closest_marker("node"):
        if lacking := missing():
            pytest.skip(one_line(lacking))
        if why := item.session.stash[_NOT_MADE]:
            item.session.shouldfail = why
            pytest.fail(why, pytrace=False)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    session = request.session
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(RealCluster(session.stash[_IMAGES]))
            session.stash[_CLUSTER] = cluster
            boot_nodes(cluster)
        except ControlPlaneError as error:
            session.shouldfail = str(error)
            pytest.fail(str(error), pytrace=False)
        yield cluster
        del session.stash[_CLUSTER]


@pytest.fixture(scope="session")
def _installed(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Harbour:
    harbour = Harbour(cluster, tmp_path_factory.mktemp("harbour"))
    harbour.install()
    return harbour


@pytest.fixture
def harbour(_installed: Harbour) -> Harbour:
    """By day, nothing queued, no worker, every pod ready, every node taking pods."""
    settle(_installed)
    return _installed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the nodes' programs and the pods said until a test failed goes to out/node/."""
    report = yield
    cluster = item.session.stash.get(_CLUSTER, None)
    if report.failed and cluster is not None and cluster.folder.is_dir():  # one that did not come up is gone already
        target = item.config.rootpath / "out" / "node" / folder_of(item.nodeid.removeprefix("tests/node/"))
        shutil.rmtree(target, ignore_errors=True)
        for folder in (cluster.plane.folder, *(each for each in cluster.folder.iterdir() if each.is_dir())):
            for log in (*folder.glob("*.log"), *folder.glob("log/pods/*/*/*.log")):
                place = target / folder.name / log.relative_to(folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(log, place)
    return report
