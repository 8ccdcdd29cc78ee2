"""`ebbtide probe` and `why node` on adopted pods, with the real policy, real owners and real selectors."""

import json
import secrets
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.settings.load import load_stack
from tests.builders.adoption import policies
from tests.builders.control_plane import Fresh, eventually
from tests.builders.existing import onprem, written

pytestmark = pytest.mark.control_plane

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REQUESTS = {"cpu": "1", "memory": "1Gi"}
SUBJECTS = ("adoption", "rule ", "count of ", "budget of ", "size of ", "labels of ", "pods of ", "pod ")


class Team:
    """A team's namespace, with what its tools create there."""

    def __init__(self, plane: ControlPlane, fresh: Fresh, folder: Path) -> None:
        self.api, self.kubeconfig, self._folder = plane.api, plane.kubeconfig, folder
        self.namespace = fresh.namespace("team")

    def path(self, kind: str, group: str = "") -> str:
        return f"/{f'apis/{group}' if group else 'api/v1'}/namespaces/{self.namespace}/{kind}"

    def pod(self, **spec: Any) -> dict[str, Any]:
        container = {"name": "main", "image": "main:1", "resources": {"requests": REQUESTS}}
        return {"containers": [container], **spec}

    def deployment(self, name: str, replicas: int, **labels: str) -> None:
        template = {"metadata": {"labels": labels}, "spec": self.pod()}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        self.api.create(self.path("deployments", "apps/v1"), {"metadata": {"name": name}, "spec": spec})
        eventually(lambda: len(self.pods(**labels)) == replicas, what="the pods")

    def pods(self, **labels: str) -> list[dict[str, Any]]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return self.api.get(self.path("pods"), labelSelector=selector)["items"]

    def stack(self, **rules: str) -> str:
        """The path of a stack file with these rules."""
        lines = [
            f"    {name}: {{ namespace: {self.namespace}, cpu: 1, memory: 1Gi, {rule} }}\n"
            for name, rule in rules.items()
        ]
        return written(onprem() + "  ebbtide:adopted:\n" + "".join(lines), self._folder)

    def probed(self, stack: str) -> dict[str, str]:
        options = ["--json", "--kubeconfig", str(self.kubeconfig), "--context", "test"]
        result = CliRunner().invoke(app, ["probe", stack, *options])
        found = json.loads(result.stdout)["findings"]
        return {one["what"]: f"{one['state']}: {one['said']}" for one in found if one["what"].startswith(SUBJECTS)}


@pytest.fixture
def team(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Team:
    return Team(control_plane, fresh, tmp_path)


def install(fresh: Fresh, stack: str) -> None:
    for item in policies(load_stack(stack).adopted, {"flexible": {"pool": "small"}}):
        plural = f"{item['kind'].lower().removesuffix('y')}{'ies' if item['kind'].endswith('y') else 's'}"
        fresh.create(f"{ADMISSION}/{plural}", item)


def test_a_rule_before_and_after_its_policy_is_installed(team: Team, fresh: Fresh) -> None:
    team.deployment("api-server", 2, app="api")
    helm: dict[str, Any] = {"metadata": {"name": "api", "labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    helm["spec"] = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "api"}}}
    team.api.create(team.path("poddisruptionbudgets", "policy/v1"), helm)
    stack = team.stack(api="selector: { app: [api, web] }, category: flexible, replicas: 3")

    before = team.probed(stack)
    install(fresh, stack)
    after = eventually(lambda: said if "labels of api" in (said := team.probed(stack)) else None, what="a dry run")

    assert before == {
        "adoption": "note: pulumi up creates its policy, which labels and places pods that are created after it",
        "rule api": f"ok: 2 pods of Deployment {team.namespace}/api-server",
        "budget of api": (
            "missing: api covers the same pods, and a pod with two budgets cannot be evicted; made by a chart, whose "
            "values switch it off (often pdb or podDisruptionBudget)"
        ),
        "size of api": "note: the stack file differs: replicas 3, the cluster has 2",
    }
    assert after["adoption"] == "ok: its policy is installed"
    assert after["pods of api"].startswith("note: 2 of 2 pods lack the labels")


def test_a_dry_run_shows_the_labels_and_stores_no_pod(team: Team, fresh: Fresh) -> None:
    stack = team.stack(users="selector: { component: user }, category: worker, usually: 6")
    install(fresh, stack)

    def arrived() -> bool:
        """The policy is in force a moment after it was created."""
        return team.probed(stack)["labels of users"].startswith("ok: a new pod gets them, and runs on pool=small")

    eventually(arrived, what="the labels")
    assert team.pods() == []


def test_an_owner_of_a_kind_without_a_scale_needs_a_declared_number(team: Team, fresh: Fresh) -> None:
    group = f"g{secrets.token_hex(4)}.example.com"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "brokers", "singular": "broker", "kind": "Broker", "listKind": "BrokerList"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    fresh.create(DEFINITIONS, {"metadata": {"name": f"brokers.{group}"}, "spec": spec})
    brokers = f"/apis/{group}/v1/namespaces/{team.namespace}/brokers"
    broker = {"apiVersion": f"{group}/v1", "kind": "Broker", "metadata": {"name": "log"}}
    uid = eventually(lambda: team.api.create(brokers, broker)["metadata"]["uid"], what="the kind to be served")
    owner = {"apiVersion": f"{group}/v1", "kind": "Broker", "name": "log", "uid": uid, "controller": True}
    meta = {"name": "log-0", "labels": {"app": "log"}, "ownerReferences": [owner]}
    team.api.create(team.path("pods"), {"metadata": meta, "spec": team.pod()})
    stack = team.stack(log="selector: { app: log }, category: flexible, replicas: 1")

    said = team.probed(stack)

    assert said["rule log"] == f"ok: 1 pod of Broker {team.namespace}/log"
    assert said["count of log"].startswith(f"missing: Broker {team.namespace}/log has no scale subresource")


def test_a_daemon_set_with_a_rules_labels_fails_its_budget_until_the_selector_excludes_it(
    team: Team, fresh: Fresh
) -> None:
    node = fresh.node()
    team.deployment("api", 2, app="api", component="server")
    labels = {"app": "api", "component": "agent"}
    spec = team.pod(nodeSelector={"kubernetes.io/hostname": node}, tolerations=[{"operator": "Exists"}])
    template = {"metadata": {"labels": labels}, "spec": spec}
    daemons = {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    team.api.create(team.path("daemonsets", "apps/v1"), daemons)
    eventually(lambda: team.pods(**labels), what="the daemon's pod")
    budget = f"{team.path('poddisruptionbudgets', 'policy/v1')}/ebbtide-api"
    ours: dict[str, Any] = {"metadata": {"name": "ebbtide-api"}, "spec": {"maxUnavailable": 1}}
    ours["spec"]["selector"] = {"matchLabels": {"app": "api"}}
    team.api.create(budget.rpartition("/")[0], ours)

    def reason() -> str:
        return next((row["reason"] for row in team.api.get(budget)["status"].get("conditions", ())), "")

    eventually(lambda: reason() == "SyncFailed", what="the budget's status")
    said = team.probed(team.stack(api="selector: { app: api }, category: flexible, replicas: 2"))["count of api"]
    team.api.patch(budget, {"spec": {"selector": {"matchLabels": {"component": "server"}}}})
    eventually(lambda: reason() not in ("", "SyncFailed"), what="the budget's status")

    assert said.startswith(f"missing: DaemonSet {team.namespace}/agent has pods with the rule's labels")
    assert said.endswith("; add component: server to its selector")


def test_why_node_names_the_owner_and_the_rule_of_a_pod_that_is_older_than_the_rule(team: Team, fresh: Fresh) -> None:
    node = fresh.node(labels={"ebbtide.dev/node-kind": "flexible", "ebbtide.dev/node-group": "flexible"})
    pod = {"metadata": {"name": "hub-0", "labels": {"app": "hub"}}, "spec": team.pod(nodeName=node)}
    team.api.create(team.path("pods"), pod)
    labels = {"ebbtide.dev/workload": "hub", "ebbtide.dev/category": "fixed"}
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "hub"}}}
    team.api.create(
        team.path("poddisruptionbudgets", "policy/v1"), {"metadata": {"name": "hub", "labels": labels}, "spec": spec}
    )
    options = ["--kubeconfig", str(team.kubeconfig), "--context", "test", "--namespace", team.namespace]

    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["why", "node", node, *options])

    assert f"{team.namespace}/hub-0 (no owner, rule hub) is a bare pod" in result.output
