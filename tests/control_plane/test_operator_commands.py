"""The operator's commands against the real API server: what they write, and that they take it back."""

import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from typer.testing import CliRunner, Result

from controllers.adapters.kube_api import APPLY, ApiError, KubeApi
from ebbtide.cli.__main__ import app
from ebbtide.operate.objects import rfc3339
from ebbtide.operate.release import MAX_UNAVAILABLE, MIN_AVAILABLE, REPLICAS, owners_of
from ebbtide.vocabulary.controller_config import BudgetPolicy
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, FIELD_MANAGER, KEEP_UNTIL, MAINTENANCE_UNTIL, PAUSED
from tests.builders.components import controller_config, pool_policy
from tests.builders.control_plane import Fresh, eventually
from tests.paths import ROOT

pytestmark = pytest.mark.control_plane

MERGE_LISTS = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Site:
    """One namespace that holds a pool `train`, a flexible budget `api`, a fixed one `hub`, and the config of them."""

    plane: ControlPlane
    namespace: str

    @property
    def api(self) -> KubeApi:
        return self.plane.api

    @property
    def deployment(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments/train"

    def budget(self, name: str) -> str:
        return f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}"

    def annotations(self, path: str) -> dict[str, str]:
        return self.api.get(path)["metadata"].get("annotations") or {}

    def arguments(self, *words: str) -> list[str]:
        return [*words, "--kubeconfig", str(self.plane.kubeconfig), "--namespace", self.namespace]

    def run(self, *words: str) -> Result:
        return CliRunner(env={"COLUMNS": "160"}).invoke(app, self.arguments(*words))

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "ebbtide.cli", *self.arguments(*words)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def deployment(namespace: str, replicas: int) -> dict[str, Any]:
    """As Pulumi applies it: with an image that does not matter, since no node takes the pods."""
    labels = {"ebbtide.dev/workload": "train"}
    pod = {"nodeSelector": {"none": "such"}, "containers": [{"name": "worker", "image": "train:1"}]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}}
    template = {"metadata": {"labels": labels}, "spec": pod}
    meta = {"name": "train", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {**spec, "template": template}}


def budget(name: str, max_unavailable: int, policy: str = "IfHealthyBudget") -> dict[str, Any]:
    selector = {"matchLabels": {"ebbtide.dev/workload": name}}
    spec = {"maxUnavailable": max_unavailable, "selector": selector, "unhealthyPodEvictionPolicy": policy}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def site(control_plane: ControlPlane, fresh: Fresh) -> Site:
    namespace = fresh.namespace()
    here = Site(control_plane, namespace)
    config = replace(
        controller_config(pools=()),
        pools=(replace(pool_policy(), namespace=namespace),),
        budgets=(BudgetPolicy(name="api", namespace=namespace),),
        never_opened=(BudgetPolicy(name="hub", namespace=namespace),),
    )
    data = {"metadata": {"name": "ebbtide-controller"}, "data": {"config.json": dump(config)}}
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/configmaps", data)
    applied_by_pulumi(here, here.deployment, deployment(namespace, 0))
    for name in ("api", "hub"):
        applied_by_pulumi(here, here.budget(name), budget(name, 0))
    return here


def applied_by_pulumi(site: Site, path: str, body: dict[str, Any]) -> None:
    """Without force: a field that another manager owns with another value is a conflict."""
    site.api.patch(path, body, APPLY, fieldManager="pulumi")


def written_by_the_controller(site: Site, *, replicas: int) -> None:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "train"}}
    site.api.apply(f"{site.deployment}/scale", {**scale, "spec": {"replicas": replicas}}, manager=FIELD_MANAGER)
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "api"}}
    site.api.apply(site.budget("api"), {**body, "spec": {"maxUnavailable": 1}}, manager=FIELD_MANAGER)


def test_release_keeps_the_values_and_lets_another_manager_have_the_fields(site: Site) -> None:
    written_by_the_controller(site, replicas=7)
    with pytest.raises(ApiError) as refused:
        applied_by_pulumi(site, site.deployment, deployment(site.namespace, 3))
    assert refused.value.status == 409

    result = site.run("release")

    assert result.exit_code == 0, result.output
    pool, api = site.api.get(site.deployment), site.api.get(site.budget("api"))
    assert (pool["spec"]["replicas"], api["spec"]["maxUnavailable"]) == (7, 1)
    assert FIELD_MANAGER not in owners_of(pool["metadata"]["managedFields"], REPLICAS)
    assert FIELD_MANAGER not in owners_of(api["metadata"]["managedFields"], MAX_UNAVAILABLE)
    applied_by_pulumi(site, site.deployment, deployment(site.namespace, 3))
    applied_by_pulumi(site, site.budget("api"), budget("api", 0))
    assert site.api.get(site.deployment)["spec"]["replicas"] == 3
    assert site.api.get(site.budget("api"))["spec"]["maxUnavailable"] == 0


def test_release_twice_changes_nothing_more(site: Site) -> None:
    written_by_the_controller(site, replicas=2)
    site.run("release", "train")
    before = declared(site)

    again = site.run("release", "train")

    assert "was not the controller's" in again.output
    assert declared(site) == before


def declared(site: Site) -> Any:
    """What others than the Deployment's own controllers say; those write its status at any moment."""
    item = site.api.get(site.deployment)
    fields = [entry for entry in item["metadata"]["managedFields"] if entry.get("subresource") != "status"]
    return item["spec"], fields


def test_release_waits_until_the_controller_would_not_take_the_fields_back(site: Site) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "pod-1", "leaseDurationSeconds": 600, "renewTime": now}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases"
    site.api.create(leases, {"metadata": {"name": "ebbtide-controller"}, "spec": spec})
    written_by_the_controller(site, replicas=2)

    refused = site.run("release", "train")
    site.run("pause", "train", "--why", "moving it")
    allowed = site.run("release", "train")

    assert (refused.exit_code, "ebbtide pause train" in refused.output) == (1, True)
    assert (allowed.exit_code, "replicas stays 2" in allowed.output) == (0, True), allowed.output


def test_holds_are_written_on_what_was_named_and_taken_back(site: Site) -> None:
    assert site.run("pause", "train", "--why", "driver").exit_code == 0
    assert site.run("keep", "api", "--until", "2h").exit_code == 0
    kept = datetime.fromisoformat(site.annotations(site.budget("api"))[KEEP_UNTIL])

    assert site.annotations(site.deployment)[PAUSED] == "driver"
    assert PAUSED not in site.annotations(site.budget("api"))
    assert timedelta(minutes=118) < kept - datetime.now(UTC) <= timedelta(hours=2)
    assert site.run("resume").exit_code == 0
    assert not {PAUSED, KEEP_UNTIL} & {*site.annotations(site.deployment), *site.annotations(site.budget("api"))}


def test_the_budget_of_a_rule_is_known_by_the_rules_name_in_the_teams_namespace(site: Site, fresh: Fresh) -> None:
    team = fresh.namespace("team")
    policy = BudgetPolicy(name="log", namespace=team, object_name="log.pods", open_minimum=2)
    data = {"config.json": dump(replace(controller_config(pools=()), budgets=(policy,), never_opened=()))}
    site.api.patch(f"/api/v1/namespaces/{site.namespace}/configmaps/ebbtide-controller", {"data": data})
    body = budget("log.pods", 0)
    body["spec"] = {"selector": {"matchLabels": {"app": "log"}}, "minAvailable": 2}
    path = f"/apis/policy/v1/namespaces/{team}/poddisruptionbudgets/log.pods"
    site.api.apply(path, body, manager=FIELD_MANAGER)

    status, why, kept = site.run("status"), site.run("why", "budget", "log"), site.run("keep", "log", "--until", "2h")
    annotations = site.annotations(path)
    released = site.run("release", "log")

    assert [line.split()[:2] for line in status.output.splitlines() if line.startswith("log ")] == [["log", "open"]]
    assert "Budget log.pods is open (minAvailable 2); none of its pods may be evicted now." in why.output
    assert (kept.exit_code, KEEP_UNTIL in annotations) == (0, True), kept.output
    assert "minAvailable stays 2" in released.output
    assert FIELD_MANAGER not in owners_of(site.api.get(path)["metadata"]["managedFields"], MIN_AVAILABLE)


def test_whoever_may_not_see_ray_clusters_may_still_hold_a_pool(site: Site) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["ebbtide-controller"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]},
    ]
    meta, rbac = {"name": "scaler"}, f"/apis/rbac.authorization.k8s.io/v1/namespaces/{site.namespace}"
    site.api.create(f"/api/v1/namespaces/{site.namespace}/serviceaccounts", {"metadata": meta})
    site.api.create(f"{rbac}/roles", {"metadata": meta, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scaler"}
    subject = {"kind": "ServiceAccount", "name": "scaler", "namespace": site.namespace}
    site.api.create(f"{rbac}/rolebindings", {"metadata": meta, "roleRef": role, "subjects": [subject]})
    kubeconfig = str(site.plane.kubeconfig_as(site.namespace, "scaler"))
    words = ["pause", "train", "--why", "driver", "--kubeconfig", kubeconfig, "--namespace", site.namespace]

    def paused() -> str:
        result = CliRunner(env={"COLUMNS": "160"}).invoke(app, words)
        return result.output if result.exit_code == 0 else ""

    assert "note: Ray clusters are not known" in eventually(paused, what="the rights to be known")
    assert site.annotations(site.deployment)[PAUSED] == "driver"


def test_an_unknown_name_lists_those_that_exist(site: Site) -> None:
    result = site.run("pause", "trian", "--why", "x")

    assert (result.exit_code, result.output.strip()) == (
        2,
        "no worker pool and no flexible budget is called trian; there are: api, train",
    )


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_maintenance_closes_and_uncordons_however_it_ends(site: Site, fresh: Fresh, ending: signal.Signals) -> None:
    node, cordoned = fresh.node(), fresh.node()
    site.api.patch(f"/api/v1/nodes/{cordoned}", {"spec": {"unschedulable": True}})
    words = ("maintenance", "--for", "1h", "--why", "disks", "--node", node, "--node", cordoned)
    process = site.start(*words)
    try:
        eventually(lambda: site.api.get(site.budget("hub"))["spec"]["maxUnavailable"] == 1, what="the budget opened")
        assert MAINTENANCE_UNTIL in site.annotations(site.budget("hub"))
        assert site.api.get(f"/api/v1/nodes/{node}")["spec"]["unschedulable"] is True
        process.send_signal(ending)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0, output
    assert site.api.get(site.budget("hub"))["spec"]["maxUnavailable"] == 0
    assert MAINTENANCE_UNTIL not in site.annotations(site.budget("hub"))
    assert "unschedulable" not in site.api.get(f"/api/v1/nodes/{node}")["spec"]
    assert site.api.get(f"/api/v1/nodes/{cordoned}")["spec"]["unschedulable"] is True


@pytest.mark.parametrize(
    ("declared", "least", "tells"),
    [
        (None, 0, "budget hub covers pods without a scale: it opens for all of them at once"),
        (2, 2, "opened budget hub"),
    ],
)
def test_a_maintenance_opens_and_closes_a_budget_without_scale_by_its_minimum(
    site: Site, declared: int | None, least: int, tells: str
) -> None:
    hub = BudgetPolicy(name="hub", namespace=site.namespace, open_minimum=declared)
    data = {"config.json": dump(replace(controller_config(pools=()), budgets=(), never_opened=(hub,)))}
    site.api.patch(f"/api/v1/namespaces/{site.namespace}/configmaps/ebbtide-controller", {"data": data})
    site.api.delete(site.budget("hub"))
    body = budget("hub", 0)
    body["spec"] = {"selector": body["spec"]["selector"], "minAvailable": CLOSED_MINIMUM}
    applied_by_pulumi(site, site.budget("hub"), body)
    process = site.start("maintenance", "--for", "1h", "--why", "disks")
    try:
        eventually(lambda: site.api.get(site.budget("hub"))["spec"]["minAvailable"] == least, what="the budget opened")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0, output
    assert tells in output
    assert site.api.get(site.budget("hub"))["spec"] == body["spec"]


def test_a_maintenance_ends_by_itself_and_never_touches_flexible_budgets(site: Site) -> None:
    result = site.run("maintenance", "--for", "1s", "--why", "a look")

    assert (result.exit_code, "ending: the time is over" in result.output) == (0, True), result.output
    assert site.api.get(site.budget("hub"))["spec"]["maxUnavailable"] == 0
    assert site.api.get(site.budget("api"))["metadata"]["generation"] == 1


def test_a_maintenance_that_meets_a_dead_server_at_its_end_closes_when_it_is_back(site: Site) -> None:
    process = site.start("maintenance", "--for", "1h", "--why", "disks")
    try:
        eventually(lambda: site.api.get(site.budget("hub"))["spec"]["maxUnavailable"] == 1, what="the budget opened")
        site.plane.suspend("kube-apiserver")
        try:
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            told = next(line for line in process.stdout if "could not close budget hub" in line)
        finally:
            site.plane.resume("kube-apiserver")
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()

    assert "cannot be reached" in told
    assert process.returncode == 0, output
    assert site.api.get(site.budget("hub"))["spec"]["maxUnavailable"] == 0


def test_without_a_controller_status_shows_what_the_server_knows(site: Site) -> None:
    site.api.patch(site.budget("hub"), {"spec": {"maxUnavailable": 1}})

    result = site.run("status")

    assert result.exit_code == 1
    assert "no controller pod runs" in result.output
    assert "no process holds the Lease" in result.output
    assert [line.split()[:2] for line in result.output.splitlines() if line.startswith(("api ", "hub "))] == [
        ["api", "closed"],
        ["hub", "open"],
    ]


def running_pod(site: Site, node: str, workload: str, category: str) -> str:
    """The path of a pod that runs on `node`, made by a ReplicaSet: a budget counts no bare pods."""
    labels = {"ebbtide.dev/workload": workload, "ebbtide.dev/category": category}
    pod = {"nodeName": node, "containers": [{"name": "main", "image": "main:1"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    body = {"metadata": {"name": workload}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    site.api.create(f"/apis/apps/v1/namespaces/{site.namespace}/replicasets", body)
    path = f"/api/v1/namespaces/{site.namespace}/pods"

    def ready() -> str:
        covered = site.api.get(site.budget(workload)).get("status", {}).get("currentHealthy")
        pods = site.api.get(path, labelSelector=f"ebbtide.dev/workload={workload}")["items"]
        return f"{path}/{pods[0]['metadata']['name']}" if covered and pods else ""

    return eventually(ready, what=f"a ready pod of {workload} under its budget")


def test_why_node_names_the_pod_and_the_closed_budget(site: Site, fresh: Fresh) -> None:
    node = fresh.node(labels={"ebbtide.dev/node-kind": "fixed", "ebbtide.dev/node-group": "fixed"})
    running_pod(site, node, "hub", "fixed")
    eventually(
        lambda: site.api.get(site.budget("hub")).get("status", {}).get("expectedPods"), what="the budget's status"
    )

    result = site.run("why", "node", node)

    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{node} (fixed) is still here: 1 pod pins it.")
    assert "its budget hub is closed: fixed workloads are never evicted outside a maintenance" in result.output


@pytest.mark.parametrize(("policy", "leaves"), [("AlwaysAllow", True), ("IfHealthyBudget", False)])
def test_an_unready_pod_leaves_a_closed_budget_only_where_the_policy_says_so(
    site: Site, fresh: Fresh, policy: str, *, leaves: bool
) -> None:
    applied_by_pulumi(site, site.budget("api"), budget("api", 0, policy))
    pod = running_pod(site, fresh.node(), "api", "flexible")
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    site.api.patch(f"{pod}/status", unready, MERGE_LISTS)
    # Until the budget's status counts it as unready, the eviction is judged by a pod that was healthy.
    counted = {"expectedPods": 1, "currentHealthy": 0}
    eventually(lambda: counted.items() <= site.api.get(site.budget("api")).get("status", {}).items(), what="the count")
    metadata = {"name": pod.rpartition("/")[2], "namespace": site.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}

    if leaves:
        assert site.api.create(f"{pod}/eviction", eviction)["status"] == "Success"
    else:
        with pytest.raises(ApiError) as refused:
            site.api.create(f"{pod}/eviction", eviction)
        assert refused.value.status == 429


def test_a_maintenance_says_which_earlier_one_it_ends(site: Site) -> None:
    until = rfc3339(datetime.now(UTC) + timedelta(hours=1))
    site.api.patch(
        site.budget("hub"), {"metadata": {"annotations": {MAINTENANCE_UNTIL: until}}, "spec": {"maxUnavailable": 1}}
    )

    result = site.run("maintenance", "--for", "1s", "--why", "again")

    assert f"budget hub is already open until {until}" in result.output
    assert site.api.get(site.budget("hub"))["spec"]["maxUnavailable"] == 0
