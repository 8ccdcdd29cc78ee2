"""Where a replay's spot capacity comes from, and what becomes of its jobs."""

from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.report.pages.sentences import scope_line
from ebbtide.lab.simulator.cluster.capacity import Span
from ebbtide.lab.simulator.replay import ReplayError, ReplayOptions, replay
from ebbtide.lab.simulator.results import Replay, Strategy, as_json
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.trace.spot_capacity import CapacityEvent, CapacityFile, CapacityRow
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.lab.simulator.world.spot_capacity import (
    ALONE_WITH_H,
    ALONE_WITHOUT_H,
    TOGETHER_WITH_H,
    TOGETHER_WITHOUT_H,
    CapacitySource,
    Period,
    RecordedCapacity,
    SyntheticCapacity,
)
from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import ClusterSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.replay import priced
from tests.builders.simulator import HOUR, a_job, a_pool, a_saver, a_stack, a_trace

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = Period(start=START, end_s=24 * HOUR, seed=0)
YEAR = Period(start=START, end_s=365 * 24 * HOUR, seed=0)
ONE, TWO = "g5.2xlarge", "g5.4xlarge"


def recorded(*rows: tuple[float, float, str, str], interrupted: float | None = None, dated: bool = False) -> Any:
    """Rows of begin, end, zone and type."""
    begin_s = START.timestamp() if dated else 0.0
    events = [
        CapacityRow(
            begin=begin_s + begin,
            until=begin_s + until,
            dated=dated,
            zone=zone,
            instance_type=kind,
            event=CapacityEvent.NO_CAPACITY,
        )
        for begin, until, zone, kind in rows
    ]
    if interrupted is not None:
        at = begin_s + interrupted
        events.append(
            CapacityRow(begin=at, until=at, dated=dated, zone="", instance_type="", event=CapacityEvent.INTERRUPTION)
        )
    return RecordedCapacity(CapacityFile(name="capacity.csv", rows=tuple(events), sources=("our account",)))


@pytest.mark.parametrize("dated", [False, True])
def test_a_row_counts_for_its_type_and_zone_within_the_replay(dated: bool) -> None:
    source = recorded(
        (-60, 60, "us-east-1a", ONE), (HOUR, 2 * HOUR, "", ""), (30 * HOUR, 31 * HOUR, "", ""), dated=dated
    )

    assert source.without(ONE, "us-east-1a", DAY) == ((0.0, 60.0), (HOUR, 2 * HOUR))
    assert source.without(TWO, "us-east-1a", DAY) == source.without(ONE, "us-east-1b", DAY) == ((HOUR, 2 * HOUR),)
    assert recorded(interrupted=90.0, dated=dated).interrupted(ONE, "us-east-1a", DAY) == (90.0,)
    assert recorded(interrupted=25 * HOUR, dated=dated).interrupted(ONE, "us-east-1a", DAY) == ()


def seconds(spans: tuple[Span, ...]) -> float:
    return sum(until - begin for begin, until in spans)


def test_the_synthetic_capacity_has_the_stated_shares_and_lengths() -> None:
    source = SyntheticCapacity()
    together = TOGETHER_WITHOUT_H / (TOGETHER_WITHOUT_H + TOGETHER_WITH_H)
    alone = ALONE_WITHOUT_H / (ALONE_WITHOUT_H + ALONE_WITH_H)
    in_a, in_b = (source.without(ONE, zone, YEAR) for zone in ("us-east-1a", "us-east-1b"))

    for spans in (in_a, in_b):
        assert seconds(spans) / YEAR.end_s == pytest.approx(1 - (1 - together) * (1 - alone), rel=0.1)
    shared = sum(max(0.0, min(until, end) - max(begin, other)) for begin, until in in_a for other, end in in_b)
    assert shared / YEAR.end_s == pytest.approx(1 - (1 - together) * (1 - alone**2), rel=0.1)


def test_a_replay_begins_at_any_instant_of_the_synthetic_capacity() -> None:
    periods = [Period(start=START, end_s=HOUR, seed=seed) for seed in range(400)]
    begin_without = [SyntheticCapacity().without(ONE, "us-east-1a", period)[:1] for period in periods]

    assert 80 < sum(spans != () and spans[0][0] == 0.0 for spans in begin_without) < 145  # 28 % of 400 are 112


def test_the_synthetic_capacity_follows_from_seed_type_and_zone_alone() -> None:
    source, other = SyntheticCapacity(), Period(start=START, end_s=24 * HOUR, seed=1)
    first = source.without(ONE, "us-east-1a", DAY)

    assert first == source.without(ONE, "us-east-1a", DAY)
    assert first not in (
        source.without(TWO, "us-east-1a", DAY),
        source.without(ONE, "us-east-1b", DAY),
        source.without(ONE, "us-east-1a", other),
    )


@cache
def on_spot(*types: str, fallback: bool = True) -> StackSettings:
    pool = a_pool("large", gpu=1, most=6, checkpoints=a_saver(required=True))
    pool = pool.model_copy(update={"node_group": "cheap", "fallback": "gpu" if fallback else ""})
    stack = a_stack({"large": pool})
    cheap = NodeGroupSettings(kind=NodeKind.SPOT, instance_types=types or (ONE,), max=6 * len(types or (ONE,)))
    groups = {**stack.node_groups, "cheap": cheap.with_fallback() if fallback else cheap}
    return stack.model_copy(update={"node_groups": groups})


@cache
def played(
    source: CapacitySource | None,
    *types: str,
    seed: int = 0,
    fallback: bool = True,
    rate: float = 0.0,
    pause: float = 0.0,
) -> Replay:
    """40 jobs, one each half hour; `pause`: seconds without jobs after the first ten."""
    jobs = [a_job(1800.0 * i + pause * (i >= 10), lasts=1.5 * HOUR + 300 * (i % 7), gpu=1) for i in range(40)]
    options = ReplayOptions(
        days=1,
        start=START,
        seed=seed,
        strategies=(Strategy.FIXED_FLEXIBLE,),
        rollouts=False,
        failures=Failures(spot_interruptions=rate),
        spot_capacity=source,
    )
    return replay(on_spot(*types, fallback=fallback), a_trace(jobs), options)


def figures(replayed: Replay) -> Any:
    return as_json(replayed)["strategies"]["fixed-flexible"]


ALWAYS_OUT = recorded((0.0, 1e6, "", ""))


def test_without_capacity_all_day_every_job_runs_on_demand_and_spot_costs_nothing() -> None:
    result = figures(played(ALWAYS_OUT))

    assert result["node_hours_by_group"]["cheap-8x32x1"] == 0
    assert result["node_hours_by_group"]["gpu"] > 20
    assert result["jobs_done"] == figures(played(None))["jobs_done"]


def test_without_capacity_and_without_a_fallback_jobs_wait() -> None:
    result = figures(played(ALWAYS_OUT, fallback=False))

    assert (result["jobs_done"], result["jobs_unfinished"]) == (0, 40)
    assert result["node_hours_by_group"]["gpu"] == result["node_hours_by_group"]["cheap-8x32x1"] == 0


def test_with_capacity_no_job_runs_on_demand() -> None:
    result = figures(played(None))

    assert result["node_hours_by_group"]["gpu"] == 0
    assert result["node_hours_by_group"]["cheap-8x32x1"] > 20


def test_new_jobs_return_to_spot_and_running_ones_stay_on_demand() -> None:
    """For six hours there is no capacity: their jobs end where they began, and those after a pause are on spot nodes.

    A worker keeps its node while it finds jobs, so without the pause some would go on on demand.
    """
    replayed = played(recorded((0.0, 6 * HOUR, "", "")), pause=4 * HOUR)
    series = replayed.strategies["fixed-flexible"].series
    demand = dict(zip(series.at, series.nodes["gpu"], strict=True))
    spot = dict(zip(series.at, series.nodes["cheap-8x32x1"], strict=True))

    assert max(nodes for at, nodes in spot.items() if at < 6 * HOUR) == 0
    assert max(nodes for at, nodes in demand.items() if at < 6 * HOUR) > 0
    assert max(nodes for at, nodes in demand.items() if at > 9 * HOUR) == 0
    assert max(nodes for at, nodes in spot.items() if at > 9 * HOUR) > 0
    assert figures(replayed)["jobs_interrupted"] == 0


def test_workers_may_use_both_groups_and_prefer_the_first() -> None:
    worker = cluster_plan(on_spot(), Strategy.FIXED_FLEXIBLE).workers["large"]

    assert (worker.one_of, worker.prefers, worker.node_selector) == (frozenset(["cheap", "gpu"]), "cheap", {})


def test_karpenter_provides_a_spot_group_together_with_its_fallback() -> None:
    plan = cluster_plan(on_spot(ONE, TWO), Strategy.KARPENTER)
    weights = {pool.name: pool.weight for pool in plan.node_pools}

    assert weights["cheap"] > weights["gpu"]
    assert not any(group.name.startswith("cheap") for group in plan.groups)


def test_managed_groups_of_a_karpenter_group_have_one_shape_each() -> None:
    stack = on_spot(ONE, TWO)
    by_karpenter = stack.node_groups["cheap"].model_copy(update={"provisioner": Provisioner.KARPENTER})
    stack = stack.model_copy(update={"node_groups": {**stack.node_groups, "cheap": by_karpenter}})
    names = [group.name for group in cluster_plan(stack, Strategy.MANAGED_GROUPS).groups]

    assert [name for name in names if name.startswith("cheap")] == ["cheap-8x32x1", "cheap-16x64x1"]


def test_a_second_shape_takes_the_jobs_when_the_first_has_no_capacity() -> None:
    result = figures(played(recorded((0.0, 1e6, "", ONE)), ONE, TWO))
    hours = result["node_hours_by_group"]

    assert (hours["cheap-8x32x1"], hours["gpu"]) == (0, 0)
    assert hours["cheap-16x64x1"] > 20


def test_capacity_that_is_always_there_changes_no_figure() -> None:
    assert figures(played(recorded((1e6, 2e6, "", "")))) == figures(played(None))


@given(st.integers(0, 50))
def test_no_job_is_lost_whatever_the_seed(seed: int) -> None:
    replayed = played.__wrapped__(SyntheticCapacity(), ONE, TWO, seed=seed, rate=500.0)
    result = figures(replayed)

    assert result["jobs_done"] + result["jobs_unfinished"] == 40
    assert result["jobs_unfinished"] <= 6  # of the last hours
    assert result["lost_work_s"] == 0
    assert result["resumes"] == result["jobs_interrupted"]


def test_interruptions_at_an_instant_concern_all_nodes_of_the_zone() -> None:
    result = figures(played(recorded(interrupted=6 * HOUR)))

    assert result["jobs_interrupted"] == result["resumes"] > 1
    assert result["lost_work_s"] == 0


def test_each_part_is_billed_at_the_spot_price_of_its_type() -> None:
    first, second = (
        priced(played(source, ONE, TWO).strategies["fixed-flexible"].usd)
        for source in (None, recorded((0.0, 1e6, "", ONE)))
    )

    assert first < second


def test_the_source_and_its_effect_are_said() -> None:
    said = "\n".join(played(recorded((0.0, 6 * HOUR, "us-east-1a", ""))).assumptions)

    assert "Spot capacity is that of capacity.csv (source: our account)." in said
    assert (
        "cheap-8x32x1 (g5.2xlarge) has no capacity, of the time: in zone a 25%, in zone b 0%, in all zones at once 0%."
    ) in said
    assert "and capacity on demand is always available" in said
    assert as_json(played(ALWAYS_OUT))["spot_capacity"] == {"name": "capacity.csv", "source": "our account"}
    assert scope_line(played(ALWAYS_OUT)).endswith(", spot capacity of capacity.csv (our account)")
    assert "spot_capacity" not in as_json(played(None))


def test_a_synthetic_source_is_called_synthetic() -> None:
    assert scope_line(played(SyntheticCapacity())).endswith(", synthetic spot capacity")
    assert any(
        text.startswith("Spot capacity is synthetic, drawn from the seed")
        for text in played(SyntheticCapacity()).assumptions
    )


def test_a_source_without_rows_for_the_group_is_said_to_have_none() -> None:
    said = played(recorded((0.0, HOUR, "eu-west-1a", ""))).assumptions

    assert "cheap-8x32x1 (g5.2xlarge): the source has no row for its zones a, b: it always has capacity." in said


def test_an_existing_cluster_has_no_known_zones() -> None:
    stack = on_spot().model_copy(update={"cluster": ClusterSettings(context="prod")})

    with pytest.raises(ReplayError, match="wanted a cluster that the stack creates"):
        replay(stack, a_trace([a_job(0.0)]), ReplayOptions(spot_capacity=ALWAYS_OUT))
