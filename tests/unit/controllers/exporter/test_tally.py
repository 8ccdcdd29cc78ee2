"""Counts of pods that lists and watches bring."""

import pytest

from controllers.adapters.kube_api import Json
from controllers.exporter.sight import Sight
from controllers.exporter.tally import REASONS, Tally
from tests.builders.monitoring import cluster_objects as objects
from tests.builders.monitoring.cluster_objects import container_status, disrupted, ended, event
from tests.builders.monitoring.expositions import looked

PODS = "/api/v1/pods"


class Scene:
    """The pods' cache, whose list and watch are played one after the other."""

    def __init__(self, *pods: Json) -> None:
        self.script = objects.Script({PODS: pods})
        self.tally = Tally()
        self.pods = Sight(self.script.api, self.tally).pods
        looked(self.pods)

    def changes(self, *events: Json) -> "Scene":
        self.script.events[PODS] = events
        self.pods._follow()
        return self

    def listed(self, *pods: Json) -> "Scene":
        """Again, as after a pause."""
        self.script.lists[PODS], self.script.events[PODS] = pods, ()
        looked(self.pods)
        return self

    @property
    def counts(self) -> tuple[int, int, int]:
        """Restarts, kills for memory and evictions of the pool `train`."""
        evictions = sum(count for (workload, _), count in self.tally.evictions.items() if workload == "train")
        return self.tally.restarts["train"], self.tally.oom_kills["train"], evictions


def restarted(times: int, *, uid: str = "", killed: str = "") -> Json:
    last = ended("OOMKilled", killed) if killed else None
    return objects.pod(uid=uid, containerStatuses=[container_status(times, last=last)])


NOON, LATER = "2026-11-23T12:00:00Z", "2026-11-23T12:05:00Z"
EVICTED = objects.pod(conditions=[disrupted()])


def test_what_happened_before_the_process_began_is_not_counted() -> None:
    old = objects.pod(containerStatuses=[container_status(7, last=ended("OOMKilled", NOON))], conditions=[disrupted()])

    assert Scene(old).counts == (0, 0, 0)
    assert Scene(old).changes(event("MODIFIED", old)).counts == (0, 0, 0)


def test_what_happens_after_it_is_counted_once() -> None:
    scene = Scene(restarted(7))
    event_of_both = event("MODIFIED", restarted(8, killed=NOON))

    assert scene.changes(event_of_both, event_of_both).counts == (1, 1, 0)
    assert scene.listed(restarted(8, killed=NOON)).counts == (1, 1, 0)
    assert scene.changes(event("MODIFIED", restarted(10, killed=LATER))).counts == (3, 2, 0)


def test_a_pod_that_came_while_nobody_looked_is_counted_from_its_beginning() -> None:
    assert Scene().listed(restarted(2, killed=NOON)).counts == (2, 1, 0)


def test_one_end_is_one_although_it_is_seen_as_it_happens_and_again_as_the_last() -> None:
    now = objects.pod(containerStatuses=[container_status(0, state=ended("OOMKilled", NOON))])
    scene = Scene(restarted(0)).changes(event("MODIFIED", now))

    assert scene.counts == (0, 1, 0)
    assert scene.changes(event("MODIFIED", restarted(1, killed=NOON))).counts == (1, 1, 0)


def test_a_pod_is_evicted_once_whatever_is_said_of_it_later() -> None:
    scene = Scene(objects.pod()).changes(event("MODIFIED", EVICTED), event("MODIFIED", EVICTED))
    failed = objects.pod(phase="Failed", reason="Evicted")

    assert scene.changes(event("MODIFIED", failed), event("DELETED", failed)).counts == (0, 0, 1)
    assert scene.tally.evictions["train", "EvictionByEvictionAPI"] == 1


def test_a_pod_that_is_seen_in_pieces_is_counted_as_if_it_had_been_whole() -> None:
    scene = Scene(restarted(3, killed=NOON))
    without = objects.pod()

    assert scene.changes(event("MODIFIED", without), event("MODIFIED", restarted(3, killed=NOON))).counts == (0, 0, 0)
    assert scene.changes(event("MODIFIED", restarted(1)), event("MODIFIED", restarted(3))).counts == (0, 0, 0)
    later, before = restarted(4, killed=LATER), restarted(4, killed=NOON)
    assert scene.changes(*(event("MODIFIED", it) for it in (later, before, later))).counts == (1, 1, 0)


def test_the_next_pod_of_the_same_name_is_another() -> None:
    scene = Scene(restarted(3, uid="one"))
    gone, new = event("DELETED", restarted(3, uid="one")), event("ADDED", restarted(1, uid="two"))

    assert scene.changes(gone, new).counts == (1, 0, 0)
    assert scene.listed(restarted(2, uid="three")).counts == (3, 0, 0)


def test_pods_of_one_name_in_two_namespaces_are_two() -> None:
    elsewhere = {**objects.pod("db-0", uid="two")}
    elsewhere["metadata"] = {**elsewhere["metadata"], "namespace": "elsewhere"}
    scene = Scene(objects.pod("db-0", uid="one"), elsewhere)

    assert len(scene.pods.snapshot()) == 2
    assert len(scene.changes(event("DELETED", elsewhere)).pods.snapshot()) == 1


def test_nothing_is_remembered_of_pods_that_are_gone_and_the_totals_stay() -> None:
    scene = Scene(restarted(0, uid="one"), objects.pod("other", uid="two")).changes(
        event("MODIFIED", restarted(2, uid="one")), event("DELETED", restarted(2, uid="one"))
    )
    assert scene.tally._records.keys() == {"two"}
    scene.listed()

    assert scene.tally._records == {}
    assert scene.counts == (2, 0, 0)


def test_a_first_list_that_breaks_off_is_begun_again_and_counts_nothing() -> None:
    script, tally = objects.Script({PODS: [restarted(1), {"metadata": {}}]}), Tally()
    pods = Sight(script.api, tally).pods
    with pytest.raises(KeyError):
        looked(pods)
    script.lists[PODS] = [restarted(4)]
    looked(pods)

    assert tally.restarts["train"] == 0


def test_every_total_is_there_as_0_before_its_first_event() -> None:
    tally = Scene(objects.pod()).tally

    assert dict(tally.restarts) == dict(tally.oom_kills) == {"train": 0}
    assert dict(tally.evictions) == {("train", reason): 0 for reason in REASONS}
