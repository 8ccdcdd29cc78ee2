"""Workloads that sleep by the clock, in a replay: fewer pods at night, fewer nodes, and the same fixed fleet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest

from controllers.workloads.sleep.calendar import sleep_at
from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Replay, Strategy, StrategyResult
from ebbtide.lab.simulator.setup import replay_setup_of
from ebbtide.lab.simulator.strategies.run import controlled, play
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.rollouts import Rollout
from ebbtide.lab.simulator.world.world import AFTER_THE_MODEL, World
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.sleep import WorkloadSleep
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.workloads import SleepWhen
from tests.builders.replay import priced
from tests.builders.simulator import HOUR, a_job, a_stack, a_trace, a_workload

BY_CLOCK = WorkloadSleep(when=SleepWhen.OUTSIDE_HOURS)
LATER = BY_CLOCK.model_copy(update={"after": timedelta(hours=1)})
BOTH = {"api": BY_CLOCK, "web": LATER}
SUNDAY = datetime(2026, 10, 25, 12)  # noqa: DTZ001 - New York's; its clocks change a week later
DAYS = 9
TRACE = a_trace([a_job(24 * HOUR * day + 1, 3 * HOUR) for day in range(DAYS)])
OPTIONS = ReplayOptions(start=SUNDAY, days=DAYS)


def stack(**naps: WorkloadSleep) -> StackSettings:
    """`api` and `web` share the one flexible node that no job needs."""
    workloads = {
        "api": a_workload(Category.FLEXIBLE, replicas=4),
        "web": a_workload(Category.FLEXIBLE, cpu="500m", memory="1Gi", replicas=5),
        "head": a_workload(Category.FIXED),
    }
    return a_stack(
        workloads={
            name: one.model_copy(update={"sleep": naps[name]}) if name in naps else one
            for name, one in workloads.items()
        }
    )


@cache
def replayed(*sleeping: str) -> Replay:
    return replay(stack(**{name: BOTH[name] for name in sleeping}), TRACE, OPTIONS)


def test_every_minute_each_workload_has_the_pods_of_the_workload_controllers_calendar() -> None:
    """A rollout of `api` is under way whenever business hours end."""
    settings = stack(api=BY_CLOCK, web=LATER.model_copy(update={"replicas": 1}))
    setup = replay_setup_of(settings, TRACE, OPTIONS)
    ends = [nap.begin for nap in setup.asleep if nap.workload == "api" and nap.begin]
    rollouts = [Rollout(workload="api", at=end - 9, until=end, surge=1) for end in ends]
    policies = {policy.name: policy for policy in sleepers_of(settings)}
    wrong: list[str] = []

    def watched(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
        def look() -> None:
            now = setup.start.astimezone(UTC) + timedelta(seconds=world.timeline.now)
            for name, policy in policies.items():
                calendar = sleep_at(now, policy, config.hours)
                least = policy.replicas if calendar.awake else policy.asleep
                most = least + (calendar.reason == "business-hours")  # one more while it is rolled out
                if not least <= world.cluster.replicas(name) <= most:
                    wrong.append(f"{name} at {now}: {world.cluster.replicas(name)}")

        for minute in range(DAYS * 24 * 60):
            world.timeline.at(minute * 60.0, look, AFTER_THE_MODEL)
        controlled(config, world, tally)

    play(StrategyResults(replace(setup, rollouts=tuple(rollouts))).run_of(Strategy.FIXED_FLEXIBLE), watched)

    assert len(setup.asleep) == 2 * 7  # each night from Sunday to Monday week, the weekend as one
    assert wrong == []


def test_their_nodes_go_at_night_and_the_fixed_fleet_stays() -> None:
    awake, sleeping = replayed(), replayed(*BOTH)
    one_alone = replayed("api")

    def hours(of: Replay, strategy: str) -> float:
        return of.strategies[strategy].node_hours_by_group["flexible"]

    closed = DAYS * 24 - 6 * 11 - 3  # six working days, and three hours of Tuesday
    saved = hours(awake, "fixed-flexible") - hours(sleeping, "fixed-flexible")
    assert 0.7 * closed < saved < closed
    for fleet in ("fixed-fleet", "peak-fleet"):
        assert sleeping.strategies[fleet].usd == awake.strategies[fleet].usd
    assert hours(one_alone, "fixed-flexible") == pytest.approx(hours(awake, "fixed-flexible"), rel=0.01)
    assert priced(sleeping.strategies["zero-wait-bound"].usd) < priced(sleeping.strategies["fixed-flexible"].usd)
    assert {result.jobs_done for result in sleeping.strategies.values()} == {DAYS}


def test_the_bound_pays_for_the_pods_that_are_awake() -> None:
    """In shares of a node: 4 pods of 2 cores for what the calendar says, and no pod in between."""
    awake, sleeping = (one.strategies["zero-wait-bound"] for one in (replayed(), replayed("api")))
    setup = replay_setup_of(stack(api=BY_CLOCK), TRACE, OPTIONS)
    slept = sum(min(nap.end, setup.end_s) - nap.begin for nap in setup.asleep) / HOUR
    cores = setup.settings.node_groups["flexible"].types[0].allocatable_cpu / 1000

    def flexible(result: StrategyResult) -> float:
        return result.node_hours_by_group["flexible"]

    assert flexible(awake) - flexible(sleeping) == pytest.approx(8 * slept / cores, rel=0.02)


def test_what_sleeps_when_idle_is_awake_and_the_replay_says_so() -> None:
    idle = stack(api=WorkloadSleep(when=SleepWhen.IDLE))
    options = replace(OPTIONS, strategies=(Strategy.FIXED_FLEXIBLE,))
    played, said = replay(idle, TRACE, options), "api: awake at all times"

    assert played.strategies["fixed-flexible"].usd == replayed().strategies["fixed-flexible"].usd
    assert any(sentence.startswith(said) for sentence in played.assumptions)
    assert any(sentence.startswith("api, web: asleep by") for sentence in replayed(*BOTH).assumptions)
