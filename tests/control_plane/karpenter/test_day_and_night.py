"""The real Karpenter and the real controllers by day and by night: where our pods get nodes, and what moves when.

One course for all tests, since Karpenter's times are constants of tens of seconds. The controllers follow documents
whose business hours change. That nothing moves is shown by looks of Karpenter that began after the invitation, and not
by time. `-s` prints what Karpenter and the controllers did (docs/evidence/karpenter.md).
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.binaries import OF_KARPENTER, how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.karpenter import NODE_POOLS, Karpenter, NodePool, define, slow_ends
from control_plane.plane.stack import install

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import StackSettings
from ebbtide.settings.capacity.process_documents import workloads_config
from ebbtide.vocabulary.labels import CATEGORY, NAMESPACE, NODE_GROUP, WORKLOAD
from ebbtide.vocabulary.node_pools import CLOSED, budgets_for
from tests.builders.control_plane import eventually
from tests.builders.operation import ALWAYS_NIGHT
from tests.builders.redis import endpoint
from tests.builders.settings import loaded
from tests.control_plane.support import karpenter as support
from tests.control_plane.support.controllers import Controllers
from tests.control_plane.support.karpenter import GPU_TAINT, PODS, SLOW, TYPES, Watched, labels, looked_again, told
from tests.control_plane.support.nodes import ALWAYS_DAY

pytestmark = [pytest.mark.control_plane, pytest.mark.redis, pytest.mark.timeout(900)]

STACK = """\
config:
  ebbtide:customer: acme
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }
  ebbtide:cluster:
    kind: existing
    context: onprem
    nodeSelectors:
      fixed: { ebbtide.dev/node-group: fixed }
      flexible: { ebbtide.dev/node-group: flexible }
      gpu: { ebbtide.dev/node-group: gpu }
    nodePools: { flexible: [flexible], gpu: [gpu] }
  ebbtide:redis: { kind: url, url: "redis://redis.example.com:6379/0" }
  ebbtide:workloads:
    hub: { category: fixed, image: "example.com/hub:1", cpu: 1, memory: 1Gi }
    web: { category: flexible, image: "example.com/web:1", replicas: 4, cpu: 500m, memory: 1Gi }
  ebbtide:workers:
    prep: { source: { queues: [prep] }, image: "example.com/prep:1", max: 4, cpu: 2, memory: 4Gi, longestJob: 12h }
    train:
      { source: { queues: [train] }, image: "train:1", max: 4, cpu: 2, memory: 4Gi, gpu: 1, longestJob: 12h }
"""
OPEN = budgets_for(5)
FOREIGN = [{"nodes": "1"}]
OTHERS = 2  # pods of a team's Deployment on nodes whose NodePool is always open
Placed = Mapping[str, str]
Budgets = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Course:
    """Uid and node of every pod on Karpenter's nodes, at points of a day and a night, and budgets then."""

    groups: Mapping[str, set[str]]  # by workload: the groups of its pods' nodes
    scattered: Placed
    by_day: Placed
    nodes_by_day: set[str]
    gpu: Mapping[str, Any]  # of the NodePool with another manager's budgets: what /status says
    gpu_budgets: Budgets
    others: set[str]  # uids of the team's pods by day
    worker: str
    night: Placed
    nodes_by_night: set[str]
    least_ready: int | None
    pods_budget: int  # after the NodePools have closed
    lonely: str  # a pod alone on its node, after the closing
    morning: Placed
    closer: "subprocess.CompletedProcess[str]"
    closed_by_closer: Budgets


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    if lacking := [*missing(), *missing(OF_KARPENTER)]:
        pytest.skip(how_to_get(lacking))
    folder = tmp_path_factory.mktemp("karpenter")
    with ControlPlane(mode=slow_ends(folder)) as plane, Karpenter(plane, TYPES) as karpenter, EmbeddedRedis() as redis:
        with redis.client() as client:
            for pool in ("prep", "train"):
                client.rpush(f"rq:queue:{pool}", "a job that nobody takes")
        yield played(plane, karpenter, redis, folder)


def played(plane: ControlPlane, karpenter: Karpenter, redis: EmbeddedRedis, folder: Path) -> Course:
    for name, types, taints, budgets in (
        ("flexible", TYPES[:1], (), None),
        ("gpu", TYPES[1:], (GPU_TAINT,), FOREIGN),
        ("open", TYPES[:1], (), OPEN),
    ):
        karpenter.create(NodePool(name=name, types=types, labels=labels(name), taints=taints, budgets=budgets))
    plane.add_node("fixed-1", labels=labels("fixed", "fixed"))
    support.fill(plane, "flexible", 3)
    support.fill(plane, "open", OTHERS + 1)
    controllers, begun = installed(plane, loaded(STACK, folder), redis, folder), datetime.now(UTC)
    try:
        controllers.start()
        return observed(plane, karpenter, controllers)
    except (ApiError, AssertionError) as error:
        error.add_note(told(begun, karpenter.commands(), controllers.writes()))
        raise
    finally:
        controllers.kill()


def installed(plane: ControlPlane, settings: StackSettings, redis: EmbeddedRedis, folder: Path) -> Controllers:
    stack, controllers = install(plane, settings, folder / "stack"), Controllers(plane, folder)
    controllers.follow(stack.config_with(endpoint(redis)), workloads_config(settings, lambda _: ""), ALWAYS_DAY)
    return controllers


def observed(plane: ControlPlane, karpenter: Karpenter, controllers: Controllers) -> Course:
    team(plane)
    eventually(lambda: karpenter.budgets("flexible") == CLOSED, what="the NodePool to be taken over")
    groups = eventually(lambda: groups_of(plane), what="a node for every pod", patience=SLOW)
    support.clear(plane, "flexible", 3)
    support.clear(plane, "open", OTHERS + 1)
    begun, scattered = datetime.now(UTC), support.placed(plane)
    others = {it["metadata"]["uid"] for it in plane.api.get(PODS)["items"]}
    eventually(lambda: nodes(karpenter) == {*scattered.values()}, what="the empty nodes to go", patience=SLOW)
    looked_again(karpenter)
    by_day, nodes_by_day = support.placed(plane), nodes(karpenter)
    gpu, gpu_budgets = controllers.about("gpu"), karpenter.budgets("gpu")
    (worker,) = (it["metadata"]["uid"] for it in workers(plane, "prep"))

    watched = Watched(plane, NAMESPACE, f"{WORKLOAD}=web")
    watched.begin(4)
    support.set_allowed(plane, "default", "team", 1)
    controllers.write(ALWAYS_NIGHT)
    eventually(lambda: len(karpenter.nodes("open")) < OTHERS, what="the team's pods to move", patience=SLOW)
    eventually(lambda: len(karpenter.nodes("flexible")) <= 2, what="the flexible pods to move", patience=SLOW)
    eventually(lambda: nodes(karpenter) == {*support.placed(plane).values()}, what="the drains to end", patience=SLOW)
    night, nodes_by_night = support.placed(plane), nodes(karpenter)
    watched.stop()

    controllers.write(controllers.soon())
    eventually(lambda: karpenter.budgets("flexible") == CLOSED, what="the NodePool to close")
    (node,) = support.fill(plane, "flexible", 1)
    bound = support.pod("lonely", "flexible", 100, nodeName=node, tolerations=[support.STAYS])
    lonely = plane.api.create(PODS, bound)["metadata"]["uid"]
    support.clear(plane, "flexible", 1)
    eventually(lambda: lonely in support.placed(plane), what="the lonely pod")
    looked_again(karpenter)
    morning, pods_budget = support.placed(plane), allowed(plane)

    print(told(begun, karpenter.commands(), controllers.writes()))
    controllers.write(ALWAYS_NIGHT)
    eventually(lambda: karpenter.budgets("flexible") == OPEN, what="the NodePool to open again")
    controllers.kill()
    controllers.write(controllers.soon())
    closer = controllers.close()
    return Course(
        groups=groups,
        scattered=scattered,
        by_day=by_day,
        nodes_by_day=nodes_by_day,
        gpu=gpu,
        gpu_budgets=gpu_budgets,
        others=others,
        worker=worker,
        night=night,
        nodes_by_night=nodes_by_night,
        least_ready=watched.least,
        pods_budget=pods_budget,
        lonely=lonely,
        morning=morning,
        closer=closer,
        closed_by_closer=karpenter.budgets("flexible"),
    )


def allowed(plane: ControlPlane) -> int:
    path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/web"
    return int(plane.api.get(path)["spec"]["maxUnavailable"])


def team(plane: ControlPlane) -> None:
    """Somebody's Deployment under a closed budget of its own."""
    body = support.pod("team", "open", 1000)
    template = {"metadata": {"labels": {"app": "team"}}, "spec": body["spec"]}
    spec = {"replicas": OTHERS, "selector": {"matchLabels": {"app": "team"}}, "template": template}
    budget = support.budget("team", "default", {"app": "team"}, 0)
    plane.api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    plane.api.create("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "team"}, "spec": spec})


def groups_of(plane: ControlPlane) -> Mapping[str, set[str]] | None:
    """None while a pod waits for its node."""
    group = {
        node["metadata"]["name"]: node["metadata"]["labels"][NODE_GROUP]
        for node in plane.api.get("/api/v1/nodes")["items"]
    }
    found = plane.api.get("/api/v1/pods", labelSelector=CATEGORY)["items"]
    team = plane.api.get(PODS, labelSelector="app=team")["items"]
    if len(team) < OTHERS or not all(support.is_live(pod) for pod in [*found, *team]):
        return None
    groups: dict[str, set[str]] = {}
    for pod in found:
        groups.setdefault(pod["metadata"]["labels"][WORKLOAD], set()).add(group[pod["spec"]["nodeName"]])
    return groups if {"hub", "web", "prep", "train"} <= set(groups) else None


def workers(plane: ControlPlane, pool: str) -> list[Json]:
    items = plane.api.get(f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods", labelSelector=f"{WORKLOAD}={pool}")["items"]
    return [pod for pod in items if support.is_live(pod)]


def nodes(karpenter: Karpenter) -> set[str]:
    return {name for pool in ("flexible", "gpu", "open") for name in karpenter.nodes(pool)}


def test_pods_of_every_kind_get_nodes_of_their_own_pool(course: Course) -> None:
    groups = {name: course.groups[name] for name in ("hub", "web", "prep", "train")}

    assert groups == {"hub": {"fixed"}, "web": {"flexible"}, "prep": {"flexible"}, "train": {"gpu"}}


def test_by_day_empty_nodes_go_and_nothing_moves_under_a_closed_node_pool_or_closed_pods_budgets(
    course: Course,
) -> None:
    assert course.by_day == course.scattered
    assert course.nodes_by_day == {*course.scattered.values()}


def test_budgets_of_another_manager_stay_and_are_reported(course: Course) -> None:
    assert course.gpu_budgets == FOREIGN
    assert (course.gpu["state"], course.gpu["why"]) == ("held", "another-manager")


def test_in_the_window_flexible_pods_move_one_at_a_time(course: Course) -> None:
    assert not course.others <= course.night.keys()
    assert len(course.nodes_by_night) < len(course.nodes_by_day)
    assert course.least_ready == 3


def test_a_worker_that_is_busy_all_night_stays_on_its_node(course: Course) -> None:
    assert course.night[course.worker] == course.by_day[course.worker]


def test_before_opening_node_pools_close_first_and_then_nothing_moves(course: Course) -> None:
    assert course.pods_budget == 1
    assert course.morning.keys() - course.night.keys() == {course.lonely}
    assert {uid: course.morning.get(uid) for uid in course.night} == course.night


def test_the_closer_closes_the_node_pools_of_controllers_that_died_in_the_window(course: Course) -> None:
    assert course.closer.stdout.splitlines() == ["closer: nodepool flexible closed"]
    assert course.closed_by_closer == CLOSED


def test_the_closer_fails_by_name_for_a_node_pool_with_budgets_of_another_manager(course: Course) -> None:
    assert course.closer.returncode == 1
    assert course.closer.stderr.startswith("closer: nodepool gpu: ")


def test_a_node_pool_whose_budgets_nobody_owns_gets_karpenters_default(plane: ControlPlane) -> None:
    """So the controller never releases them."""
    define(plane)
    path = f"{NODE_POOLS}/released"
    body = NodePool(name="released", types=TYPES, labels={}).body()
    named = {key: body[key] for key in ("apiVersion", "kind", "metadata")}
    plane.api.create(NODE_POOLS, body)

    def budgets() -> list[Json]:
        return plane.api.get(path)["spec"]["disruption"]["budgets"]

    assert budgets() == [{"nodes": "10%"}]
    plane.api.apply(path, {**named, "spec": {"disruption": {"budgets": CLOSED}}}, manager="ebbtide-workloads")
    assert budgets() == CLOSED
    plane.api.apply(path, named, manager="ebbtide-workloads")
    assert budgets() == [{"nodes": "10%"}]
