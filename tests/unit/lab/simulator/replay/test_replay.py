"""Whole replays on a small stack: the production loop, a modelled cluster, a day."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from random import Random

import pytest

from controllers.ports import Known, Scale, SetBudget
from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, Replay, Strategy, StrategyResult, as_json
from ebbtide.lab.simulator.setup import ReplayError, ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.plans import FLAGS
from ebbtide.lab.simulator.strategies.run import controlled, play
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.trace.traces import Trace, find_trace
from ebbtide.lab.simulator.world.edges import ActionCounts, ports_of
from ebbtide.lab.simulator.world.world import World, WorldSetup
from ebbtide.prices import PricingAssumption, hourly, spot_typical
from ebbtide.settings import load_stack
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.brokers import BrokerSettings
from ebbtide.settings.sections.business_hours import BusinessHoursSettings, Holidays
from ebbtide.settings.sections.costs import CostSettings
from ebbtide.settings.sections.workers import Source, SourceKind
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import Category
from tests.builders.replay import priced
from tests.builders.simulator import HOUR, OFFICE_WEEK, a_job, a_pool, a_stack, a_trace, a_workload
from tests.paths import DATA

MONDAY_NOON = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - local time of the customer
OPTIONS = ReplayOptions(days=1, start=MONDAY_NOON)
RABBITMQ = {
    "kind": "rabbitmq",
    "url": "amqps://mq.example.com/prod",
    "management": "https://mq.example.com",
    "controller": {"user": "reader", "secret": "rabbit-reader"},
    "consumerTimeout": "30h",
}
TYPES = {"fixed": "m7i.xlarge", "flexible": "m7i.4xlarge", "mixed": "m7i.4xlarge", "gpu": "g5.2xlarge"}
PRICES = {group: hourly("us-east-1", kind) for group, kind in TYPES.items()}


@cache
def stack() -> StackSettings:
    workers = {"train": a_pool(), "vision": a_pool("vision", cpu="6", memory="24Gi", gpu=1, most=4)}
    services = {
        "head": a_workload(Category.FIXED),
        "api": a_workload(Category.FLEXIBLE, cpu="2", replicas=4),
    }
    return a_stack(workers, services)


@cache
def bursts(seed: int = 3) -> Trace:
    """Four bursts of jobs in half a day, one job too large for any pool."""
    rng = Random(seed)
    jobs = [a_job(1.0, cpu=500)]
    for begin in (0, 2 * HOUR, 5 * HOUR, 10 * HOUR):
        jobs += [
            a_job(
                begin + rng.uniform(0, 900),
                rng.expovariate(1 / 1200),
                cpu=rng.choice([1, 4]),
                gpu=rng.choice([0, 0, 1]),
            )
            for _ in range(15)
        ]
    return a_trace(jobs)


@cache
def day() -> Replay:
    return replay(stack(), bursts(), OPTIONS)


def played(
    control: Callable[[ControllerConfig, World, ActionCounts], None], *, safe_stop: bool = True
) -> StrategyResult:
    """The product's cluster under another controller."""
    setup = replay_setup_of(stack(), bursts(), OPTIONS)
    world_setup = WorldSetup(
        start=setup.start, end_s=setup.end_s, flags=FLAGS, safe_stop=safe_stop, quiet_event_s=0.005
    )
    run = StrategyResults(setup).run_of(Strategy.FIXED_FLEXIBLE)
    return play(replace(run, world=world_setup), control)


def careless(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
    """A controller that forgets jobs in transit and shrinks at once, whoever may be busy."""
    ports = ports_of(world, tally)
    pools = [pool.name for pool in config.pools]
    while ports.waker.wait(timedelta(seconds=30)):
        for pool, reading in ports.demand.read(pools).items():
            assert isinstance(reading, Known)
            replicas = min(10, reading.waiting + reading.running)
            if replicas != world.cluster.replicas(pool):
                ports.cluster.act(Scale(pool=pool, replicas=replicas, version=None, reason="careless"))


def always_open(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
    """The production loop, after somebody opened the budgets at noon and took them out of its hands."""
    for budget in config.budgets:
        ports_of(world, tally).cluster.act(
            SetBudget(budget=budget.name, max_unavailable=1, version=None, reason="opened by hand")
        )
    controlled(replace(config, budgets=()), world, tally)


@pytest.mark.parametrize("broker", [{"kind": "sqs"}, RABBITMQ])
def test_pools_in_a_broker_are_replayed_as_those_in_redis(broker: dict[str, object]) -> None:
    source = Source(kind=SourceKind.CONSUMER, broker="jobs", queues=("train",))
    workers = {**stack().workers, "train": stack().workers["train"].model_copy(update={"source": source})}
    in_broker = stack().model_copy(
        update={"workers": workers, "brokers": {"jobs": BrokerSettings.model_validate(broker)}}
    )
    options = replace(OPTIONS, strategies=(Strategy.FIXED_FLEXIBLE,))

    assert replay(in_broker, bursts(), options).strategies == replay(stack(), bursts(), options).strategies


@pytest.mark.parametrize("strategy", [each for each in DEFAULT_STRATEGIES if each is not Strategy.KEDA_DEFAULTS])
def test_every_job_is_done_or_unfinished_and_none_is_interrupted(strategy: Strategy) -> None:
    result = day().strategies[strategy]

    assert day().jobs == 60
    assert result.jobs_done + result.jobs_unfinished == 60
    assert result.jobs_done >= 55
    assert result.jobs_interrupted == 0
    assert result.evictions_in_business_hours == 0


def test_keda_with_its_defaults_interrupts_jobs_where_bursts_end_unevenly_and_they_start_again() -> None:
    keda = day().strategies["keda-defaults"]

    assert keda.jobs_interrupted > 0
    assert keda.lost_work_s > 0
    assert keda.jobs_done + keda.jobs_unfinished == 60


def test_a_careless_controller_with_stock_workers_interrupts_jobs() -> None:
    assert played(careless, safe_stop=False).jobs_interrupted > 0


def test_the_safe_worker_is_a_net_even_under_a_careless_controller() -> None:
    assert played(careless).jobs_interrupted == 0


def test_budgets_that_are_open_by_day_let_the_autoscaler_evict_by_day() -> None:
    assert played(always_open).evictions_in_business_hours > 0


def test_the_night_moves_flexible_pods_and_saves_nodes() -> None:
    product, kept = day().strategies["fixed-flexible"], day().strategies["worker-autoscaling"]

    assert product.evictions_in_window > 0
    assert (product.budget_openings, kept.budget_openings, kept.evictions_in_window) == (1, 0, 0)


def test_the_fixed_fleet_waits_no_longer_in_any_pool_and_costs_more() -> None:
    product, fleet = day().strategies["fixed-flexible"], day().strategies["fixed-fleet"]

    assert fleet.pools.keys() == product.pools.keys()
    assert all(fleet.pools[pool].wait_p95_s <= product.pools[pool].wait_p95_s for pool in product.pools)
    assert all(fleet.pools[pool].jobs_unfinished <= product.pools[pool].jobs_unfinished for pool in product.pools)
    assert product.saving_vs_fixed_fleet == pytest.approx(1 - priced(product.usd) / priced(fleet.usd))
    assert priced(fleet.usd) > priced(product.usd) > 0
    assert fleet.saving_vs_fixed_fleet is None
    assert day().attainable == day().strategies["zero-wait-bound"].saving_vs_fixed_fleet
    assert day().strategies["peak-fleet"].wait_p99_s == 0


@pytest.mark.parametrize(
    "strategy", [strategy for strategy in DEFAULT_STRATEGIES if strategy is not Strategy.ZERO_WAIT_BOUND]
)
def test_node_hours_are_the_integral_of_the_nodes_shown(strategy: Strategy) -> None:
    """Two accounts of one thing: the cluster's meter, and the samples that the dollars are reckoned from."""
    result = day().strategies[strategy]
    ends = (*result.series.at[1:], 24 * HOUR)
    shown = {
        group: sum(n * (end - at) for n, at, end in zip(counts, result.series.at, ends, strict=True)) / 3600
        for group, counts in result.series.nodes.items()
    }

    assert result.node_hours == pytest.approx(sum(result.node_hours_by_group.values()))
    assert result.usd == pytest.approx(
        sum(hours * PRICES[group] for group, hours in result.node_hours_by_group.items())
    )
    assert len(result.usd_per_day) == 2  # noon to midnight to noon
    assert min(result.usd_per_day) > 0
    for group, hours in result.node_hours_by_group.items():
        assert hours == pytest.approx(shown[group])


def test_a_plan_is_paid_for_the_floor_of_the_product_and_for_the_whole_fixed_fleet() -> None:
    """By hand: one fixed node all day at the plan's rate, what comes and goes on demand."""
    costs = CostSettings(pricing_assumption=PricingAssumption.COMPUTE_1Y)
    planned = replay(stack().model_copy(update={"costs": costs}), bursts(), OPTIONS).strategies
    product, fleet = planned["fixed-flexible"], planned["fixed-fleet"]
    covered = {group: hourly("us-east-1", kind, PricingAssumption.COMPUTE_1Y) for group, kind in TYPES.items()}

    above = {**product.node_hours_by_group, "fixed": product.node_hours_by_group["fixed"] - 24}
    by_hand = 24 * covered["fixed"] + sum(hours * PRICES[group] for group, hours in above.items())
    assert product.usd == pytest.approx(by_hand)
    assert fleet.usd == pytest.approx(sum(hours * covered[group] for group, hours in fleet.node_hours_by_group.items()))
    assert product.saving_vs_fixed_fleet == pytest.approx(1 - priced(product.usd) / priced(fleet.usd))


def test_with_spot_flexible_nodes_above_their_minimum_cost_the_typical_spot_price() -> None:
    """By hand: the stack's flexible group has no minimum, and the mixed one has the fixed group's node."""
    product, mixed = day().strategies["fixed-flexible"], day().strategies["cluster-autoscaling"]
    cheaper = PRICES["flexible"] - spot_typical("us-east-1", TYPES["flexible"])

    assert product.usd_on_demand == pytest.approx(product.usd)
    assert product.usd_with_spot == pytest.approx(
        priced(product.usd) - cheaper * product.node_hours_by_group["flexible"]
    )
    assert mixed.usd_with_spot == pytest.approx(priced(mixed.usd) - cheaper * (mixed.node_hours_by_group["mixed"] - 24))


@pytest.mark.parametrize(("options", "first"), [(OPTIONS, 5), (replace(OPTIONS, rollouts=False), 1)])
def test_a_deployed_service_has_new_pods_and_no_evictions(options: ReplayOptions, first: int) -> None:
    setup = replay_setup_of(stack(), bursts(), options)
    world_setup = WorldSetup(start=setup.start, end_s=setup.end_s, flags=FLAGS, rollouts=setup.rollouts)
    seen: list[str] = []

    def watched(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
        controlled(config, world, tally)
        seen.extend(pod.name for pod in world.cluster.pods("api"))

    run = StrategyResults(setup).run_of(Strategy.WORKER_AUTOSCALING)
    result = play(replace(run, world=world_setup), watched)

    assert sorted(seen) == [f"api-{number}" for number in range(first, first + 4)]
    assert (result.evictions_in_window, result.evictions_in_business_hours, result.jobs_interrupted) == (0, 0, 0)


def test_the_assumptions_say_whether_services_are_deployed() -> None:
    without = replay(stack(), bursts(), replace(OPTIONS, rollouts=False, strategies=(Strategy.FIXED_FLEET,)))

    assert any(
        sentence.startswith("Services are deployed: each flexible workload once") for sentence in day().assumptions
    )
    assert any(sentence.startswith("Services are never deployed") for sentence in without.assumptions)
    assert (day().rollouts, without.rollouts) == (True, False)


def test_the_same_seed_gives_the_same_document() -> None:
    first, again = (as_json(replay(stack(), bursts(), OPTIONS)) for _ in range(2))

    assert first | {"replay_seconds": 0} == again | {"replay_seconds": 0}
    assert as_json(day())["seed"] == 0


def test_another_seed_gives_other_pop_windows() -> None:
    other = replay(stack(), bursts(), replace(OPTIONS, seed=1, strategies=(Strategy.FIXED_FLEXIBLE,)))

    assert other.strategies["fixed-flexible"].wait_p50_s != day().strategies["fixed-flexible"].wait_p50_s


def test_only_the_strategies_asked_for_are_shown_with_their_saving() -> None:
    options = replace(OPTIONS, strategies=(Strategy.WORKER_AUTOSCALING,))

    shown = replay(stack(), bursts(), options).strategies

    assert list(shown) == ["worker-autoscaling"]
    assert shown["worker-autoscaling"] == day().strategies["worker-autoscaling"]


def test_longer_jobs_are_left_out_and_said_to_be() -> None:
    short = replay(stack(), bursts(), replace(OPTIONS, max_job_s=600.0, strategies=(Strategy.FIXED_FLEET,)))
    longer = sum(job.duration_s > 600 for job in bursts().jobs)

    assert short.jobs + longer == 61 - sum(short.jobs_unfit.values())
    assert any(sentence.startswith(f"{longer} jobs longer than --max-job") for sentence in short.assumptions)


def test_jobs_of_later_days_are_not_part_of_the_replay() -> None:
    later = a_trace([a_job(0), a_job(23 * HOUR), a_job(24 * HOUR), a_job(30 * HOUR)])

    setup = replay_setup_of(stack(), later, OPTIONS)

    assert [job.submitted_at for job in setup.jobs] == [0, 23 * HOUR]
    assert setup.end_s == 24 * HOUR


def test_the_holidays_are_those_of_the_replayed_year() -> None:
    hours = BusinessHoursSettings(timezone="America/New_York", week=OFFICE_WEEK, holidays=Holidays(country="US"))
    american = stack().model_copy(update={"business_hours": hours})
    fourth_of_july = datetime(2040, 7, 4, 12)  # noqa: DTZ001 - local time of the customer; a Wednesday

    setup = replay_setup_of(american, bursts(), replace(OPTIONS, start=fourth_of_july))

    assert not setup.config.hours.is_open(setup.start)
    assert setup.config.hours.is_open(setup.start + timedelta(days=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (replace(OPTIONS, days=2), "wanted 1 to 1 days, found 2"),
        (replace(OPTIONS, max_job_s=0.001), "wanted at least one job of the allowed length"),
    ],
)
def test_what_cannot_be_replayed_is_said_in_one_line(options: ReplayOptions, message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        replay(stack(), bursts(), options)


def test_a_trace_of_jobs_that_fit_nowhere_is_refused_with_the_reasons() -> None:
    with pytest.raises(ReplayError, match=r"none of its 1 jobs fits a worker pool of the stack \(1 too-much-cpu\)"):
        replay(stack(), a_trace([a_job(0, cpu=500)]), OPTIONS)


def test_the_demos_pools_run_at_least_95_percent_of_the_bundled_traces_jobs_up_to_8_hours() -> None:
    setup = replay_setup_of(load_stack("demo", DATA), find_trace("openb2023-a"), ReplayOptions(max_job_s=8 * HOUR))

    assert setup.assignment.coverage.jobs >= 0.95
    assert setup.assignment.coverage.cpu_hours >= 0.95


def test_a_fleet_for_many_short_jobs_does_not_leave_the_few_long_ones_unfinished() -> None:
    """18 jobs of 1,218 are within five percent: over all jobs together, one GPU node would be "as good"."""
    short = [a_job(number * 216.0, 10.0, queue="short") for number in range(1200)]
    long = [a_job((day * 24 + 9) * HOUR + k * 600, 6 * HOUR, gpu=1, queue="long") for day in range(3) for k in range(6)]
    pools = {"short": a_pool("short", most=30), "long": a_pool("long", gpu=1, cpu="6", most=8)}
    large = a_stack(pools)
    groups = {**large.node_groups, "gpu": large.node_groups["gpu"].model_copy(update={"max": 8})}

    options = replace(OPTIONS, days=3, strategies=(Strategy.FIXED_FLEXIBLE, Strategy.FIXED_FLEET))
    result = replay(large.model_copy(update={"node_groups": groups}), a_trace([*short, *long]), options)
    product, fleet = result.strategies["fixed-flexible"], result.strategies["fixed-fleet"]

    assert (product.pools["long"].jobs_unfinished, fleet.pools["long"].jobs_unfinished) == (0, 0)
    assert fleet.wait_p99_s <= product.wait_p99_s < HOUR
    assert fleet.node_hours_by_group["gpu"] == 6 * 72.0
    assert (result.overloads, result.by_queue) == ((), True)
