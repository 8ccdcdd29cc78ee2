"""What is sent, and what is seen after a refusal.

The API is a script here, for what the real one is hard to bring into; the slower tier asks that one.
"""

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, cast

import pytest

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.kube_cluster import KubeCluster
from controllers.ports import ClusterSeen, Outcome, PoolSeen, Scale, SetBudget, Unknown
from tests.builders_controllers import budgets, config, pool_policy
from tests.builders_redis import wait_until

DEPLOYMENTS = "/apis/apps/v1/namespaces/workers/deployments"
SETS = "/apis/apps/v1/namespaces/workers/replicasets"
PODS = "/api/v1/namespaces/workers/pods"
BUDGETS = "/apis/policy/v1/namespaces/apps/poddisruptionbudgets"


def named(name: str, uid: str, version: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": version, "generation": 1}, **more}


def deployment(replicas: int, version: str) -> dict[str, Any]:
    status = {"observedGeneration": 1, "replicas": replicas}
    return named("train", "deployment", version, spec={"replicas": replicas}, status=status)


def replica_set(name: str, replicas: int) -> dict[str, Any]:
    item = named(name, name, "1", spec={"replicas": replicas}, status={"observedGeneration": 1, "replicas": replicas})
    item["metadata"]["ownerReferences"] = [{"uid": "deployment", "controller": True}]
    return item


def worker(name: str, *, owner: str = "new", version: str = "1", marked: bool = False) -> dict[str, Any]:
    item = named(name, name, version, spec={"containers": []}, status={"phase": "Running"})
    item["metadata"]["ownerReferences"] = [{"uid": owner, "controller": True}]
    item["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-1"} if marked else {}
    return item


class Events:
    """An open watch: gives what the test puts in."""

    def __init__(self) -> None:
        self.told: SimpleQueue[dict[str, Any] | None] = SimpleQueue()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (event := self.told.get()) is not None:
            yield event

    def stop(self) -> None:
        self.told.put(None)


class ScriptedApi:
    """Lists what it was given, keeps what it is sent, and refuses the first `refusals` writes as conflicts."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self.lists = {DEPLOYMENTS: [], SETS: [], PODS: [], BUDGETS: [], **lists}
        self.watches: dict[str, Events] = {}
        self.asked: list[str] = []
        self.kept_back: dict[str, dict[str, Any]] = {}
        self.opened: Counter[str] = Counter()  # watches
        self.status = 409
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.refusals = 0

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append(" ".join([path, query.get("labelSelector", "")]))
        if path in self.lists:
            return {"items": self.lists[path], "metadata": {"resourceVersion": "1"}}
        folder, name = path.rsplit("/", 1)
        return next(item for item in self.lists[folder] if item["metadata"]["name"] == name)

    def watch(self, path: str, silence: float, **_: str) -> Events:  # noqa: ARG002 - as KubeApi has it
        self.opened[path] += 1
        self.watches[path] = watch = Events()
        if path in self.kept_back:
            watch.told.put({"type": "MODIFIED", "object": self.kept_back.pop(path)})
        return watch

    def apply(self, path: str, body: dict[str, Any], *, manager: str) -> None:  # noqa: ARG002 - as KubeApi has it
        self.sent.append((path, body))
        if self.refusals:
            self.refusals -= 1
            raise ApiError(self.status, "the object has been modified")

    def change(self, path: str, item: dict[str, Any], *, told: bool) -> None:
        """One that is told reaches the open watch; any other, the next one."""
        self.lists[path] = [item]
        if told:
            self.watches[path].told.put({"type": "MODIFIED", "object": item})
        else:
            self.kept_back[path] = item


@contextmanager
def seen_by(api: ScriptedApi) -> Generator[KubeCluster]:
    settings = config(pool_policy(), budgets=budgets("api"))
    cluster = KubeCluster(cast("KubeApi", api), settings, may_write=lambda: True, hint=lambda: None)
    cluster.start()
    try:
        wait_until(cluster.ready, "the caches to be filled")
        yield cluster
    finally:
        cluster.close()


def look(cluster: KubeCluster) -> ClusterSeen:
    seen = cluster.observe()
    assert not isinstance(seen, Unknown), seen.why
    return seen


def pool(cluster: KubeCluster) -> PoolSeen:
    return look(cluster).pools["train"]


def raised_to(cluster: KubeCluster, replicas: int) -> Outcome:
    return cluster.act(Scale(pool="train", replicas=replicas, version=pool(cluster).version, reason="test"))


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi(**{DEPLOYMENTS: [deployment(2, "7")], SETS: [replica_set("new", 2)]})


def test_a_budget_is_applied_with_its_uid_so_that_a_deleted_one_is_not_made_anew() -> None:
    closed = named("api", "its-uid", "3", spec={"maxUnavailable": 0}, status={"observedGeneration": 1})
    api = ScriptedApi(**{BUDGETS: [closed]})
    with seen_by(api) as cluster:
        look(cluster)
        cluster.act(SetBudget(budget="api", max_unavailable=1, version="3", reason="night"))

    ((path, body),) = api.sent
    assert path == f"{BUDGETS}/api"
    assert body["metadata"] == {"uid": "its-uid", "resourceVersion": "3"}


@pytest.mark.parametrize(
    ("sets", "settled"),
    [
        ([replica_set("new", 2)], True),
        ([replica_set("new", 2), replica_set("old", 0)], True),
        ([replica_set("new", 1), replica_set("old", 1)], False),
        ([replica_set("new", 2), replica_set("old", 1)], False),
        ([], False),
    ],
)
def test_a_pool_is_settled_with_one_active_replica_set(
    api: ScriptedApi, sets: list[dict[str, Any]], *, settled: bool
) -> None:
    api.lists[SETS] = sets
    with seen_by(api) as cluster:
        assert pool(cluster).settled is settled


def test_after_a_conflict_the_pool_is_seen_as_it_is_though_its_watch_kept_that_back(api: ScriptedApi) -> None:
    with seen_by(api) as cluster:
        assert pool(cluster).version == "7"
        api.change(DEPLOYMENTS, deployment(5, "8"), told=False)
        api.refusals = 1

        assert raised_to(cluster, 6) is Outcome.STALE
        wait_until(lambda: (pool(cluster).version, pool(cluster).replicas) == ("8", 5), "what the watch kept back")
        assert raised_to(cluster, 6) is Outcome.DONE
        assert api.sent[-1][1]["metadata"] == {"resourceVersion": "8"}


def test_other_refusals_open_no_new_watch(api: ScriptedApi) -> None:
    with seen_by(api) as cluster:
        api.refusals, api.status = 1, 403
        opened = api.opened.copy()

        assert raised_to(cluster, 6) is Outcome.REFUSED
        assert raised_to(cluster, 6) is Outcome.DONE
        assert api.opened == opened


def lowered_to(cluster: KubeCluster, replicas: int) -> Outcome:
    return cluster.act(Scale(pool="train", replicas=replicas, version=pool(cluster).version, reason="test"))


@pytest.fixture
def staffed(api: ScriptedApi) -> ScriptedApi:
    """Two workers of the pool, and one that belongs to nobody."""
    api.lists[PODS] = [worker("train-1"), worker("train-2"), worker("stray", owner="nobody")]
    return api


def test_a_lowering_is_sent_once_the_pods_that_are_there_are_those_that_were_seen(staffed: ScriptedApi) -> None:
    with seen_by(staffed) as cluster:
        pool(cluster)
        staffed.asked.clear()

        assert lowered_to(cluster, 1) is Outcome.DONE
        assert staffed.asked == [f"{PODS} ebbtide.dev/workload=train"]


@pytest.mark.parametrize(
    "truth",
    [
        [worker("train-1"), worker("train-3")],
        [worker("train-1"), worker("train-2"), worker("train-3")],
        [worker("train-1")],
        [worker("train-1"), worker("train-2", marked=True)],
    ],
)
def test_a_silent_watch_of_pods_lowers_nothing_and_is_replaced(
    staffed: ScriptedApi, truth: list[dict[str, Any]]
) -> None:
    """It is connected, and delivers nothing: another pod has come in the place of one that was seen, say."""
    with seen_by(staffed) as cluster:
        pool(cluster)
        staffed.lists[PODS] = truth

        assert lowered_to(cluster, 1) is Outcome.STALE
        assert staffed.sent == []
        assert "watch" in cluster.said
        wait_until(lambda: staffed.opened[PODS] == 2, "another watch of the pods")


def test_a_raise_asks_for_no_pods(staffed: ScriptedApi) -> None:
    with seen_by(staffed) as cluster:
        pool(cluster)
        staffed.asked.clear()

        assert raised_to(cluster, 3) is Outcome.DONE
        assert staffed.asked == []


def test_pods_that_cannot_be_listed_lower_nothing(staffed: ScriptedApi) -> None:
    with seen_by(staffed) as cluster:
        pool(cluster)

        def away(path: str, **_: str) -> dict[str, Any]:
            raise ApiError(0, f"{path} cannot be reached")

        staffed.get = away
        assert lowered_to(cluster, 1) is Outcome.FAILED
        assert staffed.sent == []
