"""The autoscaler object's arithmetic, by hand."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.strategies.hpa import (
    Hpa,
    HpaBehavior,
    HpaMetric,
    HpaPolicy,
    HpaRules,
    HpaSight,
    HpaSpec,
    TargetKind,
    hpa_of_total,
    proposal,
)

SPEC = hpa_of_total(2, least=1, most=20)
BEHAVIOR = HpaBehavior(
    up=HpaRules(policies=(HpaPolicy(15, percent=100), HpaPolicy(15, pods=4)), stabilization_s=0, tolerance=0.05),
    down=HpaRules(policies=(HpaPolicy(60, percent=25), HpaPolicy(60, pods=1)), stabilization_s=300),
)
STEPPED = HpaSpec(metrics=(HpaMetric(TargetKind.TOTAL, 2),), least=1, most=40, behavior=BEHAVIOR)


def sync(hpa: Hpa, now: float, replicas: int, *values: float | None, ready: int | None = None) -> int:
    return hpa.sync(now, HpaSight(replicas, values, ready))


def followed(hpa: Hpa, metric: float, *, replicas: int, start: float, beats: int) -> list[int]:
    result: list[int] = []
    for beat in range(beats):
        replicas = sync(hpa, start + 15 * beat, replicas, metric)
        result.append(replicas)
    return result


def of_two(*kinds: TargetKind) -> HpaSpec:
    metrics = tuple(HpaMetric(kind, 10) for kind in kinds)
    return HpaSpec(metrics=metrics, least=1, most=40, behavior=BEHAVIOR)


def test_it_is_off_while_there_are_no_replicas() -> None:
    assert sync(Hpa(SPEC), 0, 0, 100) == 0


def test_it_grows_to_four_or_doubles_in_one_go() -> None:
    assert followed(Hpa(SPEC), 100, replicas=1, start=15, beats=4) == [4, 8, 16, 20]


def test_within_a_tenth_of_the_target_nothing_changes() -> None:
    assert sync(Hpa(SPEC), 0, 10, 21) == 10
    assert sync(Hpa(SPEC), 0, 10, 23) == 12


def test_it_falls_to_the_most_it_wanted_in_the_last_five_minutes() -> None:
    hpa = Hpa(SPEC)
    sync(hpa, 0, 10, 20)
    sync(hpa, 100, 10, 8)

    assert sync(hpa, 299, 10, 0) == 10
    assert sync(hpa, 300, 10, 0) == 4
    assert sync(hpa, 400, 4, 0) == 1


def test_what_somebody_else_scaled_out_of_range_comes_back_at_once() -> None:
    assert sync(Hpa(SPEC), 0, 30, 100) == 20
    assert sync(Hpa(hpa_of_total(2, least=3, most=20)), 0, 2, 0) == 3


def test_what_there_was_at_its_first_look_counts_as_wanted() -> None:
    assert followed(Hpa(SPEC), 4, replicas=10, start=0, beats=22) == [10] * 20 + [2, 2]


def test_a_shorter_window_lets_it_fall_earlier() -> None:
    hpa = Hpa(hpa_of_total(2, least=1, most=20, stabilization_s=3))
    sync(hpa, 0, 10, 20)

    assert sync(hpa, 2, 10, 8) == 10
    assert sync(hpa, 3, 10, 8) == 4


def test_with_steps_it_doubles_or_grows_by_four_in_each_period() -> None:
    assert followed(Hpa(STEPPED), 80, replicas=1, start=0, beats=5) == [5, 10, 20, 40, 40]


def test_a_step_up_counts_from_what_there_was_a_period_ago() -> None:
    hpa = Hpa(STEPPED)

    assert sync(hpa, 0, 4, 80) == 8
    assert sync(hpa, 14, 8, 80) == 8
    assert sync(hpa, 15, 8, 80) == 16


def test_with_steps_it_falls_by_a_quarter_a_minute_once_it_was_low_for_the_window() -> None:
    hpa = Hpa(STEPPED)
    sync(hpa, 0, 16, 32)

    assert followed(hpa, 2, replicas=16, start=15, beats=19) == [16] * 19
    assert followed(hpa, 2, replicas=16, start=300, beats=9) == [12, 12, 12, 12, 9, 9, 9, 9, 6]


def test_a_window_up_waits_until_the_higher_number_was_wanted_throughout() -> None:
    up = HpaRules(policies=(HpaPolicy(15, pods=10),), stabilization_s=60)
    hpa = Hpa(HpaSpec(metrics=STEPPED.metrics, least=1, most=40, behavior=HpaBehavior(up=up, down=BEHAVIOR.down)))
    sync(hpa, 0, 2, 4)

    assert [sync(hpa, at, 2, 12) for at in (15, 30, 45, 59)] == [2, 2, 2, 2]
    assert sync(hpa, 60, 2, 12) == 6


def test_the_tolerance_up_may_be_its_own() -> None:
    assert sync(Hpa(STEPPED), 0, 10, 21.2) == 11
    assert sync(Hpa(STEPPED), 0, 10, 20.9) == 10


def test_of_several_metrics_the_one_that_asks_for_most_counts() -> None:
    spec = of_two(TargetKind.TOTAL, TargetKind.RATIO)

    assert proposal(spec, HpaSight(4, (80, 10))) == 8
    assert proposal(spec, HpaSight(4, (80, 30))) == 12


def test_a_missing_metric_never_lowers_and_lets_the_others_raise() -> None:
    spec = of_two(TargetKind.TOTAL, TargetKind.RATIO)

    assert proposal(spec, HpaSight(4, (10, None))) is None
    assert proposal(spec, HpaSight(4, (80, None))) == 8
    assert proposal(spec, HpaSight(4, (None, None))) is None
    assert sync(Hpa(spec), 1000, 4, None, None) == 4


def test_a_ratio_counts_from_the_pods_that_are_ready() -> None:
    assert proposal(of_two(TargetKind.RATIO), HpaSight(8, (20,), ready=4)) == 8
    assert proposal(of_two(TargetKind.RATIO), HpaSight(8, (30,), ready=4)) == 12


def test_pods_that_are_not_ready_use_nothing_and_turn_no_growth_around() -> None:
    of_use = of_two(TargetKind.USE)

    assert proposal(of_use, HpaSight(8, (15,), ready=4)) == 8
    assert proposal(of_use, HpaSight(8, (30,), ready=4)) == 12
    assert proposal(of_use, HpaSight(8, (5,), ready=4)) == 2


def test_a_total_within_its_tolerance_wants_all_that_are_there_a_surplus_too() -> None:
    assert proposal(SPEC, HpaSight(10, (20,), existing=11)) == 11
    assert proposal(SPEC, HpaSight(10, (20,), existing=12)) == 10


def test_percentages_are_whole() -> None:
    spec = HpaSpec(metrics=(HpaMetric(TargetKind.USE, 80),), least=1, most=40)

    assert proposal(spec, HpaSight(4, (88.9,))) == 4
    assert proposal(spec, HpaSight(4, (89,))) == 5
    assert proposal(spec, HpaSight(8, (178,), ready=4)) == 9
    assert proposal(spec, HpaSight(8, (177.9,), ready=4)) == 8, "88.95 of 80, cut to 88, is within a tenth"


@given(
    loads=st.lists(st.none() | st.floats(0, 200), min_size=1, max_size=60),
    floors=st.lists(st.integers(1, 40), min_size=60, max_size=60),
    stepped=st.booleans(),
)
def test_after_its_first_beat_it_stays_within_its_floor_and_its_most(
    loads: list[float | None], floors: list[int], stepped: bool
) -> None:
    hpa = Hpa(STEPPED if stepped else hpa_of_total(2, least=1, most=40))
    replicas = 1
    for beat, (load, floor) in enumerate(zip(loads, floors, strict=False)):
        hpa.least = floor
        replicas = sync(hpa, 15 * beat, replicas, load)
        assert floor <= replicas <= 40
