"""Requests of the cluster adapter, and its caches after a refusal.

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
from controllers.ports import Mark, ObservedCluster, ObservedPool, Outcome, Scale, SetBudget, Unknown
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, DELETION_COST
from tests.builders.controllers import budgets, config, pool_policy
from tests.builders.redis import wait_until

DEPLOYMENTS = "/apis/apps/v1/namespaces/workers/deployments"
SETS = "/apis/apps/v1/namespaces/workers/replicasets"
PODS = "/api/v1/namespaces/workers/pods"
BUDGETS = "/apis/policy/v1/namespaces/apps/poddisruptionbudgets"
SERVICES = "/api/v1/namespaces/apps/pods"


def named(name: str, uid: str, version: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": version, "generation": 1}, **more}


def deployment(replicas: int, version: str) -> dict[str, Any]:
    status = {"observedGeneration": 1, "replicas": replicas}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "loader"}}}
    return named("train", "deployment", version, spec=spec, status=status)


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
        self.ended = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (event := self.told.get()) is not None:
            yield event
        self.ended = True

    def stop(self) -> None:
        self.told.put(None)


class ScriptedApi:
    """Lists what it was given, keeps what it is sent, and refuses the first `refusals` writes as conflicts."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self.lists = {DEPLOYMENTS: [], SETS: [], PODS: [], BUDGETS: [], SERVICES: [], **lists}
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

    def patch(self, path: str, body: dict[str, Any], **query: str) -> None:
        self.sent.append((path, {**body, **query}))

    def change(self, path: str, item: dict[str, Any], *, told: bool) -> None:
        """An announced change reaches the open watch; any other reaches the next one."""
        self.lists[path] = [item]
        if told:
            self.watches[path].told.put({"type": "MODIFIED", "object": item})
        else:
            self.kept_back[path] = item


@contextmanager
def seen_by(api: ScriptedApi, settings: ControllerConfig | None = None, **changes: Any) -> Generator[KubeCluster]:
    wiring: dict[str, Any] = {"may_write": lambda: True, "notify": lambda: None, **changes}
    cluster = KubeCluster(cast("KubeApi", api), settings or CONFIG, **wiring)
    cluster.start()
    try:
        wait_until(lambda: not cluster.trouble(), "the caches to be filled")
        yield cluster
    finally:
        cluster.close()


CONFIG = config(pool_policy(), budgets=budgets("api"))


def look(cluster: KubeCluster) -> ObservedCluster:
    seen = cluster.observe()
    assert not isinstance(seen, Unknown), seen.why
    return seen


def pool(cluster: KubeCluster) -> ObservedPool:
    return look(cluster).pools["train"]


def raised_to(cluster: KubeCluster, replicas: int) -> Outcome:
    return cluster.act(Scale(pool="train", replicas=replicas, version=pool(cluster).version, reason="test"))


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi(**{DEPLOYMENTS: [deployment(2, "7")], SETS: [replica_set("new", 2)]})


def test_a_budget_is_applied_with_its_uid_so_that_a_deleted_one_is_not_recreated() -> None:
    closed = named("api", "its-uid", "3", spec={"maxUnavailable": 0}, status={"observedGeneration": 1})
    api = ScriptedApi(**{BUDGETS: [closed]})
    with seen_by(api) as cluster:
        look(cluster)
        cluster.act(SetBudget(budget="api", max_unavailable=1, version="3", reason="night"))

    ((path, body),) = api.sent
    assert path == f"{BUDGETS}/api"
    assert body["metadata"] == {"uid": "its-uid", "resourceVersion": "3"}


COUNTED = BudgetPolicy(name="api", namespace="apps", object_name="api.pods", open_minimum=3)


@pytest.mark.parametrize(
    ("minimum", "written_before"),
    [(CLOSED_MINIMUM, 0), (3, 1), (2, 2), (0, 2), ("75%", 2)],
    ids=["closed", "open", "of another number of pods", "open for all", "a share"],
)
def test_a_budget_of_pods_without_a_scale_is_read_by_its_minimum(minimum: int | str, written_before: int) -> None:
    pdb = named("api.pods", "uid", "3", spec={"minAvailable": minimum}, status={"observedGeneration": 1})
    api = ScriptedApi(**{BUDGETS: [pdb, named("api", "chart", "1", spec={"maxUnavailable": 1})]})
    with seen_by(api, config(budgets=(COUNTED,))) as cluster:
        assert look(cluster).budgets["api"].max_unavailable == written_before


@pytest.mark.parametrize(("max_unavailable", "minimum"), [(0, CLOSED_MINIMUM), (1, 3)])
def test_a_budget_of_pods_without_a_scale_is_written_by_its_minimum(max_unavailable: int, minimum: int) -> None:
    api = ScriptedApi()
    with seen_by(api, config(budgets=(COUNTED,))) as cluster:
        cluster.act(SetBudget(budget="api", max_unavailable=max_unavailable, version=None, reason="test"))

    ((path, body),) = api.sent
    assert (path, body["spec"]) == (f"{BUDGETS}/api.pods", {"minAvailable": minimum})


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


def test_after_a_conflict_the_present_pool_is_observed_though_its_watch_held_it_back(api: ScriptedApi) -> None:
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
    """Two workers of the pool, and one without an owner."""
    api.lists[PODS] = [worker("train-1"), worker("train-2"), worker("stray", owner="nobody")]
    return api


def test_a_lowering_is_sent_once_the_pods_that_are_there_are_those_that_were_seen(staffed: ScriptedApi) -> None:
    with seen_by(staffed) as cluster:
        pool(cluster)
        staffed.asked.clear()

        assert lowered_to(cluster, 1) is Outcome.DONE
        assert staffed.asked == [f"{PODS} app=loader"]


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
        assert "watch" in cluster.last_error
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


def test_ended_pods_are_none_of_those_that_are_compared(staffed: ScriptedApi) -> None:
    ended = worker("train-0")
    ended["status"]["phase"] = "Succeeded"
    staffed.lists[PODS].append(ended)
    with seen_by(staffed) as cluster:
        pool(cluster)

        assert lowered_to(cluster, 1) is Outcome.DONE


def test_the_same_number_again_asks_for_no_pods_and_neither_does_a_pool_not_seen_yet(staffed: ScriptedApi) -> None:
    with seen_by(staffed) as cluster:
        unseen = Scale(pool="train", replicas=0, version="7", reason="test")
        staffed.asked.clear()
        assert cluster.act(unseen) is Outcome.DONE  # bound to its version, so it lowers nothing that has changed
        pool(cluster)

        assert lowered_to(cluster, 2) is Outcome.DONE
        assert staffed.asked == []


def test_a_mark_is_one_patch_of_its_pod_alone(staffed: ScriptedApi) -> None:
    with seen_by(staffed) as cluster:
        for idle in (True, False):
            cluster.act(Mark(pool="train", pod="train-1", idle=idle, reason="test"))

    costs = [body["metadata"]["annotations"][DELETION_COST] for _, body in staffed.sent]
    assert [path for path, _ in staffed.sent] == [f"{PODS}/train-1"] * 2
    assert costs == ["-1", None]
    assert {body["fieldManager"] for _, body in staffed.sent} == {"ebbtide-controller"}


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, Outcome.FAILED) for status in (0, 401, 408, 429, 500, 503)),
        (409, Outcome.STALE),
        *((status, Outcome.REFUSED) for status in (403, 404, 422)),
    ],
)
def test_passing_errors_are_distinguished_from_refusals(api: ScriptedApi, status: int, outcome: Outcome) -> None:
    with seen_by(api) as cluster:
        pool(cluster)
        api.refusals, api.status = 1, status

        assert raised_to(cluster, 3) is outcome
        assert "modified" in cluster.last_error
        assert raised_to(cluster, 3) is Outcome.DONE
        assert cluster.last_error == ""


def test_a_conflict_about_a_budget_opens_no_watch_of_pools(api: ScriptedApi) -> None:
    with seen_by(api) as cluster:
        look(cluster)
        api.refusals, opened = 1, api.opened.copy()
        closed = SetBudget(budget="api", max_unavailable=0, version=None, reason="test")

        assert cluster.act(closed) is Outcome.STALE
        assert cluster.act(closed) is Outcome.DONE
        assert api.opened == opened


def test_nothing_is_sent_by_one_who_may_not_write(api: ScriptedApi) -> None:
    with seen_by(api, may_write=lambda: False) as cluster:
        assert raised_to(cluster, 3) is Outcome.FENCED
        assert api.sent == []


def test_what_the_config_does_not_name_is_refused(api: ScriptedApi) -> None:
    with seen_by(api) as cluster:
        assert cluster.act(Scale(pool="other", replicas=1, version=None, reason="test")) is Outcome.REFUSED
        assert "does not name other" in cluster.last_error


def test_one_cache_that_is_not_believed_makes_all_unknown(api: ScriptedApi) -> None:
    def get(path: str, **_: str) -> dict[str, Any]:
        if path == BUDGETS:
            raise ApiError(403, "budgets are not for you")
        return {"items": api.lists[path], "metadata": {"resourceVersion": "1"}}

    api.get = get
    cluster = KubeCluster(cast("KubeApi", api), CONFIG, may_write=lambda: True, notify=lambda: None)
    cluster.start()
    try:
        wait_until(lambda: "budgets" in getattr(cluster.observe(), "why", ""), "the trouble")
        assert cluster.trouble()
    finally:
        cluster.close()


def test_a_team_that_takes_its_namespace_away_stops_nothing_else(api: ScriptedApi) -> None:
    """A list without rights is a 403, and with the namespace go the rights in it."""
    theirs = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"
    api.lists[BUDGETS] = [named("api", "ours", "3", spec={"maxUnavailable": 0}, status={"observedGeneration": 1})]
    listed = api.get

    def get(path: str, **query: str) -> dict[str, Any]:
        if "/team/" in path:
            raise ApiError(403, "budgets are not for you")
        return listed(path, **query)

    api.get = get
    both = (*budgets("api"), BudgetPolicy(name="hub", namespace="team", object_name="ebbtide-hub"))
    with seen_by(api, config(pool_policy(), budgets=both)) as cluster:
        wait_until(lambda: look(cluster).unknown, "the trouble in the team's namespace")
        seen = look(cluster)

    assert (seen.pools["train"].replicas, [*seen.budgets]) == (2, ["api"])
    assert seen.unknown.keys() == {"hub"}
    assert theirs in seen.unknown["hub"]


def test_closing_ends_every_watch(api: ScriptedApi) -> None:
    with seen_by(api):
        wait_until(lambda: len(api.watches) == len(api.lists), "every watch")

    wait_until(lambda: all(watch.ended for watch in api.watches.values()), "the end of every watch")


def test_a_pools_pods_are_told_in_the_order_of_their_names_whatever_the_list_was(api: ScriptedApi) -> None:
    api.lists[PODS] = [worker("train-2"), worker("train-1"), worker("stray", owner="nobody")]
    with seen_by(api) as cluster:
        assert [seen.name for seen in pool(cluster).pods] == ["train-1", "train-2"]


def test_a_deployment_whose_status_lags_is_not_settled_whatever_its_replica_sets_say(api: ScriptedApi) -> None:
    api.lists[DEPLOYMENTS][0]["status"]["observedGeneration"] = 0
    with seen_by(api) as cluster:
        assert not pool(cluster).settled


def test_objects_of_the_same_name_in_two_namespaces_are_distinguished(api: ScriptedApi) -> None:
    others = {path: path.replace("/workers/", "/more/").replace("/apps/pod", "/services/pod") for path in api.lists}
    api.lists |= {path: [] for path in others.values()}
    api.lists[others[DEPLOYMENTS]] = [named("train", "another", "9", spec={"replicas": 8}, status={})]
    api.lists[BUDGETS] = [named("api", "ours", "3", spec={"maxUnavailable": 0})]
    api.lists[others[BUDGETS]] = [
        named("api", "theirs", "4", spec={"maxUnavailable": 1}),
        named("loose", "x", "1", spec={}),
    ]
    embed = pool_policy(name="embed", namespace="more", deployment="train")
    both = (BudgetPolicy(name="api", namespace="apps"), BudgetPolicy(name="web", namespace="services"))
    with seen_by(api, config(embed, pool_policy(), budgets=both)) as cluster:
        seen = look(cluster)

    assert {name: found.replicas for name, found in seen.pools.items()} == {"embed": 8, "train": 2}
    assert {name: found.version for name, found in seen.budgets.items()} == {"api": "3"}


def written(replicas: int, version: str, *managers: str) -> dict[str, Any]:
    """The Deployment after a write of the managers."""
    item = deployment(replicas, version)
    field: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
    item["metadata"]["managedFields"] = [{"manager": name, "time": None, "fieldsV1": field} for name in managers]
    return item


ADOPTED = config(pool_policy(adopted=True), budgets=budgets("api"))
OURS = "ebbtide-controller"


def test_every_version_of_an_adopted_deployment_counts_though_nobody_looked_in_between(api: ScriptedApi) -> None:
    api.lists[DEPLOYMENTS] = [written(2, "2", "argocd")]
    with seen_by(api, ADOPTED) as cluster:
        assert pool(cluster).conflicting_manager == ""
        for item in (written(7, "3", OURS), written(5, "4", "kubectl-edit"), written(5, "5", "argocd")):
            api.change(DEPLOYMENTS, item, told=True)
        wait_until(lambda: pool(cluster).version == "5", "the last version")
        assert pool(cluster).conflicting_manager == ""

        api.change(DEPLOYMENTS, written(2, "6", "argocd"), told=True)
        wait_until(lambda: pool(cluster).version == "6", "the owner's own number")
        assert pool(cluster).conflicting_manager == "argocd"


def test_flexible_pods_are_measured_and_only_they_are_asked_for(api: ScriptedApi) -> None:
    def service(ready: str) -> dict[str, Any]:
        said = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-03-04T12:00:42Z"}
        item = named("api-1", "api-1", "1", spec={}, status={"conditions": [said]})
        item["metadata"]["creationTimestamp"] = "2026-03-04T12:00:00Z"
        return item

    api.lists[SERVICES] = [service("False")]
    with seen_by(api) as cluster:
        wait_until(lambda: SERVICES in api.watches, "the watch of services")
        api.change(SERVICES, service("True"), told=True)
        wait_until(lambda: cluster.measures.p99()["startup"] == 42, "the start-up to be measured")

    assert f"{SERVICES} ebbtide.dev/category=flexible" in api.asked
