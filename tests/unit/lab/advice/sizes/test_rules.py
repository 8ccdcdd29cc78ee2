"""What a container should request: each rule by itself."""

import pytest

from ebbtide.lab.advice.sizes.evidence import Confidence, ContainerUsage, MeasuredAmount, confidence
from ebbtide.lab.advice.sizes.rules import ResourceName
from tests.builders.evidence.of_sizes import EVIDENCE, asked, decided, steady, use

CPU, MEMORY = ResourceName.CPU, ResourceName.MEMORY


def test_a_request_goes_down_to_what_was_seen_and_a_margin() -> None:
    assert (decided(CPU, use(cpu=500)).to, decided(MEMORY, use(memory=1000)).to) == (600, 1152)


def test_fixed_containers_and_those_with_state_keep_twice_the_margin() -> None:
    careful = asked(careful=True)

    assert (decided(CPU, use(cpu=500), careful).to, decided(MEMORY, use(memory=1000), careful).to) == (650, 1408)


def test_a_request_that_was_exceeded_goes_up() -> None:
    assert decided(CPU, use(cpu=2500)).to == 2900
    assert decided(MEMORY, use(memory=4096)).to == 4864


def test_a_peak_within_the_margin_is_no_new_advice() -> None:
    assert not decided(MEMORY, use(memory=3800)).changes
    assert decided(MEMORY, use(memory=3800)).reason == "fits: 3.8Gi used at most"


def test_less_than_a_tenth_is_not_worth_a_rollout() -> None:
    assert not decided(CPU, use(cpu=1650)).changes
    assert decided(CPU, use(cpu=1500)).lowers


@pytest.mark.parametrize("days", [0, 6])
def test_too_little_evidence_changes_nothing(days: int) -> None:
    for resource in ResourceName:
        verdict = decided(resource, use(cpu=9000, memory=9000, days=days, kills=3))
        assert (verdict.changes, verdict.reason) == (False, f"not enough evidence yet: {days} days of 7")


def test_after_a_kill_memory_goes_up_by_a_fifth_whatever_was_seen() -> None:
    verdict = decided(MEMORY, use(memory=1000, kills=2, killed_at=4096))

    assert (verdict.to, verdict.short) == (5120, True)
    assert verdict.reason == "2 kills for lack of memory at 4Gi"


def test_after_a_kill_a_small_container_gets_100_mib_more_at_least() -> None:
    assert decided(MEMORY, use(memory=60, kills=1, killed_at=64), asked(memory=64)).to == 192


def test_a_kill_before_the_last_raise_raises_nothing_again_and_lowers_nothing() -> None:
    verdict = decided(MEMORY, use(memory=1000, kills=2, killed_at=2048))

    assert not verdict.changes
    assert verdict.reason == "not lowered: 2 kills for lack of memory at 2Gi, and it was raised since"


def test_where_kills_are_not_recorded_memory_is_not_lowered() -> None:
    assert (
        decided(MEMORY, use(memory=1000, kills=None)).reason == "not lowered: kills for lack of memory are not recorded"
    )
    assert decided(MEMORY, use(memory=5000, kills=None)).to > 5000


def test_memory_that_grows_is_never_lowered_and_named() -> None:
    assert decided(MEMORY, use(memory=1000, growing=True)).reason.endswith("higher every day: look for a leak")
    assert not decided(MEMORY, use(memory=1000, growing=True)).changes
    assert "look for a leak" in decided(MEMORY, use(memory=5000, growing=True)).reason
    assert "leak" not in decided(MEMORY, use(memory=5000)).reason
    assert "leak" not in decided(CPU, use(cpu=500, growing=True)).reason


def test_throttled_cpu_goes_up_from_its_request_at_the_time() -> None:
    verdict = decided(CPU, use(cpu=500, throttled=0.2, throttled_at=2000), asked(limits_cpu=True))

    assert (verdict.to, verdict.short) == (2500, True)
    assert verdict.reason == "its limit throttled it in 20 % of all periods at 2"


def test_throttling_before_the_last_raise_raises_nothing_again_and_lowers_nothing() -> None:
    verdict = decided(CPU, use(cpu=500, throttled=0.2, throttled_at=1000), asked(limits_cpu=True))

    assert not verdict.changes
    assert "raised since" in verdict.reason


def test_cpu_with_a_limit_is_lowered_only_where_throttling_was_counted() -> None:
    limited = asked(limits_cpu=True)

    assert not decided(CPU, use(cpu=500), limited).changes
    assert decided(CPU, use(cpu=500, throttled=0.01), limited).to == 600
    assert decided(CPU, use(cpu=500)).to == 600


def test_what_an_autoscaler_measures_by_is_raised_and_never_lowered() -> None:
    scaled = asked(scaled_by=frozenset({CPU}))

    assert decided(CPU, use(cpu=500), scaled).reason == "not lowered: its autoscaler's target is a share of its cpu"
    assert decided(CPU, use(cpu=2500), scaled).to == 2900
    assert decided(MEMORY, use(memory=1000), scaled).lowers


def test_what_the_vertical_autoscaler_sets_is_left_to_it() -> None:
    verdict = decided(MEMORY, use(memory=9000, kills=1), asked(set_by="the Vertical Pod Autoscaler"))

    assert (verdict.changes, verdict.reason) == (False, "the Vertical Pod Autoscaler sets it")


def test_memory_keeps_room_for_shared_memory() -> None:
    assert decided(MEMORY, use(memory=500), asked(least_memory=2048)).to == 2048


def test_ray_gets_whole_cores() -> None:
    assert decided(CPU, use(cpu=4500), asked(cpu=15000, whole_cores=True)).to == 6000


def test_what_was_not_recorded_stays() -> None:
    assert decided(CPU, ContainerUsage(days=9, memory=steady(1000))).reason == "no use of it is recorded"


@pytest.mark.parametrize(
    ("older", "newer", "days", "found"),
    [
        (100, 105, 14, Confidence.HIGH),
        (100, 105, 13, Confidence.MEDIUM),
        (100, 120, 14, Confidence.MEDIUM),
        (100, 140, 14, Confidence.LOW),
    ],
)
def test_confidence_is_that_both_halves_say_the_same(older: float, newer: float, days: int, found: Confidence) -> None:
    assert confidence(MeasuredAmount(max(older, newer), older, newer), days, EVIDENCE) is found
