"""The cached parts of objects in states that are hard to produce on a real server."""

from typing import Any

import pytest

from controllers.adapters import kube_objects
from controllers.adapters.kube_objects import StoredPool, budget, lifetime, pod, replica_set
from controllers.adapters.replica_writers import ReplicaWriters
from controllers.ports import PodPhase
from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED


def deployment(item: dict[str, Any]) -> StoredPool:
    return kube_objects.deployment(item, ReplicaWriters(()))


BORN, LATER = "2026-03-04T12:00:00Z", "2026-03-04T13:00:00Z"


def item(
    kind_spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    named = {
        "name": "train",
        "uid": "1",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": BORN,
        **metadata,
    }
    return {"metadata": named, "spec": kind_spec or {}, **({} if status is None else {"status": status})}


@pytest.mark.parametrize(
    ("phase", "seen"),
    [("Pending", PodPhase.PENDING), ("Running", PodPhase.RUNNING), ("Unknown", PodPhase.RUNNING)],
)
def test_a_pod_whose_phase_nobody_knows_may_be_at_work(phase: str, seen: PodPhase) -> None:
    kept = pod(item(status={"phase": phase}))

    assert kept is not None
    assert kept.seen.phase is seen


READY, NOT_READY = {"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}
WHOLE, NOT_WHOLE = {"type": "ContainersReady", "status": "True"}, {"type": "ContainersReady", "status": "False"}
RUNS: dict[str, Any] = {"state": {"running": {"startedAt": BORN}}}
STARTS: dict[str, Any] = {"state": {"waiting": {"reason": "ContainerCreating"}}}
LOOPS: dict[str, Any] = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
NO_IMAGE: dict[str, Any] = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
ENDED: dict[str, Any] = {"state": {"terminated": {"exitCode": 1}}}
UNTOLD: dict[str, Any] = {}


def phase_of(status: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any) -> PodPhase | None:
    kept = pod(item(spec, status, **metadata))
    return None if kept is None else kept.seen.phase


@pytest.mark.parametrize(
    ("conditions", "seen"),
    [
        ([READY, WHOLE], PodPhase.RUNNING),
        ([NOT_READY, WHOLE], PodPhase.UNREACHABLE),  # what the node controller writes for a silent node
        ([NOT_READY, NOT_WHOLE], PodPhase.RUNNING),  # starting, or without a probe's consent: it may be at work
        ([], PodPhase.RUNNING),
    ],
)
def test_a_pod_on_a_silent_node_is_out_of_reach(conditions: list[dict[str, str]], seen: PodPhase) -> None:
    assert phase_of({"phase": "Running", "conditions": conditions, "containerStatuses": [RUNS]}) is seen


def test_a_pod_that_others_have_not_declared_ready_is_not_out_of_reach() -> None:
    gated = {"readinessGates": [{"conditionType": "example.com/checked"}]}

    assert phase_of({"phase": "Running", "conditions": [NOT_READY, WHOLE]}, gated) is PodPhase.RUNNING


@pytest.mark.parametrize(
    ("phase", "containers", "seen"),
    [
        ("Pending", [NO_IMAGE], PodPhase.FAILING),
        ("Pending", [STARTS], PodPhase.PENDING),
        ("Running", [LOOPS], PodPhase.FAILING),
        ("Running", [RUNS, LOOPS], PodPhase.RUNNING),  # the one that runs may hold a job
        ("Running", [ENDED, LOOPS], PodPhase.FAILING),
        ("Running", [ENDED], PodPhase.RUNNING),  # between two starts
        ("Running", [UNTOLD], PodPhase.RUNNING),
    ],
)
def test_a_pod_fails_when_a_container_waits_in_vain_and_none_runs(
    phase: str, containers: list[dict[str, Any]], seen: PodPhase
) -> None:
    assert phase_of({"phase": phase, "containerStatuses": containers}) is seen


@pytest.mark.parametrize(("early", "seen"), [(LOOPS, PodPhase.FAILING), (RUNS, PodPhase.PENDING)])
def test_a_pod_whose_init_container_fails_never_starts(early: dict[str, Any], seen: PodPhase) -> None:
    waits = {"state": {"waiting": {"reason": "PodInitializing"}}}
    status = {"phase": "Pending", "initContainerStatuses": [early], "containerStatuses": [waits]}

    assert phase_of(status) is seen


def test_a_pod_that_leaves_is_that_and_nothing_else() -> None:
    status = {"phase": "Running", "conditions": [NOT_READY, WHOLE], "containerStatuses": [LOOPS]}

    assert phase_of(status, deletionTimestamp=LATER) is PodPhase.TERMINATING


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_no_capacity_even_while_it_is_deleted(phase: str) -> None:
    assert pod(item(status={"phase": phase}, deletionTimestamp=LATER)) is None


def test_a_pod_belongs_to_what_controls_it() -> None:
    owners = [{"uid": "other"}, {"uid": "set", "controller": True}]
    kept = pod(item(ownerReferences=owners))

    assert kept is not None
    assert (kept.owner, kept.seen.phase) == ("set", PodPhase.PENDING)


@pytest.mark.parametrize(("observed", "has", "settled"), [(2, 3, True), (1, 3, False), (2, 2, False)])
def test_a_deployment_is_settled_once_its_status_has_caught_up(observed: int, has: int, settled: bool) -> None:
    kept = deployment(item({"replicas": 3}, {"observedGeneration": observed, "replicas": has}))

    assert kept.seen.settled is settled


def test_a_deployment_without_status_or_replicas_is_at_zero_and_not_settled() -> None:
    assert (deployment(item()).seen.replicas, deployment(item()).seen.settled) == (0, False)


def test_a_refusal_reads_the_same_for_every_pod() -> None:
    def refused(pod_name: str) -> str:
        message = f'pods "{pod_name}" is forbidden: exceeded quota: few'
        failure = {"type": "ReplicaFailure", "status": "True", "message": message}
        return deployment(item({"replicas": 3}, {"observedGeneration": 2, "conditions": [failure]})).seen.refused

    assert refused("train-a1") == refused("train-b2") == "exceeded quota: few"


def test_what_exists_is_the_clusters_own_count_whatever_is_asked_for() -> None:
    seen = deployment(item({"replicas": 9}, {"observedGeneration": 2, "replicas": 5})).seen

    assert (seen.replicas, seen.existing, seen.settled) == (9, 5, False)
    assert deployment(item({"replicas": 1})).seen.existing == 0


def test_an_old_replica_set_counts_until_its_last_pod_is_gone() -> None:
    assert replica_set(item({"replicas": 0}, {"observedGeneration": 2, "replicas": 1})).seen == 1
    assert replica_set(item({"replicas": 3}, {"observedGeneration": 1, "replicas": 3})).seen == -1


@pytest.mark.parametrize(("value", "seen"), [(0, 0), (1, 1), ("0%", 0), ("50%", 50), ("odd", 1)])
def test_a_budget_is_closed_only_at_zero(value: object, seen: int) -> None:
    assert budget(item({"maxUnavailable": value})).seen.max_unavailable == seen


def test_a_budget_without_a_number_is_closed_and_one_with_a_minimum_is_not() -> None:
    assert budget(item({})).seen.max_unavailable == 0
    assert budget(item({"minAvailable": 1})).seen.max_unavailable == 1


def test_start_up_is_known_once_a_pod_is_ready() -> None:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": LATER}

    assert lifetime(item(status={"conditions": [condition]})).seen.startup is None
    ready = lifetime(item(status={"conditions": [{**condition, "status": "True"}]})).seen.startup
    assert ready is not None
    assert ready.total_seconds() == 3600


def test_a_refused_deployment_is_settled_with_fewer_pods_than_it_asks_for() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    status = {"observedGeneration": 2, "replicas": 1, "conditions": [failure]}

    assert deployment(item({"replicas": 3}, status)).seen.settled
    assert not deployment(item({"replicas": 3}, {**status, "observedGeneration": 1})).seen.settled


def test_a_deployment_shows_the_hold_of_an_operator_and_the_labels_of_its_pods() -> None:
    labels = {"b": "2", "a/x": "1"}
    expressions = [{"key": "c", "operator": "Exists"}]
    stored = deployment(
        item({"selector": {"matchLabels": labels, "matchExpressions": expressions}}, annotations={PAUSED: "true"})
    )

    assert stored.selector == "a/x=1,b=2"
    assert deployment(item({"selector": {"matchExpressions": expressions}})).selector == ""
    assert stored.seen.hold is not None
    assert stored.seen.hold.pause


def test_a_hold_until_later_than_any_instant_does_not_end() -> None:
    """An exception here would end the thread of the cache, and with it all scaling."""
    hold = deployment(item(annotations={KEEP_UNTIL: "9999-12-31T23:59:59-05:00"})).seen.hold

    assert hold is not None
    assert hold.until is None


def test_the_time_that_a_stopped_pod_gets_is_seen_of_the_pod_and_of_the_template() -> None:
    spec = {"terminationGracePeriodSeconds": 3600}
    kept = pod(item(spec))

    assert kept is not None
    assert kept.seen.grace == 3600
    assert deployment(item({"template": {"spec": spec}})).seen.grace == 3600
    assert deployment(item({"template": {"spec": {}}})).seen.grace == 0


def test_a_replica_set_without_numbers_has_no_pods() -> None:
    assert replica_set(item({}, {"observedGeneration": 2})).seen == 0


@pytest.mark.parametrize(
    ("generation", "status", "caught_up"),
    [({"generation": 1}, {}, False), ({"generation": 1}, {"observedGeneration": 1}, True), ({}, {}, True)],
)
def test_a_status_has_caught_up_when_it_has_seen_the_newest_spec(
    generation: dict[str, int], status: dict[str, int], caught_up: bool
) -> None:
    bare = item({"maxUnavailable": 0}, status)
    del bare["metadata"]["generation"]
    bare["metadata"] |= generation

    assert budget(bare).seen.settled is caught_up


def test_a_budget_carries_its_version_and_what_an_operator_asks_for() -> None:
    seen = budget(item({"maxUnavailable": 0}, annotations={KEEP_UNTIL: LATER})).seen

    assert seen.version == "7"
    assert seen.hold is not None


def test_a_container_that_waits_without_a_reason_is_on_its_way() -> None:
    untold = {"state": {"waiting": {"message": "soon"}}}

    assert phase_of({"phase": "Pending", "containerStatuses": [untold]}) is PodPhase.PENDING


def test_a_pod_that_is_deleted_ends() -> None:
    assert lifetime(item(deletionTimestamp=LATER)).seen.ending
    assert not lifetime(item()).seen.ending
