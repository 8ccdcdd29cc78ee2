"""Which setting is advised: cheap, within the SLO, with few changes, and never one that the last week contradicts."""

from dataclasses import replace

from ebbtide.lab.advice.services.choice import Role, ScaleVerdict, ShownSetting, alternatives, chosen, verdict
from ebbtide.lab.advice.services.place import VariantScale
from ebbtide.lab.advice.services.search import Goal, Tried
from ebbtide.lab.advice.services.trial import SettingOutcome
from ebbtide.lab.simulator.services.results import ServiceResult

IN_FLIGHT, CPU = {"inFlight": 3}, {"cpu": "70%"}
GOAL = Goal(0.99)


def outcome(cost: float, beyond: float = 0.001, lost: int = 0) -> SettingOutcome:
    result = ServiceResult(
        pod_hours=cost, usd=cost, sent=1000, answered=1000 - lost, lost=lost, turned_away=0,
        p50_s=1, p95_s=2, p99_s=3, beyond_slo=beyond, least_pods=1, most_pods=2,
    )  # fmt: skip
    return SettingOutcome(result=result, hours=24)


def tried(cost: float, least: int = 2, metrics: dict[str, object] | None = None, beyond: float = 0.001) -> Tried:
    it = outcome(cost, beyond)
    return Tried(VariantScale(metrics=metrics or {**IN_FLIGHT}, min=least, max=12), it, GOAL.kept(it))


def row(role: Role, it: SettingOutcome) -> ShownSetting:
    return ShownSetting(
        role=role, scale=VariantScale(metrics=IN_FLIGHT, min=2, max=12), outcome=it, keeps=GOAL.kept(it)
    )


def test_without_an_allowance_a_loss_is_not_kept() -> None:
    assert GOAL.kept(outcome(1, beyond=0.01))
    assert not GOAL.kept(outcome(1, beyond=0.011))
    assert not GOAL.kept(outcome(1, beyond=0, lost=1))


def test_as_many_may_be_lost_as_the_goal_allows() -> None:
    allowing = Goal(0.99, lost=0.002)

    assert allowing.kept(outcome(1, lost=2))
    assert not allowing.kept(outcome(1, lost=3))


def test_the_cheapest_that_keeps_is_chosen_and_none_where_none_keeps() -> None:
    now, cheap, cheapest = tried(100, 6), tried(80, 4), tried(50, 2, beyond=0.5)

    assert chosen([now, cheap, cheapest]) is cheap
    assert chosen([cheapest]) is None


def test_a_saving_of_less_than_three_percent_is_no_change() -> None:
    now = tried(100, 6)

    assert chosen([now, tried(98, 5)]) is now
    assert chosen([now, tried(96, 5)]) is not now


def test_other_metrics_have_to_save_a_tenth() -> None:
    now = tried(100, 6)

    assert chosen([now, tried(92, 6, {**CPU})]) is now
    other = tried(88, 6, {**CPU})
    assert chosen([now, other]) is other


def test_of_those_as_cheap_the_one_with_fewest_changes_is_chosen() -> None:
    now = tried(200, 6)
    two = Tried(replace(now.scale, min=2, max=9), outcome(100), keeps=True)
    one = Tried(replace(now.scale, min=2), outcome(101), keeps=True)

    assert chosen([now, two, one]) is one


def test_only_settings_that_no_other_beats_are_shown_beside_it() -> None:
    middle, beaten = tried(100, 3, beyond=0.005), tried(110, 4, beyond=0.02)
    cheaper, better = tried(80, 2, beyond=0.05), tried(130, 5, beyond=0.001)

    assert [*alternatives([beaten, better, middle, cheaper], middle)] == [
        (Role.CHEAPER, cheaper),
        (Role.BETTER, better),
    ]


def test_what_the_last_week_contradicts_is_not_advised() -> None:
    best = tried(50)
    rows = [row(Role.NOW, outcome(100, beyond=0.005)), row(Role.ADVISED, outcome(50, beyond=0.02))]

    found, reason = verdict(rows, best, GOAL, held_out=True)

    assert found is ScaleVerdict.NOT_HELD
    assert "does not hold on the last week: 98.00% within the SLO and none lost" in reason


def test_what_is_kept_on_the_last_week_is_advised_though_it_misses_more_than_now() -> None:
    rows = [row(Role.NOW, outcome(100, beyond=0.001)), row(Role.ADVISED, outcome(50, beyond=0.009))]

    assert verdict(rows, tried(50), GOAL, held_out=True)[0] is ScaleVerdict.CHANGE


def test_an_improvement_that_still_misses_on_the_last_week_is_advised_with_a_warning() -> None:
    rows = [row(Role.NOW, outcome(100, beyond=0.05)), row(Role.ADVISED, outcome(120, beyond=0.02))]

    found, reason = verdict(rows, tried(120), GOAL, held_out=True)

    assert found is ScaleVerdict.CHANGE
    assert "98.00% within the SLO and none lost after, where 99.00% and none are wanted" in reason
