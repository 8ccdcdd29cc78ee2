"""The autoscaler object's arithmetic, by hand."""

from ebbtide.simulator.strategies.hpa import Hpa, HpaSpec

SPEC = HpaSpec(target=2, least=1, most=20)


def test_it_is_off_while_there_are_no_replicas() -> None:
    assert Hpa(SPEC).sync(0, 0, 100) == 0


def test_it_grows_to_four_or_doubles_in_one_go() -> None:
    hpa = Hpa(SPEC)

    assert [hpa.sync(15, 1, 100), hpa.sync(30, 4, 100), hpa.sync(45, 8, 100), hpa.sync(60, 16, 100)] == [4, 8, 16, 20]


def test_within_a_tenth_of_the_target_nothing_changes() -> None:
    assert Hpa(SPEC).sync(0, 10, 21) == 10
    assert Hpa(SPEC).sync(0, 10, 23) == 12


def test_it_falls_to_the_most_it_wanted_in_the_last_five_minutes() -> None:
    hpa = Hpa(SPEC)
    hpa.sync(0, 10, 20)
    hpa.sync(100, 10, 8)

    assert hpa.sync(299, 10, 0) == 10
    assert hpa.sync(300, 10, 0) == 4
    assert hpa.sync(400, 4, 0) == 1


def test_what_somebody_else_scaled_out_of_range_comes_back_at_once() -> None:
    assert Hpa(SPEC).sync(0, 30, 100) == 20
    assert Hpa(HpaSpec(target=2, least=3, most=20)).sync(0, 2, 0) == 3


def test_a_shorter_window_lets_it_fall_earlier() -> None:
    hpa = Hpa(HpaSpec(target=2, least=1, most=20, stabilization_s=3))
    hpa.sync(0, 10, 20)

    assert hpa.sync(2, 10, 8) == 10
    assert hpa.sync(3, 10, 8) == 4
