"""The requests, writes and memory of a Ray cluster between two reconciles."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.doubt import TRUST, Doubt
from controllers.ports import Outcome
from controllers.workloads.loop import Write
from controllers.workloads.ray.clusters import ManagedRayCluster, ObservedRayCluster, observed
from controllers.workloads.ray.documents import Json
from ebbtide.vocabulary.labels import APPLY_UNTIL, ASLEEP_FOR, KEEP_UNTIL, PAUSED, SLEEP, SPEC, WAKE_UNTIL
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from ebbtide.vocabulary.workloads import RayPolicy, Sleep, SleepWhen, Wake, WorkloadsConfig, dump_sleep
from tests.builders.operation import ALWAYS_NIGHT
from tests.builders.workloads.process import TOKEN, RecordedHead
from tests.builders.workloads.specs import group, spec

pytestmark = pytest.mark.process

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
AWAKE_SINCE = "2026-11-23T11:50:00Z"
NEVER_READY = {"status": "False", "lastTransitionTime": AWAKE_SINCE}
SOON = dump_sleep(Sleep(when=SleepWhen.IDLE, after=timedelta(), wake=frozenset({Wake.QUEUE, Wake.MANUAL})))


class Cache:
    def __init__(self, **kept: Any) -> None:
        self.kept, self.why, self.reconnects = kept, "", 0

    def snapshot(self) -> dict[str, Any]:
        return self.kept

    def trouble(self) -> str:
        return self.why

    def reconnect(self) -> None:
        self.reconnects += 1


class Api:
    """Answers a dry run with the stored spec, and a read of the pool of drivers with `drivers` replicas."""

    def __init__(self) -> None:
        self.dry_runs, self.drivers, self.refuses = 0, 0, None

    refuses: ApiError | None
    whole: Json

    def patch(self, path: str, body: Json, kind: str, **query: str) -> Json:  # noqa: ARG002 - as KubeApi has it
        assert query["dryRun"] == "All", "a write is the frame's"
        self.dry_runs += 1
        if self.refuses:
            raise self.refuses
        return {"spec": self.whole}

    def get(self, path: str) -> Json:
        assert path == "/apis/apps/v1/namespaces/workers/deployments/preprocess"
        return {"spec": {"replicas": self.drivers}}


class Scene:
    """A cluster `flow` that is as wanted and has sat idle; time goes on by ten seconds from look to look."""

    def __init__(self, folder: Path) -> None:
        token = folder / "token"
        token.write_text(TOKEN)
        self.head, self.api, self.pools, self.cache = RecordedHead(), Api(), Cache(preprocess=0), Cache()
        policy = RayPolicy(
            name="flow", namespace="ray", head=self.head.url, token_file=str(token), pools=("preprocess",)
        )
        config = WorkloadsConfig(namespace="ebbtide", hours=ALWAYS_NIGHT, ray=(policy,), pool_namespace="workers")
        caches = (cast("KubeCache[ObservedRayCluster]", self.cache), cast("KubeCache[int]", self.pools))
        self.keeper = ManagedRayCluster(cast("KubeApi", self.api), config, policy, *caches)
        self.now, self.version = NOON, 1
        self.api.whole = spec(group("a", replicas=0))
        self.is_now(spec(group("a", replicas=0)))

    def is_now(
        self,
        live: Json,
        wanted: Json | None = None,
        *,
        gone: bool = False,
        marks: Mapping[str, str] | None = None,
        head: Mapping[str, str] | None = None,
    ) -> None:
        self.version += 1
        text = json.dumps(wanted or spec(group("a")))
        annotations = {SPEC: text, SLEEP: SOON, "other": "x", **(marks or {})}
        metadata = {"name": "flow", "resourceVersion": str(self.version), "annotations": annotations}
        conditions = [{"type": "RayClusterSuspended", "status": str(gone), "lastTransitionTime": AWAKE_SINCE}]
        conditions += [{"type": "HeadPodReady", **head}] if head is not None else []
        item = {"metadata": metadata, "spec": live, "status": {"conditions": conditions}}
        self.cache.kept = {"flow": observed(item)}

    def look(self, doubt: Doubt = TRUST) -> tuple[Write | None, dict[str, Any]]:
        self.now += timedelta(seconds=10)
        verdict = self.keeper.reconcile(self.now, doubt)
        assert self.now < verdict.due <= self.now + timedelta(seconds=10)
        return verdict.write, {**verdict.report}

    def why(self) -> str:
        write, report = self.look()
        assert write is None
        return report["why"]

    def wrote(self) -> Write:
        write, _ = self.look()
        assert write is not None
        return write


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.head.shutdown()
    scene.head.server_close()


def test_it_suspends_an_idle_cluster_with_the_version_and_the_purpose_in_one_write(scene: Scene) -> None:
    write = scene.wrote()

    assert write.body == {
        "metadata": {"resourceVersion": "2", "annotations": {ASLEEP_FOR: "rest"}},
        "spec": {"suspend": True},
    }
    assert write.path == "/apis/ray.io/v1/namespaces/ray/rayclusters/flow"


def test_drivers_that_no_watch_has_shown_keep_it_awake(scene: Scene) -> None:
    scene.api.drivers = 1
    assert scene.why() == "drivers-wanted"
    scene.api.drivers = 0
    assert scene.wrote().change == "spec.suspend true"


@pytest.mark.parametrize("lost", ["its deployments", "its watch"])
def test_pools_that_are_not_known_keep_it_awake(scene: Scene, lost: str) -> None:
    scene.pools.kept = {} if lost == "its deployments" else {"preprocess": 0}
    scene.pools.why = "the watch broke" if lost == "its watch" else ""

    write, report = scene.look()
    assert (write, report["why"]) == (None, "drivers-unknown")
    assert ("no such Deployment: preprocess" if lost == "its deployments" else "the watch broke") in report["note"]


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        ({KEEP_UNTIL: "2026-11-23T13:00:00Z"}, "kept-awake"),
        ({KEEP_UNTIL: "late"}, "kept-awake"),
        ({WAKE_UNTIL: "2026-11-23T13:00:00Z"}, "wake-asked"),
        ({WAKE_UNTIL: "late"}, "wake-asked"),
        ({PAUSED: ""}, "paused"),
        ({SLEEP: "at night"}, "never-sleeps"),
    ],
)
def test_what_people_ask_for_keeps_it_awake(scene: Scene, annotation: dict[str, str], why: str) -> None:
    scene.is_now(spec(group("a", replicas=0)), marks=annotation)

    assert scene.why() == why


def test_an_instant_that_has_passed_keeps_nothing_awake(scene: Scene) -> None:
    scene.is_now(
        spec(group("a", replicas=0)), marks={KEEP_UNTIL: "2026-11-23T11:00:00Z", WAKE_UNTIL: "2026-11-23T11:00:00Z"}
    )

    assert scene.wrote().change == "spec.suspend true"


def test_an_instant_for_a_pending_spec_that_cannot_be_read_does_not_count(scene: Scene) -> None:
    scene.head.state, scene.api.whole = "a driver", spec(group("a", replicas=0), image="ray:2")
    scene.is_now(spec(group("a", replicas=2)), marks={APPLY_UNTIL: "tonight"})
    write, report = scene.look()
    assert (write, report["why"], report["spec"]) == (None, "not-known-idle", "old-image")
    assert report["note"].startswith(f"{APPLY_UNTIL} does not count: ")

    scene.is_now(spec(group("a", replicas=2)), marks={APPLY_UNTIL: "2026-11-23T13:00:00Z"})
    assert scene.wrote().reason == "spec-pending-in-maintenance"


def test_a_pending_spec_waits_for_a_minute_of_idleness(scene: Scene) -> None:
    scene.api.whole = spec(group("a", replicas=0), image="ray:2")
    scene.is_now(spec(group("a", replicas=0)), marks={SLEEP: dump_sleep(Sleep())})

    assert [scene.why() for _ in range(6)] == ["never-sleeps"] * 6
    assert scene.wrote().body["metadata"]["annotations"] == {ASLEEP_FOR: "spec"}


def test_a_spec_under_which_no_head_was_ever_ready_is_replaced_at_once(scene: Scene) -> None:
    scene.api.whole, scene.pools.kept = spec(group("a", replicas=0), image="ray:2"), {"preprocess": 3}
    scene.head.end()
    scene.is_now(spec(group("a", replicas=2)), head=NEVER_READY)

    write = scene.wrote()
    assert (write.reason, write.body["spec"]) == ("spec-pending-without-a-head", {"suspend": True})


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (NEVER_READY, "a driver"),
        (NEVER_READY, "another token"),
        ({**NEVER_READY, "status": "True"}, ""),
        ({**NEVER_READY, "lastTransitionTime": "2026-11-23T11:50:01Z"}, ""),
        ({**NEVER_READY, "lastTransitionTime": "soon"}, ""),
        (None, ""),
    ],
    ids=["it answers", "it refuses us", "it is ready", "it was ready", "not understood", "not told"],
)
def test_a_head_that_answers_or_was_ready_not_long_ago_keeps_its_spec(
    scene: Scene, head: Mapping[str, str] | None, says: str
) -> None:
    scene.api.whole, scene.head.state = spec(group("a", replicas=0), image="ray:2"), says
    if not says:
        scene.head.end()
    scene.is_now(spec(group("a", replicas=2)), head=head)

    assert scene.why() == "not-known-idle"


def test_what_a_lost_head_ran_has_ended_by_itself_after_half_an_hour(scene: Scene) -> None:
    scene.api.whole = spec(group("a", replicas=0), image="ray:2")
    scene.head.end()
    scene.is_now(spec(group("a", replicas=2)), head={"status": "False", "lastTransitionTime": "2026-11-23T11:55:00Z"})
    assert scene.why() == "not-known-idle"

    scene.now = NOON + timedelta(minutes=24, seconds=40)
    assert scene.why() == "not-known-idle"
    assert scene.wrote().reason == "spec-pending-without-a-head"


def test_while_pods_go_nothing_of_the_spec_is_written(scene: Scene) -> None:
    scene.api.whole = spec(group("a", 9, replicas=0), image="ray:2")
    asleep = {**spec(group("a", replicas=0)), "suspend": True}
    scene.is_now(asleep, marks={ASLEEP_FOR: "spec"})
    assert scene.why() == "spec-pending"

    scene.is_now(asleep, gone=True, marks={ASLEEP_FOR: "spec"})
    write = scene.wrote()
    assert write.reason == "spec-whole"
    assert "suspend" not in write.body["spec"]
    scene.is_now({**scene.api.whole, "suspend": True}, gone=True, marks={ASLEEP_FOR: "spec"})
    write = scene.wrote()
    assert (write.reason, write.body["metadata"]["annotations"]) == ("spec-done", {ASLEEP_FOR: None})


def test_a_write_is_not_repeated_before_the_watch_shows_it(scene: Scene) -> None:
    write = scene.wrote()
    scene.keeper.wrote(write, Outcome.DONE, "")
    assert scene.why() == "write-not-seen-yet"

    scene.is_now({**spec(group("a", replicas=0)), "suspend": True}, gone=True, marks={ASLEEP_FOR: "rest"})
    assert scene.why() == "asleep"


def test_a_write_that_was_overwritten_unseen_is_decided_again(scene: Scene) -> None:
    scene.keeper.wrote(scene.wrote(), Outcome.DONE, "")
    assert [scene.why() for _ in range(2)] == ["write-not-seen-yet"] * 2

    assert scene.wrote().change == "spec.suspend true"


def test_a_stale_write_asks_the_watch_for_news(scene: Scene) -> None:
    scene.keeper.wrote(scene.wrote(), Outcome.STALE, "modified")

    assert scene.cache.reconnects == 1


def test_a_refused_spec_does_not_keep_a_sleeping_cluster_from_waking(scene: Scene) -> None:
    scene.api.whole = spec(group("a", 9, replicas=0))
    scene.is_now({**spec(group("a", replicas=0)), "suspend": True}, gone=True)
    scene.pools.kept = {"preprocess": 1}
    write = scene.wrote()
    assert write.reason == "spec-whole"

    scene.keeper.wrote(write, Outcome.REFUSED, "denied by a policy")
    write, report = scene.look()
    assert write is not None
    assert (write.change, write.reason) == ("spec.suspend false", "drivers-wanted")
    assert report["note"] == "the wanted spec was refused: denied by a policy"


def test_the_api_is_asked_once_for_each_wanted_spec_but_again_where_it_did_not_answer(scene: Scene) -> None:
    scene.pools.kept = {"preprocess": 1}
    for _ in range(3):
        scene.look()
    assert scene.api.dry_runs == 1

    scene.api.refuses = ApiError(503, "away")
    scene.is_now(spec(group("a", replicas=0)), spec(group("a", 6)))
    assert [scene.look()[1]["note"] for _ in range(2)] == ["the wanted spec was refused: away"] * 2
    assert scene.api.dry_runs == 3
    scene.api.refuses = ApiError(422, "invalid")
    assert [scene.look()[1]["spec"] for _ in range(3)] == ["not-decided"] * 3
    assert scene.api.dry_runs == 4


def test_an_unknown_cluster_is_held_and_idle_time_begins_again(scene: Scene) -> None:
    long = dump_sleep(Sleep(when=SleepWhen.IDLE, after=timedelta(seconds=15)))
    scene.is_now(spec(group("a", replicas=0)), marks={SLEEP: long})
    assert scene.why() == "idle-but-recent"
    scene.cache.why = "the watch broke"
    assert scene.why() == "cluster-unknown"
    scene.cache.why = ""
    assert [scene.why() for _ in range(2)] == ["idle-but-recent"] * 2
    assert scene.wrote().change == "spec.suspend true"
    scene.cache.kept = {}
    assert scene.why() == "no-such-raycluster"


@pytest.mark.parametrize("minutes", [(-120,), (40, 120), (-120, 0)])
def test_by_any_clock_that_says_open_it_wakes_and_a_condition_says_why(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, minutes: tuple[int, ...]
) -> None:
    skew = Doubt("clock skew: the clocks differ", tuple(timedelta(minutes=lead) for lead in minutes))
    opened = {(NOON + timedelta(minutes=lead)).hour for lead in minutes if abs(lead) > 60}
    week = tuple(WeeklyInterval(day, hour * 60, hour * 60 + 60) for day in range(7) for hour in opened)
    monkeypatch.setattr(scene.keeper, "_hours", BusinessHours(timezone="UTC", week=week))
    marks = {SLEEP: dump_sleep(Sleep(when=SleepWhen.OUTSIDE_HOURS)), ASLEEP_FOR: "rest"}
    scene.is_now({**spec(group("a", replicas=0)), "suspend": True}, gone=True, marks=marks)

    assert scene.why() == "asleep"
    write, report = scene.look(skew)
    assert write is not None
    assert (write.body["spec"]["suspend"], report["why"], report["note"]) == (False, "business-hours", skew.why)


@pytest.mark.parametrize(("lead", "awake"), [(-40, True), (40, False)])
@pytest.mark.parametrize("key", [WAKE_UNTIL, KEEP_UNTIL])
def test_a_wish_to_be_awake_lasts_until_it_has_ended_by_every_clock(
    scene: Scene, key: str, lead: int, *, awake: bool
) -> None:
    marks = {ASLEEP_FOR: "rest", key: (NOON - timedelta(minutes=20)).isoformat()}
    scene.is_now({**spec(group("a", replicas=0)), "suspend": True}, gone=True, marks=marks)

    write, _ = scene.look(Doubt("clock skew", (timedelta(minutes=lead),)))
    assert (write is not None) is awake


def test_nothing_is_suspended_in_doubt(scene: Scene) -> None:
    write, report = scene.look(Doubt("clock skew"))

    assert (write, report["why"]) == (None, "in-doubt")


NEVER = dump_sleep(Sleep(when=SleepWhen.NEVER))


def idle_report(scene: Scene, minutes: int, live: Json) -> dict[str, Any]:
    """After so long, looked at every ten seconds."""
    scene.api.whole = live
    scene.is_now(live, marks={SLEEP: NEVER})
    reports = [scene.look()[1] for _ in range(minutes * 6)]
    return reports[-1]


def test_workers_that_stay_beyond_their_idle_timeout_are_reported_once_they_are_overdue(scene: Scene) -> None:
    live = spec(group("a", replicas=1, idleTimeoutSeconds=120))

    before = idle_report(scene, 4, live)
    after = idle_report(scene, 1, live)

    assert [(it.group, it.workers, it.overdue) for it in before["workers"]] == [("a", 1, 0)]
    assert [(it.group, it.workers, it.overdue) for it in after["workers"]] == [("a", 1, 1)]
    assert (before["note"], after["why"]) == ("", "never-sleeps")
    assert after["note"] == "group a keeps 1 idle workers beyond its idle timeout (kuberay#3738)"


def test_workers_of_a_cluster_in_which_something_runs_are_not_called_idle(scene: Scene) -> None:
    scene.head.state = "a driver"

    report = idle_report(scene, 5, spec(group("a", replicas=1)))

    assert (report["workers"], report["note"], report["reading"]) == ((), "", "busy")


def test_a_cluster_that_never_sleeps_reports_its_idle_time_and_a_paused_one_none(scene: Scene) -> None:
    assert idle_report(scene, 2, spec(group("a", replicas=2, least=2)))["idleFor"] >= timedelta(minutes=1)

    asked = scene.head.asked
    scene.is_now(spec(group("a", replicas=2, least=2)), marks={SLEEP: NEVER, PAUSED: ""})

    assert scene.look()[1]["idleFor"] is None
    assert scene.head.asked == asked
