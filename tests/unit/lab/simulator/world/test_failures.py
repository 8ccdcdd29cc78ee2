"""What a replay may let fail: rates from the price tables, refusals, sentences, and whole replays with losses."""

import math
from datetime import datetime
from functools import cache

import pytest

from ebbtide.lab.simulator.replay import replay
from ebbtide.lab.simulator.results import Strategy, StrategyResult
from ebbtide.lab.simulator.setup import ReplayOptions
from ebbtide.lab.simulator.world.failures import Failures, accidents_of, failure_assumptions, rate_per_hour
from ebbtide.prices import interruption_band
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.simulator import HOUR, a_job, a_pool, a_stack, a_trace

START = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - local time of the customer
SPOT_TYPES = ("m7i.4xlarge", "m6i.4xlarge")


@cache
def on_spot() -> StackSettings:
    stack = a_stack({"train": a_pool(longest=2 * HOUR).model_copy(update={"node_group": "cheap"})})
    cheap = NodeGroupSettings(kind=NodeKind.SPOT, instance_types=SPOT_TYPES, max=20)
    return stack.model_copy(update={"node_groups": {**stack.node_groups, "cheap": cheap}})


@cache
def day(failures: Failures, seed: int = 0) -> StrategyResult:
    trace = a_trace([a_job(600.0 * i, lasts=1800.0 + 300 * (i % 5)) for i in range(100)])
    options = ReplayOptions(
        days=1, start=START, seed=seed, strategies=(Strategy.FIXED_FLEXIBLE,), rollouts=False, failures=failures
    )
    return replay(on_spot(), trace, options).strategies["fixed-flexible"]


def test_a_rate_is_the_bands_chance_of_a_month_spread_over_its_hours() -> None:
    assert 1 - math.exp(-730 * rate_per_hour("5-10%")) == pytest.approx(0.075)
    assert rate_per_hour(None) == rate_per_hour(">20%") > rate_per_hour("15-20%") > rate_per_hour("<5%") > 0


def test_the_band_is_that_of_the_region_and_type() -> None:
    assert interruption_band("us-east-1", "t3.large") == "5-10%"
    assert interruption_band("us-east-1", "no.such") is None


def test_only_spot_groups_are_taken_back() -> None:
    accidents = accidents_of(Failures(spot_interruptions=2), on_spot())

    assert accidents is not None
    band = interruption_band("us-east-1", "m7i.4xlarge")
    assert accidents.interruptions_per_hour == {"cheap": 2 * rate_per_hour(band)}


def test_without_failures_there_is_nothing_to_expect_and_nothing_to_say() -> None:
    assert accidents_of(Failures(), on_spot()) is None
    assert list(failure_assumptions(Failures(), a_stack())) == []


def test_a_stack_with_spot_nodes_says_that_they_stay() -> None:
    (result,) = failure_assumptions(Failures(), on_spot())

    assert result.startswith("Spot nodes are never interrupted; --spot-interruptions 1 interrupts them at the rate")


@pytest.mark.parametrize(("times", "sentences"), [(0, 1), (1, 0)])
def test_a_replay_says_once_that_nodes_are_not_interrupted_and_never_if_they_are(times: float, sentences: int) -> None:
    options = ReplayOptions(
        days=1, start=START, strategies=(Strategy.FIXED_FLEXIBLE,), failures=Failures(spot_interruptions=times)
    )
    assumptions = replay(on_spot(), a_trace([a_job(600.0, lasts=1800.0)]), options).assumptions

    assert sum("--spot-interruptions" in sentence for sentence in assumptions) == sentences


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"failed_boots": 1.0}, "failed_boots: wanted a finite number, 0 or more, below 1, found 1.0"),
        ({"failed_boots": -0.1}, "failed_boots: wanted a finite number, 0 or more, below 1, found -0.1"),
        ({"slow_boots": 3.0}, "slow_boots: wanted a finite number, 0 or more, below 3, found 3.0"),
        ({"spot_interruptions": math.nan}, "spot_interruptions: wanted a finite number, 0 or more, found nan"),
        ({"missed_notices": 1.01}, "missed_notices: wanted a finite number, 0 or more, at most 1, found 1.01"),
        ({"image_pull_s": math.inf}, "image_pull_s: wanted a finite number, 0 or more, found inf"),
    ],
)
def test_what_cannot_be_played_is_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Failures(**given)


def test_each_failure_is_said_with_its_figures() -> None:
    failures = Failures(spot_interruptions=3, missed_notices=1.0, failed_boots=0.02, slow_boots=0.5, image_pull_s=90)

    spot, missed, boots, slow, pull, fleets = failure_assumptions(failures, on_spot())

    rate = 3 * rate_per_hour(interruption_band("us-east-1", "m7i.4xlarge"))
    assert spot.startswith(f"A node of cheap is interrupted after {1 / rate:,.0f} hours on average: 3 times the rate")
    assert missed == "100% of the interruptions come without notice, at once."
    assert boots.startswith("2.0% of launches never become a node")
    assert "of 0.5: one in 20 takes 2.3 times as long" in slow.replace("logarithm of 0.5", "of 0.5")
    assert pull.startswith("The first pod of a workload on a node starts 90 s later")
    assert fleets.startswith("The constant fleets and the bound are calculated without failures")


def test_interruptions_on_a_stack_without_spot_nodes_are_said_to_be_none() -> None:
    assert next(failure_assumptions(Failures(spot_interruptions=1), a_stack())).startswith(
        "Spot interruptions were requested, but no"
    )


def test_taken_back_nodes_cost_work_and_no_job() -> None:
    calm, rough = day(Failures()), day(Failures(spot_interruptions=2000))

    assert (calm.jobs_interrupted, calm.lost_work_s) == (0, 0)
    assert rough.jobs_interrupted > 0
    assert 0 < rough.lost_work_s <= rough.jobs_interrupted * 3000.0
    assert calm.jobs_done + calm.jobs_unfinished == rough.jobs_done + rough.jobs_unfinished == 100
    assert rough.jobs_done >= 90


def test_images_that_have_to_be_pulled_make_the_first_jobs_wait() -> None:
    calm, rough = day(Failures()), day(Failures(image_pull_s=300.0))

    assert max(rough.wait_quantiles_s) >= max(calm.wait_quantiles_s) + 299


def test_boots_that_fail_make_jobs_wait_and_cost_none() -> None:
    rough = day(Failures(failed_boots=0.9, slow_boots=0.5))

    assert max(rough.wait_quantiles_s) > 900
    assert (rough.jobs_interrupted, rough.lost_work_s) == (0, 0)
    assert rough.jobs_done + rough.jobs_unfinished == 100


def test_machines_that_fail_are_on_the_bill_for_as_long_as_they_were_there() -> None:
    result = day(Failures(spot_interruptions=2000, failed_boots=0.2))
    ends = (*result.series.at[1:], 24 * HOUR)

    for group, counts in result.series.nodes.items():
        shown = sum(n * (end - at) for n, at, end in zip(counts, result.series.at, ends, strict=True)) / 3600
        assert result.node_hours_by_group[group] == pytest.approx(shown)


def test_the_same_seed_fails_alike_and_another_otherwise() -> None:
    failures = Failures(spot_interruptions=2000, failed_boots=0.1)
    again = day.__wrapped__(failures)

    assert again == day(failures)
    assert day(failures, seed=1) != again
