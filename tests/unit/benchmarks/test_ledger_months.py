"""Months whose alternatives are known: truths in the stated ranges, and ranges of wrong months beside them."""

from dataclasses import replace

import pytest

from benchmarks.known_month import Known, known
from benchmarks.known_recordings import KARPENTER, karpenter_month, night_month
from benchmarks.known_stacks import stack_named
from benchmarks.ledger_months import Stated, case_of, course_of, measured, row, stated_in
from ebbtide.lab.ledger.fleets import fleets_for_workers
from ebbtide.lab.ledger.month import Month
from ebbtide.lab.ledger.reading import RecordedMonth

NEVER_OPEN, PEAK, PEAK_WORKERS = "budgets never open", "peak fleet", "workers at the peak"
FEBRUARY = Month(year=2027, month=2, zone="Europe/Berlin")  # the shortest


def stated(month: Known, recording: RecordedMonth | None = None) -> dict[str, Stated]:
    document = measured(month if recording is None else replace(month, recording=recording))
    alternatives = {it.name: it for it in stated_in([{"name": "", "tags": (), **document}])}
    assert alternatives.keys() == month.truths.keys()
    return alternatives


def missed(month: Known) -> set[str]:
    """The alternatives whose truth is outside of the stated range, or that have none."""
    return {name for name, it in stated(month).items() if it.miss or it.width is None}


def noticed(month: Known, recording: RecordedMonth) -> set[str]:
    """The alternatives that miss the truth with another recording, or have a range more than twice as wide."""
    right = stated(month)
    return {name for name, it in stated(month, recording).items() if it.miss or width(it) > 2.1 * width(right[name])}


def width(alternative: Stated) -> float:
    assert alternative.width is not None
    return alternative.width


@pytest.fixture(scope="module")
def of_karpenter() -> Known:
    return karpenter_month("pdb-zero-blocks-then-opens", FEBRUARY)


@pytest.mark.parametrize("scenario", KARPENTER)
def test_the_states_of_the_real_karpenter_lie_in_the_stated_ranges(scenario: str) -> None:
    assert missed(karpenter_month(scenario, FEBRUARY)) == set()


def test_the_day_and_night_of_the_real_control_plane_lie_in_the_stated_ranges() -> None:
    assert missed(night_month()) == set()


def test_nodes_of_twice_the_size_are_noticed(of_karpenter: Known) -> None:
    sightings = of_karpenter.recording.sightings
    larger = {
        replace(key, instance_type="m7i.4xlarge") if key.group == "flexible" else key: times
        for key, times in sightings.seen.items()
    }
    recording = replace(of_karpenter.recording, prices={}, sightings=replace(sightings, seen=larger))

    assert {NEVER_OPEN, PEAK} <= noticed(of_karpenter, recording)


def test_a_quarter_of_the_workers_is_noticed(of_karpenter: Known) -> None:
    wanted = {
        pool: tuple((at, workers / 4) for at, workers in steps) for pool, steps in of_karpenter.recording.wanted.items()
    }

    assert noticed(of_karpenter, replace(of_karpenter.recording, wanted=wanted)) == {NEVER_OPEN, PEAK_WORKERS}


def test_a_month_of_the_second_model_lies_in_the_stated_ranges() -> None:
    case = case_of(0)
    plain = replace(case, year=2027, month=2, load=0.15, holes=(), cluster=replace(case.cluster, is_plain=True))
    month = known(course_of(plain))

    assert missed(month) == set()
    assert measured(month)["paid"][1:] == pytest.approx([month.paid_usd] * 2, rel=0.01)


def test_services_are_once_in_a_fleet_and_on_whichever_group_has_nodes_first() -> None:
    """The fleet of a seed has services on one more node of the group `memory`, or on nodes of `flexible`."""
    settings = stack_named("two flexible groups")
    _, fleets = fleets_for_workers(settings, {"join": 4, "prep": 4}, {}, FEBRUARY.begin)

    counts = [{each.group: each.count for each in nodes} for nodes in fleets]
    assert {"fixed": 3, "flexible": 2, "memory": 3} in counts
    assert {"fixed": 3, "flexible": 1, "memory": 4} in counts


def test_a_row_counts_a_missing_range_as_not_contained_and_has_its_median_width() -> None:
    ranges = ((95.0, 105.0), (101.0, 121.0), (60.0, 90.0), (None, None))
    of_four = [Stated(month="1", tags=(), name=PEAK, truth=100.0, low=low, high=high) for low, high in ranges]

    assert row("all", of_four) == "| all | 4 | 25% | 20.0% | 30% | 10.0% |"
