"""What `ebbtide render` writes, applied to a real API server as its header says, and used with its own accounts."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError, Json, KubeApi
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.output import output_files
from ebbtide.settings import load_stack
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.labels import (
    CLOSED_MINIMUM,
    CLOSER,
    CONTROLLER,
    DELETION_COST,
    FIELD_MANAGER,
    MAINTENANCE_UNTIL,
    NAMESPACE,
    WORKLOAD,
)
from ebbtide.vocabulary.windows import WeeklyInterval
from tests.builders.authority import AUTHORITY
from tests.builders.control_plane import eventually
from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest
from tests.control_plane.support.applying import followed
from tests.paths import DATA

pytestmark = pytest.mark.control_plane

BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
APPLY = ("apply", "--server-side", "--validate=strict", "--output=name")
ALWAYS = tuple(WeeklyInterval(day, 0, 24 * 60) for day in range(7))


@dataclass(frozen=True, kw_only=True)
class Stack:
    """The demo customer's stack on the control plane, with names to try rights on."""

    admin: KubeApi
    controller: KubeApi
    closer: KubeApi
    config: ControllerConfig
    folder: Path
    pod: str  # of a pool
    accepted: list[str]  # "kind/name", as the server took them

    @property
    def flexible(self) -> str:
        return self.config.budgets[0].name

    @property
    def fixed(self) -> str:
        return self.config.never_opened[0].name

    @property
    def pool(self) -> str:
        return self.config.pools[0].deployment


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("rendered")
    write_directory(folder, output_files(record(load_stack("demo", DATA))))
    files = str(folder / "kubernetes")
    accepted = followed(control_plane, folder)
    config = load(ControllerConfig, (folder / "controller-config.json").read_text())
    controller = control_plane.api_as(NAMESPACE, CONTROLLER)
    applied_scale(controller, config.pools[0].deployment, 1)
    for budget in config.budgets:  # as after a first night; the files leave the number out
        applied_budget(controller, budget.name, {"maxUnavailable": 0})
    pod = eventually(lambda: worker_of(control_plane.api, config.pools[0].deployment), what="the pool's pod")
    yield Stack(
        admin=control_plane.api,
        controller=controller,
        closer=control_plane.api_as(NAMESPACE, CLOSER),
        config=config,
        folder=folder,
        pod=pod,
        accepted=accepted.split(),
    )
    control_plane.kubectl("delete", "--wait=false", "-f", files)
    eventually(lambda: not namespaces_of(control_plane.api), what="the stack's namespaces to be gone")


def worker_of(api: KubeApi, pool: str) -> str:
    """Return the name of a pod that a ReplicaSet of the pool owns, empty if there is none."""
    pods = api.get(PODS, labelSelector=f"{WORKLOAD}={pool}")["items"]
    return next((pod["metadata"]["name"] for pod in pods if pod["metadata"].get("ownerReferences")), "")


def namespaces_of(api: KubeApi) -> set[str]:
    names = {namespace["metadata"]["name"] for namespace in api.get("/api/v1/namespaces")["items"]}
    return names & {NAMESPACE, WORKER_NAMESPACE}


def objects_in(files: Path) -> int:
    return sum(file.read_text().count("\nkind: ") for file in files.iterdir())


def applied_scale(api: KubeApi, name: str, replicas: int) -> Json:
    head = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}}
    return api.apply(f"{DEPLOYMENTS}/{name}/scale", {**head, "spec": {"replicas": replicas}}, manager=FIELD_MANAGER)


def applied_budget(api: KubeApi, name: str, spec: Mapping[str, Any], **metadata: Any) -> Json:
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, **metadata}}
    return api.apply(f"{BUDGETS}/{name}", {**head, "spec": spec}, manager=FIELD_MANAGER)


def test_every_rendered_object_is_accepted(stack: Stack) -> None:
    assert len(stack.accepted) == objects_in(stack.folder / "kubernetes")


def test_the_steps_make_each_secret_before_the_first_pod_that_waits_for_it(stack: Stack) -> None:
    waiting = 0
    for namespace in (NAMESPACE, WORKER_NAMESPACE):
        listed = stack.admin.get(f"/api/v1/namespaces/{namespace}/secrets")["items"]
        made = {it["metadata"]["name"]: it["metadata"]["creationTimestamp"] for it in listed}
        for pod in stack.admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
            wanted = set(re.findall(r"'secretKeyRef': {'name': '([^']+)'", str(pod["spec"])))
            waiting += len(wanted)
            assert all(made[name] <= pod["metadata"]["creationTimestamp"] for name in wanted)
    assert waiting >= 2  # those of Redis and of a pool


def test_the_other_example_is_accepted_too(control_plane: ControlPlane, stack: Stack, tmp_path: Path) -> None:
    write_directory(tmp_path, output_files(record(load_stack("example-berlin", DATA))))
    accepted = control_plane.kubectl(*APPLY, "--dry-run=server", "-f", str(tmp_path / "kubernetes"))

    assert len(accepted.split()) == objects_in(tmp_path / "kubernetes")


def test_a_closed_networks_stack_is_accepted_too(control_plane: ControlPlane, stack: Stack, tmp_path: Path) -> None:
    ranges = ["169.254.0.0/16", "2001:db8::/32"]
    egress = {"httpsProxy": "http://192.0.2.8:3128", "caBundle": AUTHORITY, "allow": ranges}
    settings = loaded(shortest(more=f"ebbtide:egress: {json.dumps(egress)}"), tmp_path)
    write_directory(tmp_path / "rendered", output_files(record(settings)))
    files = tmp_path / "rendered" / "kubernetes"
    accepted = control_plane.kubectl(*APPLY, "--dry-run=server", "-f", str(files))

    assert len(accepted.split()) == objects_in(files)
    assert accepted.count("configmap/ebbtide-ca-bundle") == 3


def test_entrances_are_accepted_too(control_plane: ControlPlane, stack: Stack, tmp_path: Path) -> None:
    pod = "category: flexible, image: api:1, cpu: 1, memory: 1Gi, ports: { http: 8080 }"
    certificate = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d"
    entries = f"""
        ebbtide:workloads:
          web: {{ {pod}, ingress: {{ host: "*.example.com", path: /v1/, tls: web-tls, class: nginx }} }}
          hub: {{ {pod}, expose: {{ public: true, certificate: "{certificate}", sources: [203.0.113.0/24] }} }}
          store: {{ {pod}, kind: stateful-set, expose: {{}} }}
    """
    write_directory(tmp_path / "rendered", output_files(record(loaded(shortest(more=entries), tmp_path))))
    files = tmp_path / "rendered" / "kubernetes"
    accepted = control_plane.kubectl(*APPLY, "--dry-run=server", "-f", str(files)).split()

    assert len(accepted) == objects_in(files)
    assert {"ingress.networking.k8s.io/web", "service/hub-public", "service/store-entrance"} <= set(accepted)


# --- rights -----------------------------------------------------------------------------------------------------------

Try: TypeAlias = Callable[[Stack], object]


def renewed_lease(stack: Stack) -> None:
    lease = stack.controller.get(f"{LEASES}/{CONTROLLER}")
    stack.controller.replace(f"{LEASES}/{CONTROLLER}", {**lease, "spec": {"holderIdentity": "test"}})


def told_event(stack: Stack) -> None:
    events = f"/apis/events.k8s.io/v1/namespaces/{WORKER_NAMESPACE}/events"
    regarding = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": WORKER_NAMESPACE, "name": stack.pool}
    event = {"metadata": {"generateName": "test-"}, "eventTime": datetime.now(UTC).isoformat(), "regarding": regarding}
    words = {"reason": "Test", "action": "Test", "type": "Normal", "note": "a test"}
    names = {"reportingController": "ebbtide.dev/controller", "reportingInstance": "test"}
    made = stack.controller.create(events, {**event, **words, **names})
    stack.controller.patch(f"{events}/{made['metadata']['name']}", {"metadata": {"labels": {"seen": "twice"}}})


def watched(path: str) -> Try:
    return lambda stack: (
        stack.controller.get(path),
        list(stack.controller.watch(path, silence=5, timeoutSeconds="1")),
    )


NEEDED: dict[str, Try] = {
    "renew the Lease": renewed_lease,
    "watch budgets": watched(BUDGETS),
    "watch pods of workloads": watched(f"/api/v1/namespaces/{NAMESPACE}/pods"),
    "watch pods of workers": watched(PODS),
    "watch Deployments of workers": watched(DEPLOYMENTS),
    "watch ReplicaSets of workers": watched(DEPLOYMENTS.replace("deployments", "replicasets")),
    "read a pool's scale": lambda stack: stack.controller.get(f"{DEPLOYMENTS}/{stack.pool}/scale"),
    "scale a pool": lambda stack: applied_scale(stack.controller, stack.pool, 1),
    "open a flexible budget": lambda stack: applied_budget(stack.controller, stack.flexible, {"maxUnavailable": 1}),
    "close a flexible budget": lambda stack: applied_budget(stack.controller, stack.flexible, {"maxUnavailable": 0}),
    "mark a worker": lambda stack: annotated(stack.controller, f"{PODS}/{stack.pod}", DELETION_COST, "-1"),
    "unmark a worker": lambda stack: annotated(stack.controller, f"{PODS}/{stack.pod}", DELETION_COST, None),
    "tell an event": told_event,
    "closer: read a budget": lambda stack: stack.closer.get(f"{BUDGETS}/{stack.fixed}"),
    "closer: close a fixed budget": lambda stack: applied_budget(stack.closer, stack.fixed, {"maxUnavailable": 0}),
}


def annotated(api: KubeApi, path: str, key: str, value: str | None) -> Json:
    return api.patch(path, {"metadata": {"annotations": {key: value}}})


@pytest.mark.parametrize("name", NEEDED)
def test_the_rendered_role_allows(name: str, stack: Stack) -> None:
    NEEDED[name](stack)


def image(stack: Stack) -> Json:
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "worker", "image": "evil"}]}}}}
    return stack.controller.patch(f"{DEPLOYMENTS}/{stack.pool}", patch, "application/strategic-merge-patch+json")


def unlisted(stack: Stack) -> Json:
    return stack.controller.patch(f"{DEPLOYMENTS}/unlisted/scale", {"spec": {"replicas": 3}})


FORBIDDEN: dict[str, Try] = {
    "open a fixed budget": lambda stack: applied_budget(stack.controller, stack.fixed, {"maxUnavailable": 1}),
    "look into another namespace": lambda stack: stack.controller.get("/api/v1/namespaces/kube-system/pods"),
    "read a Secret": lambda stack: stack.controller.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/ebbtide-redis"),
    "list Secrets of workers": lambda stack: stack.controller.get(f"/api/v1/namespaces/{WORKER_NAMESPACE}/secrets"),
    "scale an unlisted Deployment": unlisted,
    "change a pool's image": image,
    "delete a worker": lambda stack: stack.controller.delete(f"{PODS}/{stack.pod}"),
    "evict a worker": lambda stack: stack.controller.create(f"{PODS}/{stack.pod}/eviction", {}),
    "make a budget": lambda stack: stack.controller.create(BUDGETS, {"metadata": {"name": "mine"}}),
    "make a Lease": lambda stack: stack.controller.create(LEASES, {"metadata": {"name": "mine"}}),
    "mark a pod of a workload": lambda stack: annotated(
        stack.controller, f"/api/v1/namespaces/{NAMESPACE}/pods/any", DELETION_COST, "-1"
    ),
    "cordon a node": lambda stack: stack.controller.patch("/api/v1/nodes/any", {"spec": {"unschedulable": True}}),
    "closer: list budgets": lambda stack: stack.closer.get(BUDGETS),
    "closer: scale a pool": lambda stack: applied_scale(stack.closer, stack.pool, 0),
    "closer: close another's budget": lambda stack: applied_budget(stack.closer, "other", {"maxUnavailable": 0}),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_rendered_role_forbids(name: str, stack: Stack) -> None:
    with pytest.raises(ApiError, match="is forbidden: User") as refused:
        FORBIDDEN[name](stack)

    assert refused.value.status == 403


# --- fields -----------------------------------------------------------------------------------------------------------


def budget_of_controller(spec: Mapping[str, Any], **metadata: Any) -> Try:
    return lambda stack: applied_budget(stack.controller, stack.flexible, spec, **metadata)


def patched_pod(patch: Json) -> Try:
    return lambda stack: stack.controller.patch(f"{PODS}/{stack.pod}", patch)


DENIED: dict[str, tuple[Try, str]] = {
    "relabel a pod": (patched_pod({"metadata": {"labels": {"ebbtide.dev/workload": "x"}}}), "labels"),
    "drop a label": (patched_pod({"metadata": {"labels": {"ebbtide.dev/workload": None}}}), "labels"),
    "annotate a pod": (patched_pod({"metadata": {"annotations": {"other": "x"}}}), "annotated"),
    "orphan a pod": (patched_pod({"metadata": {"ownerReferences": None}}), "ownerReferences"),
    "hold a pod": (patched_pod({"metadata": {"finalizers": ["example.com/x"]}}), "finalizers"),
    "another image": (patched_pod({"spec": {"activeDeadlineSeconds": 1}}), "spec"),
    "a budget of 2": (budget_of_controller({"maxUnavailable": 2}), "0 or 1"),
    "a budget of 100%": (budget_of_controller({"maxUnavailable": "100%"}), "0 or 1"),
    "another selector": (
        budget_of_controller({"maxUnavailable": 0, "selector": {"matchLabels": {"a": "b"}}}),
        "selector",
    ),
    "a budget's label": (budget_of_controller({"maxUnavailable": 0}, labels={"a": "b"}), "labels"),
    "a budget's annotation": (budget_of_controller({"maxUnavailable": 0}, annotations={"a": "b"}), "annotations"),
    "evict the unready": (
        budget_of_controller({"maxUnavailable": 0, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}),
        "unhealthyPodEvictionPolicy",
    ),
    "closer: open a flexible budget": (
        lambda stack: applied_budget(stack.closer, stack.flexible, {"maxUnavailable": 1}),
        "must be 0",
    ),
    "closer: open a fixed budget": (
        lambda stack: applied_budget(stack.closer, stack.fixed, {"maxUnavailable": 1}),
        "must be 0",
    ),
}


@pytest.mark.parametrize("name", DENIED)
def test_the_admission_policy_denies(name: str, stack: Stack) -> None:
    attempt, why = DENIED[name]

    with pytest.raises(ApiError, match="ValidatingAdmissionPolicy") as denied:
        pytest.fail(f"the API server accepted it: {attempt(stack)}")

    assert why in str(denied.value)


def test_an_operator_is_not_bound_by_it(stack: Stack) -> None:
    stack.admin.patch(f"{BUDGETS}/{stack.fixed}", {"metadata": {"annotations": {"note": "x"}}})
    annotated(stack.admin, f"{BUDGETS}/{stack.fixed}", "note", None)


# --- the closer -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Closer:
    """Runs it as its pod would, a kubeconfig in place of the mounted token."""

    kubeconfig: Path
    folder: Path

    def __call__(self, config: ControllerConfig) -> "subprocess.CompletedProcess[str]":
        document = self.folder / "config.json"
        document.write_text(dump(config))
        command = [sys.executable, "-m", "controllers.closer", "--config", str(document)]
        return subprocess.run(
            [*command, f"--kubeconfig={self.kubeconfig}"], capture_output=True, text=True, check=False
        )


@pytest.fixture
def closer(control_plane: ControlPlane, stack: Stack, tmp_path: Path) -> Iterator[Closer]:
    """With a flexible and a fixed budget open, as an operator may leave them; closed again at the end."""
    opened(stack, 1)
    yield Closer(control_plane.kubeconfig_as(NAMESPACE, CLOSER), tmp_path)
    opened(stack, 0)


def opened(stack: Stack, value: int) -> None:
    for name in (stack.flexible, stack.fixed):
        stack.admin.patch(
            f"{BUDGETS}/{name}",
            {"metadata": {"annotations": {MAINTENANCE_UNTIL: None}}, "spec": {"maxUnavailable": value}},
        )


def values(stack: Stack) -> tuple[int, int]:
    """Of the flexible and of the fixed budget."""
    flexible, fixed = (stack.admin.get(f"{BUDGETS}/{name}")["spec"] for name in (stack.flexible, stack.fixed))
    return flexible["maxUnavailable"], fixed["maxUnavailable"]


def always_open(config: ControllerConfig, *, holidays: frozenset[date] = frozenset()) -> ControllerConfig:
    return replace(config, hours=replace(config.hours, week=ALWAYS, closed_dates=holidays))


def test_by_day_it_closes_flexible_and_fixed_budgets_and_says_which(stack: Stack, closer: Closer) -> None:
    annotated(stack.admin, f"{BUDGETS}/{stack.fixed}", MAINTENANCE_UNTIL, "2100-01-01T00:00:00Z")

    done = closer(always_open(stack.config))

    assert (done.returncode, done.stderr, values(stack)) == (0, "", (0, 0))
    lines = {f"closer: {NAMESPACE}/{name} closed" for name in (stack.flexible, stack.fixed)}
    assert set(done.stdout.splitlines()) == lines


def test_a_budget_without_scale_is_closed_by_its_minimum_and_opened_by_none_of_ours(
    stack: Stack, closer: Closer
) -> None:
    path, minimum = f"{BUDGETS}/{stack.fixed}", {"minAvailable": 0}
    kept = stack.admin.get(path)
    stack.admin.delete(path)
    spec = {"selector": kept["spec"]["selector"], **minimum}
    stack.admin.create(BUDGETS, {"metadata": {"name": stack.fixed}, "spec": spec})
    try:
        with pytest.raises(ApiError, match="or be 1000000"):
            applied_budget(stack.closer, stack.fixed, {"minAvailable": 1})
        done = closer(always_open(stack.config))
        assert (done.returncode, done.stderr) == (0, "")
        assert stack.admin.get(path)["spec"] == {**spec, "minAvailable": CLOSED_MINIMUM}
        for opening in ({"minAvailable": 0}, {"minAvailable": CLOSED_MINIMUM - 1}, {"minAvailable": "0%"}):
            with pytest.raises(ApiError, match="or be 1000000"):
                applied_budget(stack.closer, stack.fixed, opening)
    finally:
        stack.admin.delete(path)
        labels = {"name": stack.fixed, "labels": kept["metadata"]["labels"]}
        stack.admin.create(BUDGETS, {"metadata": labels, "spec": kept["spec"]})


def test_on_a_holiday_it_leaves_flexible_budgets_open(stack: Stack, closer: Closer) -> None:
    today = datetime.now(UTC).date()
    holidays = frozenset(today + timedelta(days=offset) for offset in range(-2, 3))

    done = closer(always_open(stack.config, holidays=holidays))

    assert (done.returncode, values(stack)) == (0, (1, 0))


def test_at_night_it_leaves_a_running_maintenance_alone(stack: Stack, closer: Closer) -> None:
    annotated(stack.admin, f"{BUDGETS}/{stack.fixed}", MAINTENANCE_UNTIL, "2100-01-01T00:00:00Z")
    night = replace(stack.config, hours=replace(stack.config.hours, week=()))

    assert (closer(night).returncode, values(stack)) == (0, (1, 1))


def test_one_budget_that_cannot_be_closed_does_not_save_the_others(stack: Stack, closer: Closer) -> None:
    config = always_open(stack.config)
    foreign = replace(config.budgets[0], name="foreign", namespace="kube-system")

    done = closer(replace(config, budgets=(foreign, *config.budgets)))

    assert (done.returncode, values(stack)) == (1, (0, 0))
    assert len(done.stderr.splitlines()) == 1
    assert f"kube-system/{foreign.name}" in done.stderr


def test_what_it_closed_the_controller_can_open_again(stack: Stack, closer: Closer) -> None:
    closer(always_open(stack.config))
    applied_budget(stack.controller, stack.flexible, {"maxUnavailable": 1})

    assert values(stack)[0] == 1


def test_the_cron_job_makes_a_job_whose_pod_is_admitted(control_plane: ControlPlane, stack: Stack) -> None:
    jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}"
    cron = stack.admin.get(f"{jobs}/cronjobs")["items"][0]
    name = cron["metadata"]["name"]
    # Every minute, and the last one was three minutes ago: a run is due.
    stack.admin.patch(f"{jobs}/cronjobs/{name}", {"spec": {"schedule": "* * * * *"}})
    last = (datetime.now(UTC) - timedelta(minutes=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    stack.admin.patch(f"{jobs}/cronjobs/{name}/status", {"status": {"lastScheduleTime": last}})

    pod = eventually(lambda: pod_of_job(stack, f"{name}-"), what="the pod of a Job of the CronJob")

    assert pod["spec"]["serviceAccountName"] == CLOSER
    assert pod["spec"]["containers"][0]["command"][:3] == ["python", "-m", "controllers.closer"]
    document = stack.admin.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONTROLLER}")["data"]["config.json"]
    assert load(ControllerConfig, document) == stack.config
    assert cron["spec"]["timeZone"] == stack.config.hours.timezone


def pod_of_job(stack: Stack, prefix: str) -> Json | None:
    pods = stack.admin.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return next((pod for pod in pods if pod["metadata"]["name"].startswith(prefix)), None)
