"""The modelled HorizontalPodAutoscaler against three takes each of what the real one did (tests/data/hpa-scenarios)."""

from dataclasses import replace

import pytest

from tests.control_plane.hpa.scenarios import all_scenarios
from tests.fidelity.hpa import HpaScenario, differences, likeness, read_recordings, written
from tests.paths import DATA

RECORDED = {it.name: it for it in read_recordings(DATA / "hpa-scenarios" / "recorded.json")}
by_name = pytest.mark.parametrize("scenario", RECORDED.values(), ids=RECORDED)


@by_name
def test_at_every_look_the_model_writes_what_the_real_one_wrote(scenario: HpaScenario) -> None:
    assert [line for take in scenario.takes for line in differences(scenario, take)] == []


@by_name
def test_alone_it_writes_the_same_numbers_in_their_order_one_look_away_at_most(scenario: HpaScenario) -> None:
    found = likeness(scenario)

    assert found.alone_alike == len(scenario.takes) == 3
    assert found.offset_s is not None
    assert found.offset_s < 1.5 * scenario.sync_s


@by_name
def test_a_take_has_as_many_looks_as_its_time_allows_and_writes(scenario: HpaScenario) -> None:
    """Or it would prove nothing: a look that was left out is a look that was not compared."""
    looks = scenario.end_s / scenario.sync_s
    for take in scenario.takes:
        assert 0.8 * looks <= len(take) <= looks
        assert written(take)


def test_what_was_recorded_is_what_the_recorder_would_play_now() -> None:
    assert [replace(it, takes=()) for it in RECORDED.values()] == [
        replace(it, timeline=list(it.timeline)) for it in all_scenarios()
    ]
