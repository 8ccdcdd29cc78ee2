"""No job is lost, cut short or run twice while its pool grows, shrinks to zero, is rolled out or drained around it."""

from collections.abc import Iterator

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane

from tests.control_plane.support.bursts import HANDS_OFF, Bursts, Platform, platform
from tests.counts import count

pytestmark = [pytest.mark.control_plane, pytest.mark.redis]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane(hands_off=HANDS_OFF) as plane, platform(plane, tmp_path_factory.mktemp("bursts")) as stage:
        yield stage


def test_ten_bursts_are_done_once_each_and_leave_no_worker(stage: Platform) -> None:
    judged(stage, seed=1, bursts=10)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_hundred_bursts_are_done_once_each_and_leave_no_worker(stage: Platform) -> None:
    judged(stage, seed=2, bursts=count(100, 10))


def judged(stage: Platform, *, seed: int, bursts: int) -> None:
    before, run = stage.sent, Bursts(stage, seed)

    run.run(bursts)

    assert stage.broken() == []
    assert stage.sent - before > 3 * bursts
    assert run.met > 0
    print(f"{bursts} bursts, {stage.sent - before} jobs, {stage.told().total()} workers told to stop, {run.met} met")
