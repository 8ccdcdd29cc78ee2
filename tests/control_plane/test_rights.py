"""What the controller's own account may do on a rendered stack: all that it needs, nothing beyond, however asked."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from control_plane.driver import ControlPlane
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import dump
from ebbtide.vocabulary.labels import CONTROLLER, DELETION_COST, NAMESPACE, WORKER_NAMESPACE
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.builders_control_plane import eventually
from tests.builders_operation import ALWAYS_NIGHT
from tests.builders_redis import server, shared_server
from tests.builders_rights import (
    Site,
    World,
    budget_path,
    deployment_path,
    differences,
    greedy_config,
    installed,
    removed,
    targets,
    wishes_in,
    with_field,
    world,
)
from tests.builders_two_replicas import kubeconfig_through
from tests.control_plane.faulty_controller import MOST, TARGETS
from tests.harness.api_proxy import ApiProxy

__all__ = ["server", "shared_server"]  # fixtures

pytestmark = [pytest.mark.control_plane, pytest.mark.redis]

ALWAYS_DAY = BusinessHours(timezone="UTC", week=tuple(WeeklyInterval(day, 0, 24 * 60) for day in range(7)))
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@pytest.fixture(scope="module")
def site(
    control_plane: ControlPlane, shared_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    found = installed(control_plane, shared_server, tmp_path_factory.mktemp("rights"))
    yield found
    removed(found)


# --- all that it needs ------------------------------------------------------------------------------------------------


class Witness(ApiProxy):
    """Passes on everything, and remembers what was answered."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.url, str(plane.configuration().ssl_ca_cert))
        self.seen: set[tuple[str, str, int]] = set()  # method, resource, status

    def answered(self, method: str, path: str, status: int) -> None:
        *_, last = [part for part in path.partition("?")[0].split("/") if part in _RESOURCES]
        self.seen.add(("WATCH" if "watch=" in path else method, last, status))


_RESOURCES = ("leases", "poddisruptionbudgets", "pods", "deployments", "replicasets", "events", "scale")


def hired(redis: Redis, pod: str, state: str) -> None:
    """What an RQ worker in that pod says of itself."""
    redis.sadd("rq:workers:prep", f"rq:worker:{pod}")
    redis.hset(f"rq:worker:{pod}", mapping={"hostname": pod, "state": state})


def running(site: Site, number: int) -> list[str]:
    """Their names, once so many of the pool's pods run."""
    pods = site.api.get(PODS)["items"]
    alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running"]
    return [pod["metadata"]["name"] for pod in alive] if len(alive) == number else []


def replicas(site: Site) -> int:
    return site.api.get(deployment_path(WORKER_NAMESPACE, "prep"))["spec"]["replicas"]


def are_all(site: Site, value: int) -> bool:
    """Whether every flexible budget allows so many."""
    return {site.api.get(path)["spec"].get("maxUnavailable") for path in site.flexible()} == {value}


def test_the_process_does_all_its_work_without_one_refusal(site: Site, server: EmbeddedRedis) -> None:
    scene = site.scene()
    scene.write(dump(site.config(hours=ALWAYS_NIGHT)))
    with Witness(site.plane) as witness, server.client() as redis:
        with scene.leader("witnessed", kubeconfig=kubeconfig_through(witness, scene, "witnessed")) as process:
            eventually(lambda: are_all(site, 1), what="the openings")
            redis.rpush("rq:queue:prep", "one", "two")
            busy, idle = eventually(lambda: running(site, 2), what="two workers")
            with redis.pipeline() as at_once:  # else a job would be counted twice, or not at all
                at_once.delete("rq:queue:prep")
                at_once.zadd("rq:wip:prep", {"one": 4e9})
                hired(at_once, busy, "busy")
                hired(at_once, idle, "idle")
                at_once.execute()
            assert eventually(lambda: running(site, 1), what="the idle worker to go") == [busy]
            redis.delete("rq:wip:prep")
            hired(redis, busy, "idle")
            eventually(lambda: replicas(site) == 0, what="the pool at zero")
            scene.write(dump(site.config(hours=ALWAYS_DAY)))
            eventually(lambda: are_all(site, 0), what="the closings")
            eventually(lambda: scene.events(WORKER_NAMESPACE) and scene.events(NAMESPACE), what="Events")
            assert process.status()["leader"]["held"] is True
            assert process.terminate() == 0
        assert scene.lease_holder() == ""

    needed = {("PATCH", "scale"), ("PATCH", "pods"), ("PATCH", "poddisruptionbudgets"), ("PATCH", "events")}
    needed |= {("GET", "leases"), ("PUT", "leases")}
    needed |= {("WATCH", kind) for kind in ("pods", "deployments", "replicasets", "poddisruptionbudgets")}
    assert needed <= {(method, resource) for method, resource, status in witness.seen if status < 300}
    assert {status for _, _, status in witness.seen} <= {200, 201, 409}  # a stale version is no refusal


# --- and nothing beyond -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Greed:
    """What the faulty controller wished for and got, and the world around it."""

    before: World
    after: World
    granted: frozenset[tuple[str, str]]  # wish and path
    refused: frozenset[tuple[str, str, int]]


@pytest.fixture(scope="module")
def calm_world(site: Site) -> Iterator[Site]:
    """With a pod in each pool, and nobody but the process under test who changes anything, until the module ends."""
    namespace = ("--namespace", WORKER_NAMESPACE)
    site.plane.kubectl(*namespace, "scale", "deployment", "--all", "--replicas=1")
    eventually(lambda: running(site, len(site.pools())), what="a worker of each pool")
    for component in ("kube-controller-manager", "kube-scheduler"):
        site.plane.suspend(component)
    yield site
    site.plane.kubectl(*namespace, "scale", "deployment", "--all", "--replicas=0")
    for component in ("kube-controller-manager", "kube-scheduler"):
        site.plane.resume(component)


def let_loose(site: Site, monkeypatch: pytest.MonkeyPatch, name: str) -> Greed:
    before = world(site.api)
    found, scene = targets(before), site.scene()
    file = site.folder / "targets.json"
    file.write_text(json.dumps(found))
    monkeypatch.setenv(TARGETS, str(file))
    scene.write(dump(greedy_config(site, found)))
    with scene.process(name, module="tests.control_plane.faulty_controller") as process:
        eventually(lambda: '"the end"' in process.log.read_text(), what="the last wish", patience=90)
        process.terminate()  # which frees the Lease for the next one
    told = wishes_in(process.log)
    granted = frozenset((wish["wish"], wish["path"]) for wish in told if wish["status"] == 200)
    refused = frozenset((wish["wish"], wish["path"], wish["status"]) for wish in told if wish["status"] != 200)
    return Greed(before=before, after=world(site.api), granted=granted, refused=refused)


FORMS = ("merge", "strategic merge", "JSON patch", "apply")


def allowed_to(site: Site) -> set[tuple[str, str]]:
    """Of the wishes through the API, those within the rights: patches of a flexible budget to 1, of a pool's scale."""
    opened = {(f"open to 1 by {form}", path) for form in FORMS for path in site.flexible()}
    return opened | {(f"scale up by {form}", f"{path}/scale") for form in FORMS for path in site.pools()}


def through_api(wishes: frozenset[tuple[str, str]]) -> set[tuple[str, str]]:
    return {(wish, path) for wish, path in wishes if path}


def test_a_faulty_controller_changes_what_the_rights_allow_and_nothing_else(
    calm_world: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    greed = let_loose(calm_world, monkeypatch, "faulty")

    expected: dict[str, Any] = {
        path: with_field(greed.before[path], "spec", "maxUnavailable", 1) for path in calm_world.flexible()
    }
    expected |= {path: with_field(greed.before[path], "spec", "replicas", MOST) for path in calm_world.pools()}
    for path in (path for path in greed.before if path.startswith(f"{PODS}/")):
        marked = {**greed.before[path]["metadata"].get("annotations", {}), DELETION_COST: "-1"}
        expected[path] = with_field(greed.before[path], "metadata", "annotations", marked)
    assert differences(greed.before, greed.after) == expected
    assert through_api(greed.granted) == allowed_to(calm_world)


def test_without_the_admission_policies_it_would_have_changed_more(
    calm_world: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which wishes the policies refuse: those that pass once they are gone. The last test of this stack."""
    ours = [item for item in calm_world.api.get(BINDINGS)["items"] if item["metadata"]["name"].startswith("ebbtide-")]
    for binding in ours:
        calm_world.api.delete(f"{BINDINGS}/{binding['metadata']['name']}")
    eventually(lambda: is_unguarded(calm_world), what="the policies to be gone")

    greed = let_loose(calm_world, monkeypatch, "unguarded")

    more = through_api(greed.granted) - allowed_to(calm_world)
    assert {wish for wish, _ in more} == {
        *(f"open to {value} by {form}" for value in (2, "100%") for form in FORMS),
        "drop the selector",
        *("relabel by merge", "relabel by JSON patch", "annotate"),
    }
    pods = {path for path in greed.before if path.startswith(f"{PODS}/")}
    assert {path for _, path in more} == pods | calm_world.flexible()


def is_unguarded(site: Site) -> bool:
    """Nothing is written by asking."""
    controller = site.plane.api_as(NAMESPACE, CONTROLLER)
    path = budget_path(site.stack.config.budgets[0])
    return bool(controller.patch(path, {"spec": {"maxUnavailable": 2}}, dryRun="All"))
