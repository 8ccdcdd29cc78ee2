"""What the adapter sees and does, on a real API server with its real controllers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError
from controllers.ports import Mark, ObservedBudget, ObservedPool, Outcome, PodPhase, Scale, SetBudget
from ebbtide.vocabulary.holds import Hold
from ebbtide.vocabulary.labels import CATEGORY, DELETION_COST, FIELD_MANAGER, KEEP_UNTIL, PAUSED, WORKLOAD, Category
from tests.builders.control_plane import Fresh, eventually
from tests.control_plane.support.kube import PULUMI, Pool, alive, deployment, watching

pytestmark = pytest.mark.control_plane


@pytest.fixture(scope="module", autouse=True)
def older(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace with a pool made before the other tests run: in its first seconds a tool may be its creator."""
    fresh = Fresh(control_plane)
    namespace = fresh.namespace()
    with watching(control_plane, namespace):
        pass
    yield namespace
    fresh.clean()


@pytest.fixture
def pool(control_plane: ControlPlane, fresh: Fresh) -> Iterator[Pool]:
    with watching(control_plane, fresh.namespace()) as pool:
        yield pool


def mark(pool: Pool, pod: str, *, idle: bool = True) -> Outcome:
    return pool.cluster.act(Mark(pool="train", pod=pod, idle=idle, reason="test"))


def flip(pool: Pool, value: int, version: str | None = None) -> Outcome:
    return pool.cluster.act(SetBudget(budget="api", max_unavailable=value, version=version, reason="test"))


def until_budget(pool: Pool, holds: Callable[[ObservedBudget], bool]) -> ObservedBudget:
    def look() -> ObservedBudget | None:
        seen = pool.budget()
        return seen if seen is not None and holds(seen) else None

    return eventually(look, what="the budget")


def test_a_pool_at_zero_is_raised_and_goes_back_to_zero(pool: Pool) -> None:
    pool.settled(0)

    scaled(pool, 3)
    assert {pod.phase for pod in pool.settled(3).pods} == {PodPhase.PENDING}
    scaled(pool, 0)
    assert pool.settled(0).pods == ()


def scaled(pool: Pool, replicas: int) -> None:
    """Decided anew on the newest state, as each turn does: a status that its controllers write makes it stale too."""

    def done() -> bool:
        outcome = pool.scale(replicas, pool.until(lambda _: True, "the pool").version)
        assert outcome in (Outcome.DONE, Outcome.STALE)
        return outcome is Outcome.DONE

    eventually(done, what=f"{replicas} replicas to be written")


def test_a_jobs_pods_and_bare_ones_beside_a_pool_are_none_of_it(pool: Pool) -> None:
    """Even with its label, and while it shrinks, when the pods that the watch reported are listed again."""
    labels = {WORKLOAD: "train", CATEGORY: Category.WORKER.value}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"none": "such"},
        "containers": [{"name": "main", "image": "any"}],
    }
    job = {"completions": 2, "parallelism": 2, "template": {"metadata": {"labels": labels}, "spec": spec}}
    jobs = f"/apis/batch/v1/namespaces/{pool.namespace}/jobs"
    pool.api.create(jobs, {"metadata": {"name": "migrate"}, "spec": job})
    pool.api.create(pool.pods_path, {"metadata": {"name": "notebook-ada", "labels": labels}, "spec": spec})

    scaled(pool, 2)
    pool.settled(2)
    eventually(lambda: len(pool.api.get(pool.pods_path)["items"]) == 5, what="the pods of all three")
    scaled(pool, 1)

    assert len(pool.settled(1).pods) == 1
    assert len(pool.api.get(pool.pods_path, labelSelector=f"{WORKLOAD}=train")["items"]) == 4


def test_a_write_decided_on_an_older_version_changes_nothing(pool: Pool) -> None:
    old = pool.settled(0).version
    pool.scale(2)
    pool.settled(2)

    assert pool.scale(0, old) is Outcome.STALE
    assert pool.api.get(pool.scale_path)["spec"]["replicas"] == 2


def test_replicas_alone_become_ours_and_an_update_by_the_provisioning_side_leaves_them(pool: Pool) -> None:
    pool.scale(2)
    update = deployment("train", pool.namespace, image="worker:2")
    del update["spec"]["replicas"]  # as ignore_changes sends it

    pool.api.patch(pool.path, update, "application/apply-patch+yaml", fieldManager=PULUMI)

    spec = pool.api.get(pool.path)["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]) == (2, "worker:2")
    [ours] = [
        entry for entry in pool.api.get(pool.path)["metadata"]["managedFields"] if entry["manager"] == FIELD_MANAGER
    ]
    assert ours["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


def test_the_marked_pod_is_the_one_that_goes(pool: Pool, fresh: Fresh) -> None:
    fresh.node()
    pool.scale(3)
    running = pool.until(lambda seen: [pod.phase for pod in seen.pods] == [PodPhase.RUNNING] * 3, "three running pods")
    first, second, third = (pod.name for pod in running.pods)

    assert mark(pool, second) is Outcome.DONE
    pool.until(lambda seen: [pod.marked for pod in seen.pods] == [False, True, False], "the mark to be seen")
    scaled(pool, 2)

    assert [pod.name for pod in alive(pool.settled(2))] == [first, third]


def test_a_mark_is_taken_back_and_a_pod_that_is_gone_refuses_one(pool: Pool) -> None:
    pool.scale(1)
    [pod] = pool.settled(1).pods
    mark(pool, pod.name)
    pool.until(lambda seen: seen.pods[0].marked, "the mark to be seen")

    assert mark(pool, pod.name, idle=False) is Outcome.DONE
    pool.until(lambda seen: not seen.pods[0].marked, "the mark to go")
    assert DELETION_COST not in pool.api.get(f"{pool.pods_path}/{pod.name}")["metadata"].get("annotations", {})
    assert mark(pool, "ghost") is Outcome.REFUSED


def test_pods_that_a_quota_forbids_are_told_in_the_same_words_each_time(pool: Pool) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    pool.api.create(f"/api/v1/namespaces/{pool.namespace}/resourcequotas", quota)
    eventually(
        lambda: pool.api.get(f"/api/v1/namespaces/{pool.namespace}/resourcequotas/few")["status"].get("hard"),
        what="the quota to count",
    )
    pool.scale(3)

    seen = pool.until(lambda seen: seen.refused and seen.settled, "the refusal")
    assert seen.refused.startswith("exceeded quota: few")
    assert len(alive(seen)) == 1
    pool.scale(1)
    assert pool.until(lambda seen: not seen.refused, "the refusal to go").replicas == 1


def test_a_rollout_that_cannot_end_is_never_settled_and_may_still_grow(pool: Pool, fresh: Fresh) -> None:
    fresh.node()
    pool.scale(4)
    pool.until(lambda seen: [pod.phase for pod in seen.pods] == [PodPhase.RUNNING] * 4, "four running pods")
    unplaceable = {"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}}
    pool.api.patch(pool.path, unplaceable, "application/strategic-merge-patch+json")

    mixed = pool.until(lambda seen: phases(seen) == {PodPhase.PENDING: 1, PodPhase.RUNNING: 3}, "a pod of either kind")
    eventually(lambda: observed(pool.api.get(pool.path)), what="the controllers to be done")
    assert not pool.until(lambda seen: seen.version == version(pool), "the newest state").settled
    assert not mixed.settled
    assert pool.scale(6) is Outcome.DONE
    pool.until(lambda seen: len(alive(seen)) == 6, "six pods")


def version(pool: Pool) -> str:
    return pool.api.get(pool.path)["metadata"]["resourceVersion"]


def phases(seen: ObservedPool) -> Counter[PodPhase]:
    return Counter(pod.phase for pod in alive(seen))


def observed(item: Mapping[str, Any]) -> bool:
    return item["status"]["observedGeneration"] == item["metadata"]["generation"]


@pytest.mark.parametrize(
    "arguments",
    [["scale", "deployment/train", "--replicas=2"], ["patch", "deployment/train", "-p", '{"spec":{"replicas":2}}']],
)
def test_what_a_person_sets_by_hand_is_no_rival(control_plane: ControlPlane, pool: Pool, arguments: list[str]) -> None:
    pool.scale(1)
    control_plane.kubectl("-n", pool.namespace, *arguments)

    assert pool.until(lambda seen: seen.replicas == 2, "the change by hand").conflicting_manager == ""


def test_an_autoscaler_is_a_rival(pool: Pool) -> None:
    pool.scale(1)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    spec = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5, "metrics": [cpu]}
    body = {"metadata": {"name": "train"}, "spec": spec}
    pool.api.create(f"/apis/autoscaling/v2/namespaces/{pool.namespace}/horizontalpodautoscalers", body)

    seen = pool.until(lambda seen: seen.conflicting_manager, "the autoscaler to write")
    assert (seen.conflicting_manager, seen.replicas) == ("kube-controller-manager (through scale)", 3)


def test_whoever_created_the_pool_is_no_rival(pool: Pool) -> None:
    pool.api.delete(pool.path)
    pool.until_gone()
    pool.api.apply(pool.path, deployment("train", pool.namespace, 1), manager="gitops")

    assert pool.settled(1).conflicting_manager == ""


def test_a_hold_on_pool_or_budget_is_seen(pool: Pool) -> None:
    pool.api.patch(pool.path, {"metadata": {"annotations": {PAUSED: "looking into it"}}})
    pool.api.patch(pool.budget_path, {"metadata": {"annotations": {KEEP_UNTIL: "2026-03-04T22:00:00Z"}}})

    seen = pool.until(lambda seen: seen.hold, "the pause")
    assert seen.hold is not None
    assert (seen.hold.pause, seen.hold.why) == (True, "paused: looking into it")
    held = until_budget(pool, lambda seen: seen.hold is not None)
    assert held.hold == Hold(datetime(2026, 3, 4, 22, tzinfo=UTC), "kept until 2026-03-04T22:00:00+00:00")


def test_a_budget_opens_and_its_status_catches_up(pool: Pool) -> None:
    before = until_budget(pool, lambda seen: seen.settled)
    assert before.max_unavailable == 0

    assert flip(pool, 1, before.version) is Outcome.DONE
    opened = until_budget(pool, lambda seen: seen.max_unavailable == 1 and seen.settled)
    assert opened.version != before.version
    assert flip(pool, 1, before.version) is Outcome.STALE
    assert flip(pool, 0) is Outcome.DONE
    assert pool.api.get(pool.budget_path)["spec"] == {"maxUnavailable": 0, "selector": SELECTOR}


SELECTOR = {"matchLabels": {"ebbtide.dev/workload": "api"}}


def test_a_budget_that_was_just_deleted_is_not_made_anew(pool: Pool) -> None:
    eventually(pool.budget, what="the budget to be seen")
    pool.api.delete(pool.budget_path)

    assert flip(pool, 0) is Outcome.STALE
    with pytest.raises(ApiError, match="not found"):
        pool.api.get(pool.budget_path)


def test_a_budget_in_percent_counts_as_open(pool: Pool) -> None:
    pool.api.patch(pool.budget_path, {"spec": {"maxUnavailable": "100%"}})

    assert until_budget(pool, lambda seen: seen.max_unavailable > 0).max_unavailable == 100


def test_nothing_is_sent_by_a_process_that_may_no_longer_write(control_plane: ControlPlane, fresh: Fresh) -> None:
    with watching(control_plane, fresh.namespace(), may_write=lambda: False) as pool:
        assert pool.scale(2) is Outcome.FENCED
        assert flip(pool, 1) is Outcome.FENCED
        assert "replicas" not in pool.api.get(pool.scale_path)["spec"]


def test_what_the_account_may_not_do_is_refused_in_the_servers_words(control_plane: ControlPlane, fresh: Fresh) -> None:
    namespace = fresh.namespace()
    reader = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {
        "metadata": {"name": "reads"},
        "roleRef": reader,
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "reader"}})
    control_plane.api.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", binding)
    with watching(control_plane, namespace, api=control_plane.api_as(namespace, "reader")) as pool:
        assert pool.scale(2) is Outcome.REFUSED
        assert f"{namespace}:reader" in pool.cluster.last_error
        assert pool.cluster.act(Scale(pool="ghost", replicas=1, version=None, reason="")) is Outcome.REFUSED


def test_a_pool_that_is_deleted_is_missing_and_one_made_anew_has_its_own_pods(pool: Pool) -> None:
    pool.scale(2)
    before = {pod.name for pod in pool.settled(2).pods}
    pool.api.delete(pool.path)
    pool.until_gone()
    pool.api.apply(pool.path, deployment("train", pool.namespace, 2), manager=PULUMI)

    assert not before & {pod.name for pod in alive(pool.settled(2))}


def test_an_unchanged_cluster_gives_the_same_values(pool: Pool) -> None:
    pool.scale(1)
    pool.settled(1)

    assert pool.cluster.observe() is pool.cluster.observe()


def test_start_up_and_drain_of_flexible_pods_are_measured(pool: Pool, fresh: Fresh) -> None:
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "any"}]}
    body = {"metadata": {"name": "api-0", "labels": {CATEGORY: Category.FLEXIBLE.value}}, "spec": spec}
    measures = pool.cluster.measures
    pool.api.create(pool.pods_path, body)
    eventually(lambda: measures._previous.get(pool.namespace), what="the pod to be seen before it runs")
    fresh.node()

    eventually(lambda: measures.p99()["startup"] is not None, what="a start")
    pool.api.delete(f"{pool.pods_path}/api-0")
    eventually(lambda: measures.p99()["drain"], what="a drain")


def test_a_tool_that_applies_its_own_number_again_is_a_rival(control_plane: ControlPlane, older: str) -> None:
    with watching(control_plane, older) as pool:
        assert eventually(lambda: rival_after_apply(pool, 5), what="a write later than the creation") == "gitops"
        eventually(lambda: pool.seen() and pool.scale(2) is Outcome.DONE, what="the lowering, once its pods are seen")
        assert pool.until(lambda seen: seen.replicas == 2, "our number").conflicting_manager == ""


def rival_after_apply(pool: Pool, replicas: int) -> str:
    pool.scale(1)
    pool.api.apply(pool.path, deployment("train", pool.namespace, replicas), manager="gitops")
    return pool.until(lambda seen: seen.replicas == replicas, "the other tool's number").conflicting_manager


@pytest.mark.long
def test_the_workers_of_silent_nodes_are_out_of_reach_and_back_with_them() -> None:
    """The real node controller waits for most of a minute; the nodes, which KWOK plays, fall silent with it."""
    with ControlPlane() as plane:
        fresh = Fresh(plane)
        fresh.node()
        with watching(plane, fresh.namespace()) as pool:
            scaled(pool, 2)
            pool.until(lambda seen: phases(seen) == {PodPhase.RUNNING: 2}, "two running pods")
            plane.suspend("kwok")
            try:
                silent = eventually(lambda: unreachable(pool), what="the silence to be told", patience=200)
            finally:
                plane.resume("kwok")

    assert silent.existing == len(silent.pods) == 2


def unreachable(pool: Pool) -> ObservedPool | None:
    seen = pool.seen()
    return seen if seen is not None and phases(seen) == {PodPhase.UNREACHABLE: 2} else None


def test_a_pod_without_an_image_fails_and_so_does_one_that_crashes_in_a_loop(pool: Pool, fresh: Fresh) -> None:
    """What a kubelet writes; there is none here, so it is written by hand."""
    fresh.node()
    scaled(pool, 2)
    running = pool.until(lambda seen: phases(seen) == {PodPhase.RUNNING: 2}, "two running pods")
    waits = {"name": "worker", "ready": False, "restartCount": 3, "image": "worker:1", "imageID": ""}
    for seen, reason in zip(running.pods, ("CrashLoopBackOff", "ImagePullBackOff"), strict=True):
        said = {**waits, "state": {"waiting": {"reason": reason}}}
        pool.api.patch(f"{pool.pods_path}/{seen.name}/status", {"status": {"containerStatuses": [said]}})

    pool.until(lambda seen: phases(seen) == {PodPhase.FAILING: 2}, "two failing pods")
