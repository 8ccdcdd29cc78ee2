"""When services are deployed, and how one deployment goes through a modelled cluster."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster import ClusterModel, GroupModel, Pod, StopReason, WorkloadModel
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.rollouts import Rollout, Rollouts, planned_rollouts
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.builders.simulator import OFFICE_WEEK, a_workload
from tests.counts import examples

HOURS = BusinessHours(timezone="America/New_York", week=OFFICE_WEEK, closed_dates=frozenset({date(2026, 6, 3)}))
SERVICES = {
    "head": a_workload(Category.FIXED),
    "metrics": a_workload(Category.FIXED),
    "api": a_workload(Category.FLEXIBLE),
    "hub": a_workload(Category.FLEXIBLE),
}
SUNDAY = datetime(2026, 5, 31, 18, 30, tzinfo=UTC)
DAY = 86_400.0
LAG = 0.1


def plan(*, days: int = 14, seed: int = 0, hours: BusinessHours = HOURS) -> tuple[Rollout, ...]:
    return planned_rollouts(SERVICES, hours, SUNDAY, days * DAY, seed)


def instant(seconds: float) -> datetime:
    return SUNDAY + timedelta(seconds=seconds)


def test_flexible_services_are_deployed_once_on_each_working_day_and_fixed_ones_once_a_week() -> None:
    days = Counter((rollout.workload, HOURS.local(instant(rollout.at)).date()) for rollout in plan())
    times = Counter(workload for workload, _ in days)

    assert set(days.values()) == {1}
    assert times == {"api": 9, "hub": 9, "head": 2, "metrics": 2}  # one of ten working days is a holiday
    assert {rollout.workload: rollout.surge for rollout in plan()} == {"api": 1, "hub": 1, "head": 0, "metrics": 0}


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 10_000), late=st.integers(1, 600))
def test_every_rollout_starts_in_business_hours_and_knows_when_they_end(seed: int, late: int) -> None:
    night = tuple(WeeklyInterval(weekday, 22 * 60, 24 * 60 + late) for weekday in range(5))
    for hours in (HOURS, BusinessHours(timezone="Europe/Berlin", week=night)):
        for rollout in plan(days=8, seed=seed, hours=hours):
            assert hours.is_open(instant(rollout.at))
            assert hours.next_change(instant(rollout.at)) == instant(rollout.until)


def test_a_longer_replay_has_the_rollouts_of_a_shorter_one() -> None:
    assert plan(days=14)[: len(plan(days=5))] == plan(days=5)
    assert plan(seed=1) != plan(seed=0)


def test_those_of_one_day_are_spread_over_it() -> None:
    local = [HOURS.local(instant(rollout.at)) for rollout in plan()]
    thursday = [at.hour for at in local if at.date() == date(2026, 6, 4)]

    assert len(thursday) >= 2  # the two flexible services, and a fixed one perhaps
    assert thursday[0] < 14 <= thursday[-1]  # open from 8 to 19, the last tenth unused


def test_where_nobody_ever_works_nothing_is_deployed() -> None:
    assert plan(hours=BusinessHours(timezone="UTC", week=())) == ()


class Shop:
    """One node, and a service `api` whose pods need 10 s to start; notes how many pods ran at each change."""

    def __init__(self, *planned: Rollout, replicas: int = 3, room: int = 8) -> None:
        self.timeline = Timeline()
        group = GroupModel(name="flexible", min=1, max=1, cpu_m=room * 1000, memory_mib=64_000, initial=1)
        self.ran: set[int] = set()
        self.cluster = ClusterModel(self.timeline, [group], None, listener=self, cache_lag_s=LAG / 2)
        self.rollouts = Rollouts(self.timeline, self.cluster, planned, cost_lag_s=LAG)
        self.cluster.deploy(
            WorkloadModel(name="api", category="flexible", cpu_m=1000, memory_mib=1000, startup_s=10.0), replicas
        )

    def pod_running(self, pod: Pod) -> None:
        self.note()
        self.rollouts.pod_running(pod.workload)

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:  # noqa: ARG002 - the listener's signature
        assert why is StopReason.SCALED_IN
        self.note()
        return 1.0

    def pod_gone(self, pod: Pod, killed: bool) -> None: ...

    def nodes_changed(self) -> None: ...

    def note(self) -> None:
        if self.timeline.now > 50:
            self.ran.add(sum(pod.healthy for pod in self.cluster.pods("api")))

    def names(self, at: float) -> list[str]:
        self.timeline.run_until(at)
        return [pod.name for pod in self.cluster.pods("api")]


def rollout(at: float = 100.0, *, until: float = 5000.0, surge: int = 1) -> Rollout:
    return Rollout(workload="api", at=at, until=until, surge=surge)


def test_all_pods_are_replaced_one_by_one_with_one_extra() -> None:
    shop = Shop(rollout())

    assert shop.names(99) == ["api-1", "api-2", "api-3"]
    assert len(shop.names(105)) == 4
    assert shop.names(400) == ["api-4", "api-5", "api-6"]
    assert shop.ran == {3, 4}
    assert shop.cluster.replicas("api") == 3


def test_without_surge_an_old_pod_goes_first() -> None:
    shop = Shop(rollout(surge=0))

    assert shop.names(400) == ["api-4", "api-5", "api-6"]
    assert shop.ran == {2, 3}
    assert shop.cluster.replicas("api") == 3


@pytest.mark.parametrize("surge", [0, 1])
def test_a_second_rollout_while_one_is_under_way_is_dropped(surge: int) -> None:
    shop = Shop(rollout(surge=surge), rollout(105.0, surge=surge), rollout(1000.0, surge=surge))

    assert shop.names(900) == ["api-4", "api-5", "api-6"]
    assert shop.names(1900) == ["api-7", "api-8", "api-9"]
    assert shop.cluster.replicas("api") == 3


@pytest.mark.parametrize("surge", [0, 1])
@pytest.mark.parametrize("until", [100.05, 105.0, 110.1, 111.0, 117.0])
def test_at_closing_time_it_stops_with_all_replicas_and_goes_on_with_none(until: float, surge: int) -> None:
    shop = Shop(rollout(until=until, surge=surge))

    kept = shop.names(until + 30)

    assert len(kept) == shop.cluster.replicas("api") == 3
    assert {"api-1", "api-2", "api-3"} & set(kept)
    assert shop.names(2000) == kept


def test_a_rollout_that_finds_no_room_ends_at_closing_time_with_the_old_pods() -> None:
    shop = Shop(rollout(), room=3)

    assert len(shop.names(4000)) == 4
    assert shop.names(5001) == ["api-1", "api-2", "api-3"]
