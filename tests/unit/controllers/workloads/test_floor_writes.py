"""The writes of a floor between two reconciles."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from controllers.adapters.kube_cache import KubeCache
from controllers.doubt import TRUST, Doubt
from controllers.ports import Outcome
from controllers.workloads.floors.autoscalers import POLL, ManagedFloor, field_of
from controllers.workloads.floors.fields import ObservedAutoscaler
from controllers.workloads.loop import ReconcileResult, Write
from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED
from ebbtide.vocabulary.workloads import FloorPolicy
from tests.builders.controllers import OFFICE
from tests.unit.controllers.workloads.test_ray_clusters import Cache

NIGHT, DAY = datetime(2026, 1, 5, 3, tzinfo=UTC), datetime(2026, 1, 5, 12, tzinfo=UTC)
POLICY = FloorPolicy(
    name="embedder", namespace="ebbtide", keda=False, least=2, most=12, lead=timedelta(minutes=7), open=4
)


class Scene:
    """An autoscaler `embedder` with a field that says how many pods there are at least."""

    def __init__(self, *, keda: bool = False) -> None:
        self.policy, self.cache = replace(POLICY, keda=keda), Cache()
        self.version = 1
        self.keeper = self.started()

    def started(self) -> ManagedFloor:
        """A process that remembers nothing."""
        return ManagedFloor(self.policy, OFFICE, cast("KubeCache[ObservedAutoscaler]", self.cache))

    def is_now(self, pods: object, *, most: object = 12, **annotations: str) -> None:
        self.version += 1
        field = field_of(self.policy)
        spec = {key: value for key, value in ((field.min_key, pods), (field.max_key, most)) if value is not None}
        metadata = {"name": "embedder", "resourceVersion": str(self.version), "annotations": annotations}
        self.cache.kept = {"embedder": field.observed({"metadata": metadata, "spec": spec})}

    def look(self, now: datetime, doubt: Doubt = TRUST) -> ReconcileResult:
        return self.keeper.reconcile(now, doubt)

    def wrote(self, now: datetime) -> Write:
        write = self.look(now).write
        assert write is not None
        return write

    def why(self, now: datetime, doubt: Doubt = TRUST) -> str:
        """Return the reason of a reconcile that writes nothing."""
        verdict = self.look(now, doubt)
        assert verdict.write is None
        return verdict.report["why"]


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize(
    ("keda", "api", "kind", "field"),
    [
        (False, "autoscaling/v2", "HorizontalPodAutoscaler", "minReplicas"),
        (True, "keda.sh/v1alpha1", "ScaledObject", "minReplicaCount"),
    ],
)
def test_it_applies_one_field_with_the_version_that_it_saw(keda: bool, api: str, kind: str, field: str) -> None:
    scene = Scene(keda=keda)
    scene.is_now(2)
    write = scene.wrote(DAY)

    assert write.applied
    assert write.path == f"/apis/{api}/namespaces/ebbtide/{kind.lower()}s/embedder"
    assert write.body == {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "embedder", "namespace": "ebbtide", "resourceVersion": "2"},
        "spec": {field: 4},
    }
    assert (write.change, write.reason) == (f"spec.{field} 4", "business-hours")


def test_what_is_as_wanted_is_not_written(scene: Scene) -> None:
    scene.is_now(4)
    assert scene.why(DAY) == "business-hours"
    scene.is_now(2)
    assert scene.why(NIGHT) == "at-min"


def test_a_process_that_starts_in_the_middle_wants_the_same(scene: Scene) -> None:
    scene.is_now(4)
    scene.wrote(NIGHT)
    scene.keeper = scene.started()

    assert scene.wrote(NIGHT).body["spec"] == {"minReplicas": 2}


def test_a_number_of_somebody_else_is_brought_back_between_min_and_max(scene: Scene) -> None:
    scene.is_now(1)
    assert scene.wrote(NIGHT).body["spec"] == {"minReplicas": 2}
    scene.is_now(9)
    assert scene.wrote(DAY).body["spec"] == {"minReplicas": 4}


def test_in_doubt_it_raises_and_never_lowers(scene: Scene) -> None:
    scene.is_now(4)
    assert scene.why(NIGHT, Doubt("the clocks disagree")) == "in-doubt"
    scene.is_now(2)
    raised = scene.look(DAY, Doubt("the clocks disagree")).write
    assert raised is not None
    assert raised.body["spec"] == {"minReplicas": 4}


@pytest.mark.parametrize(
    ("now", "minutes"), [(DAY.replace(hour=7, minute=30), (40,)), (DAY.replace(hour=19, minute=20), (-500, -40))]
)
def test_the_highest_floor_by_any_clock_counts_and_a_condition_says_why(
    scene: Scene, now: datetime, minutes: tuple[int, ...]
) -> None:
    skew = Doubt("clock skew: the clocks differ", tuple(timedelta(minutes=lead) for lead in minutes))
    scene.is_now(2)
    assert scene.why(now) == "at-min"

    verdict = scene.look(now, skew)
    assert verdict.write is not None
    assert verdict.write.body["spec"] == {"minReplicas": 4}
    assert (verdict.note, verdict.report["floor"], verdict.report["until"]) == (skew.why, 4, None)


def test_in_doubt_a_condition_says_why_a_floor_stays_and_only_then(scene: Scene) -> None:
    skew = Doubt("clock skew: the clocks differ", (timedelta(minutes=40),))
    scene.is_now(4)
    assert (scene.look(NIGHT, skew).note, scene.look(DAY, skew).note) == (skew.why, "")
    scene.is_now(2)
    assert scene.look(NIGHT, skew).note == ""


@pytest.mark.parametrize("pods", [True, "4", 4.5])
def test_an_unreadable_field_is_left_unchanged(pods: object, scene: Scene) -> None:
    scene.is_now(pods)

    assert scene.why(DAY) == "unreadable"


def test_a_silent_api_server_holds_everything(scene: Scene) -> None:
    scene.is_now(4)
    scene.cache.why = "nothing heard for 160 s"

    assert scene.why(NIGHT) == "autoscaler-unknown"
    assert scene.look(NIGHT).report["state"] == "unknown"


def test_a_missing_autoscaler_is_reported(scene: Scene) -> None:
    assert scene.why(DAY) == "no-such-autoscaler"
    assert scene.look(DAY).note


def test_an_absent_field_means_what_its_kind_makes_of_it() -> None:
    for keda, pods in ((False, 1), (True, 0)):
        scene = Scene(keda=keda)
        scene.is_now(None, most=12)
        assert scene.cache.kept["embedder"].min_pods == pods
        assert scene.wrote(NIGHT).body["spec"] == {field_of(scene.policy).min_key: 2}


def test_it_never_asks_for_more_than_the_object_allows_and_says_so(scene: Scene) -> None:
    scene.is_now(2, most=3)
    told = scene.look(DAY)

    assert told.write is not None
    assert told.write.body["spec"] == {"minReplicas": 3}
    assert "maximum is 3" in told.note


def test_an_operator_pauses_it_or_keeps_it_up(scene: Scene) -> None:
    scene.is_now(4, **{KEEP_UNTIL: "2026-01-05T23:00:00Z"})
    assert scene.why(NIGHT) == "kept"
    scene.is_now(2, **{KEEP_UNTIL: "2026-01-05T23:00:00Z"})
    assert scene.wrote(DAY).body["spec"] == {"minReplicas": 4}
    scene.is_now(2, **{PAUSED: "by hand"})
    assert scene.why(DAY) == "paused"


def test_it_does_not_write_again_what_it_has_not_seen_yet(scene: Scene) -> None:
    scene.is_now(2)
    scene.keeper.wrote(scene.wrote(DAY), Outcome.DONE, "")
    assert scene.why(DAY) == "business-hours"
    scene.is_now(2)  # somebody wrote it over

    scene.wrote(DAY)


def test_a_write_that_no_watch_shows_for_half_a_minute_is_sent_again_with_the_version_that_is_shown(
    scene: Scene,
) -> None:
    scene.is_now(2)
    first = scene.wrote(DAY)
    scene.keeper.wrote(first, Outcome.DONE, "")
    assert scene.why(DAY + timedelta(seconds=29)) == "business-hours"

    assert scene.wrote(DAY + timedelta(seconds=30)) == first


def test_a_stale_write_asks_for_news(scene: Scene) -> None:
    scene.is_now(2)
    scene.keeper.wrote(scene.wrote(DAY), Outcome.STALE, "conflict")

    assert scene.cache.reconnects == 1
    scene.wrote(DAY)


def test_a_refused_write_is_reported_until_one_is_accepted(scene: Scene) -> None:
    scene.is_now(2)
    scene.keeper.wrote(scene.wrote(DAY), Outcome.REFUSED, "not within min and max")
    assert "refused: not within" in scene.look(DAY).note
    scene.keeper.wrote(scene.wrote(DAY), Outcome.DONE, "")
    scene.is_now(2)

    assert scene.look(DAY).note == ""


def test_it_looks_again_when_the_floor_changes(scene: Scene) -> None:
    scene.is_now(2)
    edge = datetime(2026, 1, 5, 7, 53, tzinfo=UTC)

    assert scene.look(edge - timedelta(seconds=3)).due == edge
    assert scene.look(NIGHT).due == NIGHT + POLL
