"""What the controller's own account may do on a rendered stack: all that it needs, nothing beyond, however asked."""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import InstalledStack, add_group_node, install
from redis import Redis

from controllers.adapters.kube_api import Json, KubeApi
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.sections.checkpoints import CheckpointSettings
from ebbtide.settings.sections.workers import Source
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CONTROLLER, DELETION_COST, NAMESPACE, Category
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.builders.control_plane import eventually
from tests.builders.operation import ALWAYS_NIGHT, Scene
from tests.builders.redis import endpoint, server, shared_server
from tests.builders.stack import SIZE, pool_settings, stack_settings
from tests.control_plane.support.faulty_controller import MOST, TARGETS
from tests.control_plane.support.two_replicas import kubeconfig_through
from tests.harness.api_proxy import ApiProxy

World: TypeAlias = dict[str, Json]  # by path

NODE = "rights-flexible"
_SPACES = (NAMESPACE, WORKER_NAMESPACE)
_TOLD = {"events", "leases"}  # what the controller writes all the time, and nodes renew
_MOVING = ("managedFields", "resourceVersion", "generation")


@dataclass(frozen=True, kw_only=True)
class Site:
    """A small stack as rendered and applied: two workloads of each category, one of them a StatefulSet, two pools,
    one of them with checkpoints.
    """

    plane: ControlPlane
    stack: InstalledStack
    redis: EmbeddedRedis
    folder: Path

    @property
    def api(self) -> KubeApi:
        return self.plane.api

    def scene(self) -> Scene:
        """Where a controller process runs: the stack's own namespaces and account."""
        return Scene(plane=self.plane, redis=self.redis, apps=NAMESPACE, workers=WORKER_NAMESPACE, folder=self.folder)

    def config(self, **changes: Any) -> ControllerConfig:
        """The rendered one, quick, with a Redis of this machine."""
        config = self.stack.config_with(endpoint(self.redis))
        pools = tuple(replace(pool, stabilization_window=timedelta(seconds=1)) for pool in config.pools)
        return replace(config, **{"pools": pools, "resync": timedelta(seconds=1), **changes})

    def pools(self) -> set[str]:
        """Paths, as those of the following."""
        return {deployment_path(WORKER_NAMESPACE, pool.deployment) for pool in self.stack.config.pools}

    def flexible(self) -> set[str]:
        return {budget_path(budget) for budget in self.stack.config.budgets}


def installed(plane: ControlPlane, redis: EmbeddedRedis, folder: Path) -> Site:
    """With a node for the flexible and the workers; the fixed have none, which is nothing to those who want them."""
    kinds = {"hub": (Category.FIXED, "deployment"), "store": (Category.FIXED, "stateful-set")}
    kinds |= {"api": (Category.FLEXIBLE, "deployment"), "web": (Category.FLEXIBLE, "deployment")}
    workloads = {
        name: WorkloadSettings.model_validate({"category": category, "kind": kind, "image": f"{name}:1", **SIZE})
        for name, (category, kind) in kinds.items()
    }
    prep = pool_settings().model_copy(update={"source": Source(queues=("prep",))})
    saves = CheckpointSettings(store="s3://acme-checkpoints")  # which opens the budget of one of the two
    train = pool_settings().model_copy(update={"checkpoints": saves})
    settings = stack_settings(workloads=workloads, workers={"train": train, "prep": prep})
    stack = install(plane, settings, folder / "rendered")
    # A first worker that is still there would be bound to the node, and hold its room for the whole grace. One that was
    # bound to the last test's node, just before that went, would be ended by nobody for longer than a test may wait.
    eventually(lambda: first_workers_ended(plane), what="the pools' first workers to be gone")
    add_group_node(plane, settings, "flexible", NODE)
    return Site(plane=plane, stack=stack, redis=redis, folder=folder)


def first_workers_ended(plane: ControlPlane) -> bool:
    workers = ("--namespace", WORKER_NAMESPACE, "pods", "--all")
    plane.kubectl("delete", *workers, "--force", "--grace-period=0", "--wait=false")
    replicas = plane.api.get(f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/replicasets")["items"]
    none_wanted = all(item["spec"]["replicas"] == 0 for item in replicas)
    return none_wanted and not plane.api.get(PODS)["items"]


def removed(site: Site) -> None:
    site.plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", str(site.stack.folder / "kubernetes"))

    def left() -> set[str]:
        return {item["metadata"]["name"] for item in site.api.get("/api/v1/namespaces")["items"]} & {*_SPACES}

    eventually(lambda: not left(), what="the stack's namespaces to be gone", patience=60)
    site.api.delete(f"/api/v1/nodes/{NODE}")  # not before its pods, which nobody else ends


def deployment_path(namespace: str, name: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"


def budget_path(budget: BudgetPolicy) -> str:
    return f"/apis/policy/v1/namespaces/{budget.namespace}/poddisruptionbudgets/{budget.name}"


# --- the whole world --------------------------------------------------------------------------------------------------


def world(api: KubeApi) -> World:
    """All that can be listed, but status, bookkeeping, events and Leases."""
    seen: World = {}
    for base, resource in _resources(api):
        for item in api.get(f"{base}/{resource['name']}").get("items", ()):
            meta, status = item["metadata"], item.pop("status", None)
            if resource["name"] in _TOLD or (status is None and "name" not in meta):
                continue
            for key in _MOVING:
                meta.pop(key, None)
            space = f"/namespaces/{meta['namespace']}" if resource["namespaced"] else ""
            seen[f"{base}{space}/{resource['name']}/{meta['name']}"] = item
    return seen


def _resources(api: KubeApi) -> Iterator[tuple[str, Json]]:
    groups = api.get("/apis")["groups"]
    for base in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
        for resource in api.get(base)["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                yield base, resource


def differences(before: World, after: World) -> dict[str, Any]:
    """By path: what it is now where it was another, None where it has gone."""
    return {path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def with_field(item: Json, section: str, field: str, value: object) -> Json:
    changed = deepcopy(item)
    changed.setdefault(section, {}).setdefault(field, value)
    changed[section][field] = value
    return changed


# --- what a faulty controller is told ---------------------------------------------------------------------------------


def targets(seen: World) -> dict[str, list[str]]:
    """Every object of the two namespaces that it could want, by kind."""
    kinds = {"budgets": ("poddisruptionbudgets",), "scalable": ("deployments", "statefulsets"), "pods": ("pods",)}
    kinds |= {"secrets": ("secrets",), "roles": ("roles",), "policies": ()}
    found = {kind: [path for path in seen if _is_of(path, plurals)] for kind, plurals in kinds.items()}
    found["policies"] = [path for path in seen if "validatingadmissionpolicybindings/ebbtide-" in path]
    found["collections"] = sorted({path.rpartition("/")[0] for paths in found.values() for path in paths})
    return found


def _is_of(path: str, plurals: tuple[str, ...]) -> bool:
    *_, space, plural, _ = path.split("/")
    return plural in plurals and space in _SPACES


def greedy_config(site: Site, found: Mapping[str, list[str]]) -> ControllerConfig:
    """Calls every budget flexible, and every Deployment a pool."""
    config = site.config()
    budgets = [BudgetPolicy(name=path.split("/")[-1], namespace=path.split("/")[-3]) for path in found["budgets"]]
    deployments = [path.split("/") for path in found["scalable"] if "/deployments/" in path]
    pools = [
        replace(config.pools[0], name=name, deployment=name, namespace=space, queues=(name,))
        for *_, space, _, name in deployments
    ]
    return replace(config, budgets=tuple(budgets), never_opened=(), pools=tuple(pools))


def wishes_in(log: Path) -> list[Mapping[str, Any]]:
    lines = [line for line in log.read_text().splitlines() if line.startswith('{"wish"')]
    return [json.loads(line) for line in lines]


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
    """Whether every budget that the controller opens allows so many."""
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
    with scene.process(name, module="tests.control_plane.support.faulty_controller") as process:
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
