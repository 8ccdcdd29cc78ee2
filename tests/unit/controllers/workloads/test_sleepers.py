"""Workloads that sleep: the calendar by the clock, the decision that remembers nothing, and the writes."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest

from controllers.adapters.kube_api import Json, KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.doubt import TRUST, Doubt
from controllers.ports import Outcome
from controllers.workloads.loop import ReconcileResult
from controllers.workloads.sleep.calendar import SleepNow, sleep_at
from controllers.workloads.sleep.idle import Activity, Use
from controllers.workloads.sleep.scales import ObservedScale, ScaleTarget, Sleeper, observed, scale_target, sleepers
from controllers.workloads.sleep.use import UseMeter
from ebbtide.vocabulary.documents import UnreadableConfig, dump, load
from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED, SLEEP_UNTIL, WAKE_UNTIL, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from ebbtide.vocabulary.workloads import PlannedNight, SleepPolicy, WorkloadsConfig
from tests.builders.controllers import OFFICE
from tests.unit.controllers.workloads.test_ray_clusters import Cache

LEAD = timedelta(minutes=15)
POLICY = SleepPolicy(name="hub", namespace="ebbtide", kind="StatefulSet", replicas=2, asleep=0, lead=LEAD)


def at(hour: int, minute: int = 0, *, day: int = 5) -> datetime:
    """January 2026, whose fifth day is a Monday."""
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


NIGHT, DAY = at(3), at(12)


def sleep(now: datetime, hours: BusinessHours = OFFICE, **changes: Any) -> SleepNow:
    return sleep_at(now, replace(POLICY, **changes), hours)


# --- the calendar -----------------------------------------------------------------------------------------------------


def test_it_wakes_its_lead_before_business_hours_and_sleeps_when_they_end() -> None:
    assert sleep(at(7, 44)) == SleepNow(False, "outside-business-hours", at(7, 45))
    assert sleep(at(7, 45)) == SleepNow(True, "before-business-hours", at(19))
    assert sleep(at(8)) == SleepNow(True, "business-hours", at(19))
    assert sleep(at(19)) == SleepNow(False, "outside-business-hours", at(7, 45, day=6))


def test_it_may_stay_awake_for_some_time_after_business_hours() -> None:
    late = timedelta(hours=1)
    assert sleep(at(19, 59), after=late) == SleepNow(True, "after-business-hours", at(20))
    assert sleep(at(20), after=late) == SleepNow(False, "outside-business-hours", at(7, 45, day=6))
    assert sleep(at(12), after=late).until == at(20)


def test_it_sleeps_through_weekends_and_holidays() -> None:
    hours = replace(OFFICE, closed_dates=frozenset({date(2026, 1, 12)}))

    assert sleep(at(19, day=9), hours) == SleepNow(False, "outside-business-hours", at(7, 45, day=13))


def test_a_planned_night_wakes_it_on_holidays_too() -> None:
    hours = replace(OFFICE, closed_dates=frozenset({date(2026, 1, 6)}))
    night = PlannedNight(at=23 * 60, lasting=timedelta(hours=2), pods=2)

    assert sleep(at(20, day=6), hours, overnight=(night,)) == SleepNow(
        False, "outside-business-hours", at(22, 45, day=6)
    )
    assert sleep(at(22, 45, day=6), hours, overnight=(night,)).reason == "before-overnight"
    assert sleep(at(0, 30, day=7), hours, overnight=(night,)) == SleepNow(True, "overnight", at(1, day=7))


def test_hours_that_never_end_or_never_begin_have_no_change() -> None:
    always = replace(OFFICE, week=tuple(WeeklyInterval(day, 0, 1440) for day in range(7)))

    assert sleep(DAY, always) == SleepNow(True, "business-hours", None)
    assert sleep(DAY, replace(OFFICE, week=())) == SleepNow(False, "outside-business-hours", None)


def test_nights_that_join_leave_no_sleep() -> None:
    night = PlannedNight(at=0, lasting=timedelta(days=1), pods=2)

    assert sleep(NIGHT, overnight=(night,)).until is None
    assert sleep(NIGHT, overnight=(night,)).awake


@pytest.mark.parametrize(
    ("sunday", "wakes", "sleeps"),
    [
        (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 3, 29, 5, 45, tzinfo=UTC), (16, 0)),
        (datetime(2026, 10, 25, tzinfo=UTC), datetime(2026, 10, 25, 6, 45, tzinfo=UTC), (17, 0)),
    ],
)
def test_a_clock_change_moves_neither_end(sunday: datetime, wakes: datetime, sleeps: tuple[int, int]) -> None:
    """Open from 8 to 18 in Berlin, which changes its clocks at 1:00 UTC of these Sundays."""
    berlin = BusinessHours(timezone="Europe/Berlin", week=(WeeklyInterval(6, 8 * 60, 18 * 60),))

    assert sleep(sunday, berlin).until == wakes
    assert sleep(wakes, berlin).until == sunday.replace(hour=sleeps[0], minute=sleeps[1])


def test_every_minute_of_a_month_is_awake_in_business_hours_and_its_until_is_the_next_change() -> None:
    """The year's spring change lies in it; the scan is by whole quarters, at which all edges lie."""
    berlin = replace(OFFICE, timezone="Europe/Berlin")
    instants = [datetime(2026, 3, 15, tzinfo=UTC) + timedelta(minutes=15) * step for step in range(4 * 24 * 21)]
    states = [sleep(now, berlin) for now in instants]

    assert all(state.awake for now, state in zip(instants, states, strict=True) if berlin.is_open(now))
    for now, state, following in zip(instants[1:], states, states[1:], strict=False):
        assert (state.until == now) is (state.awake != following.awake)


# --- the decision, through a reconcile --------------------------------------------------------------------------------


class Metered:
    """A meter that was told the use, and counts who asks."""

    def __init__(self) -> None:
        self.activity, self.asked = Activity(Use.IDLE), 0

    def read(self, replicas: int, now: datetime) -> Activity:  # noqa: ARG002 - as a meter
        self.asked += 1
        return self.activity


class Scene:
    """A StatefulSet `hub`."""

    def __init__(self, policy: SleepPolicy = POLICY) -> None:
        self.policy, self.cache, self.version, self.meter = policy, Cache(), 1, Metered()
        self.autoscalers = Cache()
        self.sleeper = self.started()

    def started(self) -> Sleeper:
        """A process that remembers nothing."""
        cache, meter = cast("KubeCache[ObservedScale]", self.cache), cast("UseMeter", self.meter)
        autoscalers = cast("KubeCache[ScaleTarget]", self.autoscalers) if self.policy.adopted else None
        return Sleeper(self.policy, OFFICE, cache, meter, autoscalers)

    def is_now(
        self,
        replicas: int,
        *,
        writer: str = WORKLOADS,
        written: str = "2026-01-02T00:00:00Z",
        through: str = "",
        owner: str = "",
        **annotations: str,
    ) -> None:
        self.version += 1
        item = stateful_set(replicas, writer, self.version, annotations, written)
        if through:
            item["metadata"]["managedFields"][-1]["subresource"] = through
        if owner:
            item["metadata"]["ownerReferences"] = [{"kind": "Cluster", "name": owner}]
        self.cache.kept = {"hub": observed(item)}

    def look(self, now: datetime, doubt: Doubt = TRUST) -> ReconcileResult:
        return self.sleeper.reconcile(now, doubt)

    def decides(self, now: datetime, doubt: Doubt = TRUST) -> tuple[int | None, str]:
        """Return the number that a process without memory writes, and its reason."""
        write = (verdict := self.started().reconcile(now, doubt)).write
        return None if write is None else write.body["spec"]["replicas"], verdict.report["why"]


def stateful_set(replicas: int, writer: str, version: int, annotations: dict[str, str], written: str) -> Json:
    fields: Json = {"f:spec": {"f:replicas": {}}}
    through = {"subresource": "scale"} if writer == WORKLOADS else {}
    owners = [WORKLOADS, writer] if writer == "agreeing-by-day" else [writer]
    metadata: Json = {
        "name": "hub",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": annotations,
        "managedFields": [
            {"manager": it, "fieldsV1": fields, **through, **({} if it == WORKLOADS else {"time": written})}
            for it in owners
        ],
    }
    return {"metadata": metadata, "spec": {"replicas": replicas}}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_writes_the_scale_with_the_version_that_it_saw(scene: Scene) -> None:
    scene.is_now(2)
    write = scene.look(NIGHT).write

    assert write is not None
    assert write.applied
    assert write.path == "/apis/apps/v1/namespaces/ebbtide/statefulsets/hub/scale"
    assert write.body == {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "hub", "namespace": "ebbtide", "resourceVersion": "2"},
        "spec": {"replicas": 0},
    }
    assert (write.change, write.reason) == ("spec.replicas 0", "outside-business-hours")


@pytest.mark.parametrize("writer", ["pulumi-kubernetes-1a2b", "kubectl-scale", WORKLOADS])
def test_a_process_that_was_killed_decides_the_same_again(writer: str, scene: Scene) -> None:
    scene.is_now(2, writer=writer)
    assert scene.decides(NIGHT) == (0, "outside-business-hours")
    scene.is_now(0, writer=writer)
    assert scene.decides(NIGHT) == (None, "outside-business-hours")
    assert scene.decides(at(7, 45)) == (2, "before-business-hours")


def test_by_day_nothing_is_removed_that_the_file_does_not_have(scene: Scene) -> None:
    scene.is_now(3)
    assert scene.decides(DAY) == (None, "more-than-declared")
    assert scene.decides(NIGHT) == (0, "outside-business-hours")
    scene.is_now(1)
    assert scene.decides(DAY) == (2, "business-hours")


def test_a_sleep_may_leave_some_pods() -> None:
    scene = Scene(replace(POLICY, replicas=3, asleep=1))
    scene.is_now(3)
    assert scene.decides(NIGHT) == (1, "outside-business-hours")
    scene.is_now(0)
    assert scene.decides(NIGHT) == (1, "outside-business-hours")
    scene.is_now(0, **{PAUSED: "disk full"})
    assert scene.look(NIGHT).report["state"] == "asleep"


UNTIL = {
    "later": "2026-01-05T13:00:00Z",
    "past": "2026-01-05T02:00:00Z",
    "beyond": "9999-12-31T23:59:59-05:00",  # later than any instant in UTC
    "garbled": "tomorrow",
}


@pytest.mark.parametrize(
    ("annotations", "by_night", "by_day"),
    [
        ({PAUSED: "disk full"}, (None, "paused-by-an-operator"), (None, "paused-by-an-operator")),
        ({KEEP_UNTIL: UNTIL["later"]}, (None, "kept-awake"), (None, "kept-awake")),
        ({KEEP_UNTIL: UNTIL["beyond"]}, (None, "kept-awake"), (None, "kept-awake")),
        ({WAKE_UNTIL: UNTIL["later"]}, (None, "wake-asked"), (None, "wake-asked")),
        ({WAKE_UNTIL: UNTIL["past"]}, (0, "outside-business-hours"), (None, "business-hours")),
        ({WAKE_UNTIL: UNTIL["garbled"]}, (None, "wake-asked"), (None, "wake-asked")),
        ({SLEEP_UNTIL: UNTIL["later"]}, (0, "sleep-asked"), (0, "sleep-asked")),
        ({SLEEP_UNTIL: UNTIL["past"]}, (0, "outside-business-hours"), (None, "business-hours")),
        ({SLEEP_UNTIL: UNTIL["garbled"]}, (0, "outside-business-hours"), (None, "business-hours")),
        ({SLEEP_UNTIL: UNTIL["later"], WAKE_UNTIL: UNTIL["later"]}, (None, "wake-asked"), (None, "wake-asked")),
    ],
)
def test_an_operator_decides_and_what_is_unreadable_means_awake(
    annotations: dict[str, str], by_night: object, by_day: object, scene: Scene
) -> None:
    scene.is_now(2, **annotations)
    assert scene.decides(NIGHT) == by_night
    assert scene.decides(DAY) == by_day
    assert bool(scene.look(DAY).note) is (annotations.get(SLEEP_UNTIL) == UNTIL["garbled"])


@pytest.mark.parametrize(
    ("now", "replicas", "annotations", "until"),
    [
        (NIGHT, 2, {}, at(7, 45)),
        (DAY, 2, {}, at(19)),
        (DAY, 3, {}, at(19)),
        (NIGHT, 2, {KEEP_UNTIL: UNTIL["later"]}, at(13)),
        (NIGHT, 3, {KEEP_UNTIL: UNTIL["later"]}, at(13)),
        (NIGHT, 2, {WAKE_UNTIL: UNTIL["later"]}, at(13)),
        (DAY, 2, {SLEEP_UNTIL: UNTIL["later"]}, at(13)),
        (NIGHT, 2, {KEEP_UNTIL: UNTIL["garbled"]}, None),
        (NIGHT, 2, {PAUSED: "disk full"}, None),
    ],
)
def test_the_end_that_is_reported_is_that_of_the_reason(
    now: datetime, replicas: int, annotations: dict[str, str], until: datetime | None, scene: Scene
) -> None:
    scene.is_now(replicas, **annotations)
    assert scene.look(now).report["until"] == until


def test_an_operator_wakes_only_what_manual_wakes() -> None:
    scene = Scene(replace(POLICY, manual=False))
    scene.is_now(2, **{WAKE_UNTIL: UNTIL["later"]})
    assert scene.decides(NIGHT) == (0, "outside-business-hours")


def test_a_doubtful_clock_wakes_and_lowers_nothing(scene: Scene) -> None:
    scene.is_now(2)
    assert scene.decides(NIGHT, Doubt("the clock jumped")) == (None, "clock-or-config-in-doubt")
    scene.is_now(0)
    assert scene.decides(DAY, Doubt("the clock jumped")) == (2, "business-hours")


@pytest.mark.parametrize("writer", ["argocd-controller", "agreeing-by-day"])
def test_beside_another_writer_it_holds_and_says_so(writer: str, scene: Scene) -> None:
    scene.is_now(2, writer=writer)
    assert scene.decides(NIGHT) == (None, "another-writer-of-replicas")
    assert writer in scene.look(NIGHT).note
    assert scene.decides(DAY) == (None, "business-hours")
    assert not scene.look(DAY).note


ARGO, DOWNSCALER = "argocd-controller", "kube-downscaler"


@pytest.mark.parametrize("writer", [ARGO, DOWNSCALER, "agreeing-by-day"])
def test_a_zero_that_another_manager_wrote_at_night_ends_at_the_opening(writer: str, scene: Scene) -> None:
    scene.is_now(0, writer=writer, written="2026-01-05T03:00:00Z")
    assert scene.decides(at(7, 44)) == (None, "outside-business-hours")
    assert scene.decides(at(7, 45)) == (2, "before-business-hours")
    assert scene.decides(DAY) == (2, "business-hours"), "after a start in business hours, too"
    write = scene.look(DAY).write
    assert write is not None
    assert write.applied
    assert write.forced, "it takes the field over: by the next night nothing is left to hold"


@pytest.mark.parametrize(
    ("written", "holds_until"),
    [("2026-01-05T07:45:00Z", 6), ("2026-01-05T10:00:00Z", 6), ("2026-01-09T18:59:59Z", 12), ("", None)],
)
def test_a_zero_that_is_written_again_stays_with_a_condition_until_the_next_opening(
    written: str, holds_until: int | None, scene: Scene
) -> None:
    """Without a time the write may be the last one. The tenth and the eleventh are a weekend."""
    scene.is_now(0, writer=ARGO, written=written)
    for now in (DAY, at(18, 59)) if written < "2026-01-06" else ():
        assert scene.decides(now) == (None, "another-writer-of-replicas")
        assert ARGO in scene.look(now).note
    if holds_until is None:
        assert scene.decides(at(12, day=20)) == (None, "another-writer-of-replicas")
    else:
        assert scene.decides(at(7, 44, day=holds_until)) == (None, "outside-business-hours")
        assert scene.decides(at(7, 45, day=holds_until)) == (2, "before-business-hours")


def test_a_manager_that_only_applied_the_zero_of_the_night_has_no_time_and_ends_at_the_opening(scene: Scene) -> None:
    scene.is_now(0, writer="agreeing-by-day", written="")
    assert scene.decides(at(7, 44)) == (None, "outside-business-hours")
    assert scene.decides(at(7, 45)) == (2, "before-business-hours")


BEHIND, AHEAD = (Doubt("clock skew", (timedelta(minutes=sign * 40),)) for sign in (1, -1))


@pytest.mark.parametrize("written", ["2026-01-05T03:00:00Z", "2026-01-02T12:00:00Z"], ids=["by-night", "by-day"])
@pytest.mark.parametrize(("doubt", "first"), [(BEHIND, at(7, 45)), (AHEAD, at(8, 25))], ids=["behind", "ahead"])
def test_while_clocks_disagree_a_zero_of_another_manager_ends_when_all_of_them_have_passed_the_opening(
    doubt: Doubt, first: datetime, written: str, scene: Scene
) -> None:
    """By a clock that is ahead, each write until the opening would lie before it: they would fight each minute."""
    scene.is_now(0, writer=ARGO, written=written)
    before = first - timedelta(minutes=1)
    assert scene.decides(before, doubt) == (None, "another-writer-of-replicas")
    assert "clock skew" in scene.look(before, doubt).note
    assert scene.decides(first, doubt)[0] == 2
    assert scene.decides(DAY, doubt)[0] == 2
    assert scene.decides(DAY, Doubt("the config document is bad"))[0] == 2


def test_while_clocks_disagree_a_zero_of_ours_with_which_another_manager_agreed_ends_by_any_of_them(
    scene: Scene,
) -> None:
    scene.is_now(0, writer="agreeing-by-day", written="")
    assert scene.decides(at(7, 10), BEHIND)[0] == 2
    assert scene.decides(at(7, 50), AHEAD)[0] == 2


def test_neither_a_pause_nor_a_sleep_by_command_takes_a_zero_from_another_manager(scene: Scene) -> None:
    for annotation, why in ((PAUSED, "paused-by-an-operator"), (SLEEP_UNTIL, "sleep-asked")):
        scene.is_now(0, writer=ARGO, written="2026-01-05T03:00:00Z", **{annotation: UNTIL["later"]})
        assert scene.decides(DAY) == (None, why)


def test_some_pods_of_another_manager_are_left_alone_at_the_opening() -> None:
    scene = Scene(replace(POLICY, replicas=3))
    scene.is_now(1, writer=ARGO, written="2026-01-05T03:00:00Z")
    assert scene.decides(DAY) == (None, "another-writer-of-replicas")


def test_without_a_closing_there_is_no_opening() -> None:
    scene = Scene()
    always = replace(OFFICE, week=tuple(WeeklyInterval(day, 0, 1440) for day in range(7)))
    scene.is_now(0, writer=ARGO, written="2026-01-05T03:00:00Z")
    sleeper = Sleeper(POLICY, always, cast("KubeCache[ObservedScale]", scene.cache), cast("UseMeter", scene.meter))
    assert sleeper.reconcile(DAY, TRUST).report["why"] == "another-writer-of-replicas"


# --- the end of a sleep -----------------------------------------------------------------------------------------------


@pytest.fixture
def ending() -> Scene:
    return Scene(replace(POLICY, never=True))


@pytest.mark.parametrize("now", [NIGHT, DAY])
@pytest.mark.parametrize("doubt", [TRUST, Doubt("the clock jumped")], ids=["trust", "doubt"])
def test_a_sleep_that_ends_is_woken_at_any_time_and_lowered_at_none(now: datetime, doubt: Doubt, ending: Scene) -> None:
    ending.is_now(0)
    assert ending.decides(now, doubt) == (2, "never-sleeps")
    ending.is_now(2)
    assert ending.decides(now, doubt) == (None, "never-sleeps")
    ending.is_now(3)
    assert ending.decides(now, doubt) == (None, "more-than-declared")
    ending.is_now(2, **{SLEEP_UNTIL: UNTIL["later"]})
    assert ending.decides(now, doubt)[0] is None


@pytest.mark.parametrize("writer", ["pulumi-kubernetes-1a2b", "kubectl", "kube-controller-manager", ARGO])
@pytest.mark.parametrize("replicas", [0, 1, 7])
def test_a_workload_that_never_slept_keeps_the_owner_of_its_number(writer: str, replicas: int, ending: Scene) -> None:
    ending.is_now(replicas, writer=writer)
    for now in (NIGHT, at(7, 45), DAY):
        assert ending.decides(now) == (None, "never-sleeps")
        assert not ending.look(now).note


@pytest.mark.parametrize("doubt", [TRUST, BEHIND, AHEAD], ids=["trust", "behind", "ahead"])
@pytest.mark.parametrize("written", ["", "2026-01-05T10:00:00Z"])
def test_a_sleep_that_ends_is_woken_although_another_manager_agreed_with_its_zero(
    written: str, doubt: Doubt, ending: Scene
) -> None:
    """The agreeing manager has a time as soon as it has changed another field of the object."""
    ending.is_now(0, writer="agreeing-by-day", written=written)
    for now in (NIGHT, DAY):
        assert ending.decides(now, doubt) == (2, "never-sleeps")
        assert not ending.look(now, doubt).note


def test_a_sleep_that_ends_says_what_is_next(ending: Scene) -> None:
    ending.is_now(2)
    assert ending.look(DAY).report["activity"] == "ebbtide release hub, then remove its key sleep"
    ending.is_now(2, writer="pulumi-kubernetes-1a2b")
    assert ending.look(DAY).report["activity"] == "remove its key sleep"


def test_a_paused_workload_is_not_woken_at_the_end_of_its_sleep(ending: Scene) -> None:
    ending.is_now(0, **{PAUSED: "disk full"})
    assert ending.decides(DAY) == (None, "paused-by-an-operator")


# --- objects of charts ------------------------------------------------------------------------------------------------

ADOPTED = replace(POLICY, adopted=True)
KEPT = replace(ADOPTED, kept=True)


@pytest.fixture
def chart() -> Scene:
    return Scene(ADOPTED)


@pytest.fixture
def kept() -> Scene:
    return Scene(KEPT)


@pytest.mark.parametrize(
    "writer", ["helm", ARGO, "kubectl-client-side-apply", "pulumi-kubernetes-1a2b", "agreeing-by-day"]
)
def test_a_charts_number_is_taken_over_at_the_closing_and_rises_at_the_opening(writer: str, chart: Scene) -> None:
    chart.is_now(2, writer=writer, written="2026-01-05T15:00:00Z")
    assert chart.decides(at(18, 59)) == (None, "business-hours")
    assert chart.decides(at(19)) == (0, "outside-business-hours")
    chart.is_now(1, writer=writer, written="2026-01-05T15:00:00Z")
    assert chart.decides(DAY + timedelta(hours=6)) == (None, "another-writer-of-replicas")
    assert chart.decides(at(7, 45, day=6)) == (2, "before-business-hours")


def test_an_owner_that_writes_again_has_its_number_until_the_calendars_next_change(chart: Scene) -> None:
    chart.is_now(2, writer=ARGO, written="2026-01-05T19:00:00Z")
    for now in (at(19, 1), at(3, day=6)):
        assert chart.decides(now) == (None, "another-writer-of-replicas")
        assert "sleep.scale.replicas: kept keeps them" in chart.look(now).note
    assert chart.decides(at(19, day=6)) == (0, "outside-business-hours")
    chart.is_now(0, writer=ARGO, written="2026-01-05T07:45:00Z")
    assert chart.decides(DAY) == (None, "another-writer-of-replicas")
    assert chart.decides(at(19)) == (None, "outside-business-hours")
    assert chart.decides(at(7, 45, day=6)) == (2, "before-business-hours")


def test_while_clocks_disagree_a_chart_is_taken_over_when_all_of_them_have_passed_the_change(chart: Scene) -> None:
    chart.is_now(1, writer=ARGO, written="2026-01-05T03:00:00Z")
    assert chart.decides(at(7, 44), BEHIND) == (None, "another-writer-of-replicas")
    assert chart.decides(at(7, 45), BEHIND)[0] == 2


def test_a_person_who_scales_a_chart_does_not_hold_the_controller(chart: Scene) -> None:
    chart.is_now(2, writer="kubectl", through="scale", written="2026-01-05T19:30:00Z")
    assert chart.decides(at(20)) == (0, "outside-business-hours")


@pytest.mark.parametrize("written", ["2026-01-05T02:00:00Z", "2026-01-05T10:00:00Z", ""])
def test_a_kept_number_is_the_controllers_whoever_its_owner_is(written: str, kept: Scene) -> None:
    """At each write the owner takes the field, and the policy keeps the number."""
    kept.is_now(0, writer=ARGO, written=written)
    assert kept.decides(NIGHT) == (None, "outside-business-hours")
    assert kept.decides(DAY) == (2, "business-hours")
    kept.is_now(2, writer=ARGO, written=written)
    assert kept.decides(NIGHT) == (0, "outside-business-hours")
    assert not kept.look(NIGHT).note


def test_a_write_through_scale_holds_a_kept_number_too(kept: Scene) -> None:
    kept.is_now(2, writer=DOWNSCALER, through="scale", written="2026-01-05T02:00:00Z")
    assert kept.decides(NIGHT) == (None, "another-writer-of-replicas")
    assert "kept keeps them" not in kept.look(NIGHT).note


def test_the_end_of_a_sleep_wakes_what_the_policy_kept_at_its_zero_and_no_owners_zero() -> None:
    ends = Scene(replace(KEPT, never=True))
    ends.is_now(0, writer="helm", written="2026-01-05T02:00:00Z")
    assert ends.decides(NIGHT) == (2, "never-sleeps")
    ends.is_now(0, writer=DOWNSCALER, through="scale", written="2026-01-05T02:00:00Z")
    assert ends.decides(NIGHT) == (None, "never-sleeps")
    owners = Scene(replace(ADOPTED, never=True))
    owners.is_now(0, writer="helm", written="2026-01-05T02:00:00Z")
    assert owners.decides(NIGHT) == (None, "never-sleeps")


@pytest.mark.parametrize(
    ("policy", "replicas", "writer", "released"),
    [
        (KEPT, 0, ARGO, True),
        (KEPT, 1, ARGO, True),
        (KEPT, 2, WORKLOADS, True),
        (KEPT, 2, ARGO, False),
        (ADOPTED, 0, ARGO, False),
        (ADOPTED, 2, ARGO, False),
    ],
)
def test_the_end_of_a_sleep_asks_for_a_release_only_of_a_number_that_is_or_becomes_the_controllers(
    policy: SleepPolicy, replicas: int, writer: str, released: bool
) -> None:
    ends = Scene(replace(policy, never=True))
    ends.is_now(replicas, writer=writer)
    first = "ebbtide release hub, then " if released else ""
    assert ends.look(NIGHT).report["activity"] == f"{first}remove its key sleep"


@pytest.mark.parametrize("policy", [ADOPTED, KEPT], ids=["chart", "kept"])
def test_what_an_autoscaler_scales_is_never_lowered_and_wakes_if_it_slept(policy: SleepPolicy) -> None:
    scene = Scene(policy)
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "hub"}
    scene.autoscalers.kept = {"grows": scale_target({"spec": {"scaleTargetRef": target}})}
    scene.is_now(2)
    assert scene.decides(NIGHT) == (None, "scaled-by-an-autoscaler")
    assert "HorizontalPodAutoscaler grows scales it" in scene.look(NIGHT).note
    scene.is_now(0)
    assert scene.decides(NIGHT) == (2, "scaled-by-an-autoscaler")
    scene.is_now(0, **{SLEEP_UNTIL: UNTIL["later"]})
    assert scene.decides(DAY)[0] == 2
    scene.is_now(0, writer="agreeing-by-day", written="2026-01-05T02:00:00Z")
    assert scene.decides(NIGHT) == (2, "scaled-by-an-autoscaler")
    scene.autoscalers.kept = {"others": ScaleTarget("Deployment", "hub"), "more": ScaleTarget("StatefulSet", "web")}
    scene.is_now(2)
    assert scene.decides(NIGHT) == (0, "outside-business-hours")


@pytest.mark.parametrize("policy", [ADOPTED, KEPT], ids=["chart", "kept"])
def test_what_an_operator_owns_is_never_lowered_and_its_number_is_the_operators(policy: SleepPolicy) -> None:
    scene = Scene(policy)
    for replicas in (0, 2):
        scene.is_now(replicas, writer="manager", owner="main")
        for now in (NIGHT, DAY):
            assert scene.decides(now) == (None, "owned-by-an-operator")
            assert "Cluster main owns it" in scene.look(now).note
    scene.is_now(0, owner="main")
    assert scene.decides(NIGHT) == (2, "owned-by-an-operator")


def test_without_sight_of_autoscalers_it_wakes_and_lowers_nothing(chart: Scene) -> None:
    chart.autoscalers.why = "HTTP 403"
    chart.is_now(2)
    assert chart.decides(NIGHT) == (None, "autoscalers-unknown")
    assert "HTTP 403" in chart.look(NIGHT).note
    chart.is_now(0)
    assert chart.decides(NIGHT) == (None, "outside-business-hours")
    assert chart.decides(DAY) == (2, "business-hours")


def test_a_document_names_own_and_adopted_objects_and_only_the_latter_need_sight_of_autoscalers() -> None:
    chart = replace(ADOPTED, namespace="team")
    config = WorkloadsConfig(namespace="ebbtide", hours=OFFICE, sleepers=(POLICY,), adopted_sleepers=(chart,))
    kind = sleepers(cast("KubeApi", None), config, lambda: None)

    assert [it.subject for it in kind.workloads] == ["statefulset ebbtide/hub", "statefulset team/hub"]
    assert (len(kind.caches), len(kind.of_teams)) == (1, 2)


def test_an_own_object_beside_an_adopted_one_of_its_kind_is_the_processs_own_trouble() -> None:
    beside = replace(ADOPTED, namespace=POLICY.namespace, kind=POLICY.kind, name="chart", object_name=None)
    config = WorkloadsConfig(namespace="ebbtide", hours=OFFICE, sleepers=(POLICY,), adopted_sleepers=(beside,))
    kind = sleepers(cast("KubeApi", None), config, lambda: None)

    assert (len(kind.caches), len(kind.of_teams)) == (1, 1)  # the latter shows autoscalers


class Arriving(Cache):
    """A cache whose list arrives after the first reading of it."""

    def __init__(self, **listed: Any) -> None:
        super().__init__()
        self.listed, self.why = listed, "not listed yet"

    def snapshot(self) -> dict[str, Any]:
        return self._read()[0]

    def trouble(self) -> str:
        return self._read()[1]

    def _read(self) -> tuple[dict[str, Any], str]:
        before = self.kept, self.why
        self.kept, self.why = self.listed, ""
        return before


def test_an_autoscaler_whose_list_arrives_during_a_reconcile_is_seen_or_doubted(chart: Scene) -> None:
    chart.autoscalers = Arriving(grows=ScaleTarget("StatefulSet", "hub"))
    chart.is_now(2)
    assert chart.decides(NIGHT)[0] is None


def test_a_rule_with_another_name_than_its_object_writes_the_object() -> None:
    scene = Scene(replace(ADOPTED, name="notebooks", object_name="hub"))
    scene.is_now(2)
    verdict = scene.look(NIGHT)
    assert verdict.write is not None
    assert verdict.write.path.endswith("/statefulsets/hub/scale")
    assert verdict.write.body["metadata"]["name"] == verdict.report["name"] == "hub"


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.REFUSED])
def test_it_changes_an_object_once_a_minute(outcome: Outcome, scene: Scene) -> None:
    scene.is_now(2)
    write = scene.look(NIGHT).write
    assert write is not None
    scene.sleeper.wrote(write, outcome, "refused")
    scene.is_now(2 if outcome is Outcome.REFUSED else 0, **{WAKE_UNTIL: UNTIL["later"]})
    scene.is_now(1)
    assert scene.look(NIGHT + timedelta(seconds=59)).write is None
    verdict = scene.look(NIGHT + timedelta(seconds=60))
    assert verdict.write is not None
    assert ("refused" in verdict.note) is (outcome is Outcome.REFUSED)


def test_its_own_write_is_awaited(scene: Scene) -> None:
    scene.is_now(2)
    write = scene.look(NIGHT).write
    assert write is not None
    scene.sleeper.wrote(write, Outcome.DONE, "")
    assert scene.look(NIGHT + timedelta(seconds=1)).write is None


def test_what_is_not_seen_is_not_written(scene: Scene) -> None:
    assert scene.look(NIGHT).report["state"] == "absent"
    scene.is_now(2)
    scene.cache.why = "the watch broke"
    assert (scene.look(NIGHT).write, scene.look(NIGHT).report["state"]) == (None, "unknown")


# --- when it is idle --------------------------------------------------------------------------------------------------


WHEN_IDLE = replace(POLICY, idle_after=timedelta(hours=2))


@pytest.fixture
def idler() -> Scene:
    return Scene(WHEN_IDLE)


@pytest.mark.parametrize("use", [Use.BUSY, Use.RECENT, Use.UNKNOWN])
def test_it_stays_awake_by_night_unless_it_is_known_to_be_idle(use: Use, idler: Scene) -> None:
    idler.is_now(2)
    idler.meter.activity = Activity(use, "hub-0: because")
    assert idler.decides(NIGHT) == (None, use)
    report = idler.look(NIGHT).report
    assert (report["state"], report["activity"], report["until"]) == ("awake", "hub-0: because", None)
    assert bool(report["note"]) is (use is Use.UNKNOWN), "only an operator can mend what is not known"
    idler.meter.activity = Activity(Use.IDLE)
    assert idler.decides(NIGHT) == (0, Use.IDLE)


def test_by_day_nothing_is_measured_and_it_stays_awake(idler: Scene) -> None:
    for now in (DAY, at(7, 45)):
        idler.is_now(2)
        assert idler.decides(now)[0] is None
        idler.is_now(0)
        assert idler.decides(now)[0] == 2
    assert idler.meter.asked == 0


def test_once_asleep_it_stays_asleep_unmeasured_until_the_opening_or_an_operator(idler: Scene) -> None:
    idler.meter.activity = Activity(Use.UNKNOWN, "it has no pods")
    idler.is_now(0)
    assert idler.decides(NIGHT) == (None, "outside-business-hours")
    assert idler.decides(at(7, 45)) == (2, "before-business-hours")
    idler.is_now(0, **{WAKE_UNTIL: UNTIL["later"]})
    assert idler.decides(NIGHT) == (2, "wake-asked")
    assert idler.meter.asked == 0


# --- clocks that disagree ---------------------------------------------------------------------------------------------


def skew(*minutes: int) -> Doubt:
    """Other clocks that are so many minutes ahead of this process's."""
    return Doubt("clock skew: the clocks differ", tuple(timedelta(minutes=lead) for lead in minutes))


@pytest.mark.parametrize(
    ("ours", "doubt"),
    [
        (at(7, 30), skew(40)),  # behind: it opened ten minutes ago
        (at(19, 20), skew(-40)),  # ahead: it closes in twenty minutes
        (at(7, 30), skew(-120, 40)),
        (at(7, 30), skew(10, 40)),
    ],
)
def test_it_is_awake_if_any_clock_says_so_and_says_why(scene: Scene, ours: datetime, doubt: Doubt) -> None:
    scene.is_now(0)
    assert scene.decides(ours) == (None, "outside-business-hours")

    verdict = scene.look(ours, doubt)
    assert verdict.write is not None
    assert (verdict.write.body["spec"]["replicas"], verdict.report["why"]) == (2, "business-hours")
    assert (verdict.note, verdict.report["until"]) == (doubt.why, None)
    scene.is_now(2)
    assert scene.look(ours, doubt).note == doubt.why


@pytest.mark.parametrize(("ours", "doubt"), [(at(12), skew(420)), (at(12), skew(-720)), (at(8), skew(-40, 700))])
def test_our_own_clock_counts_beside_others_that_say_closed(scene: Scene, ours: datetime, doubt: Doubt) -> None:
    scene.is_now(0)
    assert scene.decides(ours, doubt) == (2, "business-hours")
    scene.is_now(2)
    assert scene.look(ours, doubt).note == ""


def test_asleep_by_every_clock_it_stays_asleep_and_nothing_is_said(scene: Scene) -> None:
    scene.is_now(0)
    verdict = scene.look(NIGHT, skew(-40, 40))
    assert (verdict.write, verdict.report["why"], verdict.note) == (None, "outside-business-hours", "")
    scene.is_now(2)
    assert scene.look(NIGHT, skew(-40, 40)).note == skew().why  # it is kept from sleeping


def test_it_sleeps_again_when_the_clocks_agree_that_it_should(scene: Scene) -> None:
    scene.is_now(2)
    assert scene.decides(at(7, 30), skew(40)) == (None, "business-hours")
    assert scene.decides(at(7, 31), skew(11)) == (None, "clock-or-config-in-doubt")
    assert scene.decides(at(7, 32)) == (0, "outside-business-hours")


@pytest.mark.parametrize("key", [WAKE_UNTIL, KEEP_UNTIL])
@pytest.mark.parametrize(("lead", "awake"), [(-40, True), (40, False)])
def test_an_operators_wish_to_be_awake_lasts_until_it_has_ended_by_every_clock(
    scene: Scene, key: str, lead: int, *, awake: bool
) -> None:
    scene.is_now(0, **{key: "2026-01-05T02:30:00Z"})
    assert (scene.decides(NIGHT, skew(lead))[0] == 2) is awake


@pytest.mark.parametrize(("lead", "asleep"), [(-40, True), (40, False)])
def test_an_operators_wish_to_sleep_ends_when_it_has_ended_by_any_clock(
    scene: Scene, lead: int, *, asleep: bool
) -> None:
    scene.is_now(0, **{SLEEP_UNTIL: "2026-01-05T12:30:00Z"})
    assert scene.decides(DAY, skew(lead)) == ((None, "sleep-asked") if asleep else (2, "business-hours"))


def test_with_idle_it_is_awake_by_any_clock_too(idler: Scene) -> None:
    idler.is_now(0)
    assert idler.decides(at(7, 30), skew(40)) == (2, "business-hours")


@pytest.mark.parametrize(
    ("annotations", "doubt", "why"),
    [
        ({KEEP_UNTIL: UNTIL["later"]}, TRUST, "kept-awake"),
        ({PAUSED: "disk full"}, TRUST, "paused-by-an-operator"),
        ({}, Doubt("the clock jumped"), "clock-or-config-in-doubt"),
    ],
)
def test_idle_or_not_it_is_lowered_by_no_doubt_and_against_no_operator(
    annotations: dict[str, str], doubt: Doubt, why: str, idler: Scene
) -> None:
    idler.is_now(2, **annotations)
    assert idler.decides(NIGHT, doubt) == (None, why)


def test_an_operator_sends_it_to_sleep_whatever_it_does(idler: Scene) -> None:
    idler.meter.activity = Activity(Use.BUSY, "hub-0 works")
    idler.is_now(2, **{SLEEP_UNTIL: UNTIL["later"]})
    assert idler.decides(NIGHT) == (0, "sleep-asked")


def test_the_document_round_trips_and_refuses_a_sleep_that_saves_nothing() -> None:
    config = WorkloadsConfig(namespace="ebbtide", hours=OFFICE, sleepers=(WHEN_IDLE,), prometheus="http://p:9090")
    assert load(WorkloadsConfig, dump(config)) == config
    with pytest.raises(UnreadableConfig, match="hub"):
        load(WorkloadsConfig, dump(replace(config, sleepers=(replace(POLICY, asleep=2),))))
