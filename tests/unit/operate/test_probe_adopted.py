"""What `ebbtide probe` reports on the rules for adopted pods."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from components.adopted.policy import POLICY as INSTALLED_NAME
from controllers.adapters.kube_api import ApiError
from ebbtide.operate.probe.adopted_facts import adopted_facts, knows
from ebbtide.operate.probe.facts import facts_of
from ebbtide.operate.probe.findings import Probed
from ebbtide.operate.probe.rules import findings_of
from ebbtide.operate.probe.wants import Wants, wants_of
from ebbtide.settings.load import stack_of_text
from tests.builders.adoption import policies, stack_with
from tests.builders.existing import onprem
from tests.unit.operate import raw_objects as raw
from tests.unit.operate.test_probe import ADMISSION, DENIED, CannedCluster

JUPYTER = "/api/v1/namespaces/jupyter"
PODS = f"{JUPYTER}/pods"
BUDGETS = "/apis/policy/v1/namespaces/jupyter/poddisruptionbudgets"
POLICY = f"{ADMISSION}/mutatingadmissionpolicies/{INSTALLED_NAME}"
HUB = {"app": "hub"}
LABELLED = {**HUB, "ebbtide.dev/workload": "hub", "ebbtide.dev/category": "fixed"}
OF_A_DEPLOYMENT = {
    "/apis/apps/v1/namespaces/jupyter/replicasets/hub-1": {
        "metadata": {
            "namespace": "jupyter",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "hub", "controller": True}],
        }
    }
}


def reference(kind: str, name: str, api: str = "apps/v1") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "name": name, "controller": True}


def pod(name: str = "hub-1-a", owner: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A running pod of the rule; by default of the Deployment `hub`, labelled, as the stack file says."""
    owners = [owner] if owner is not None else [reference("ReplicaSet", "hub-1")]
    meta = {"ownerReferences": owners, **changes.pop("meta", {})}
    return raw.pod(name, namespace="jupyter", meta=meta, **{"labels": LABELLED, **changes})


def budget(
    name: str, owner: Mapping[str, Any] | None = None, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    owners = [] if owner is None else [owner]
    meta = {"namespace": "jupyter", "labels": labels or {}, "ownerReferences": owners}
    return raw.budget(name, meta=meta, selector={"matchLabels": HUB})


class TeamsCluster(CannedCluster):
    """A cluster of 1.36 with the rule's namespace, whose API server admits each pod with `stored` as its outcome."""

    def __init__(self, pods: Sequence[Any] = (), stored: Any = None, **answers: Any) -> None:
        kinds = [{"name": name} for name in ("validatingadmissionpolicies", "mutatingadmissionpolicies")]
        places = {"policy": POLICY, "budgets": BUDGETS, "namespace": JUPYTER, "pods_list": PODS}
        super().__init__(
            {
                "/version": {"gitVersion": "v1.36.3"},
                ADMISSION: {"resources": kinds},
                JUPYTER: {"metadata": {}},
                PODS: {"items": [*pods]},
                BUDGETS: {"items": []},
                **OF_A_DEPLOYMENT,
                **{places.get(key, key): answer for key, answer in answers.items()},
            }
        )
        self.stored, self.tried, self.selectors = stored, list[tuple[str, dict[str, str]]](), list[str]()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if "labelSelector" in query and path.endswith("/pods"):
            self.selectors.append(query.pop("labelSelector"))
        return super().get(path, **query)

    def create(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        if not path.endswith("/pods"):
            return super().create(path, body)
        self.tried.append((path, query))
        if isinstance(self.stored, str):
            raise ApiError(403, self.stored)
        return self.stored


def policy(rule: str = "hub") -> dict[str, Any]:
    """The admission policy of a stack whose only rule has this name; the label that it selects has the value `hub`."""
    stack = stack_with(cluster={"kind": "existing", "context": "here"}, **{rule: {"selector": HUB}})
    return next(item for item in policies(stack.adopted) if item["kind"] == "MutatingAdmissionPolicy")


INSTALLED = {"policy": policy()}


def wants(rule: str = "category: fixed, replicas: 1", selector: str = "app: hub") -> Wants:
    text = f"namespace: jupyter, selector: {{ {selector} }}, {rule}, cpu: 1, memory: 1Gi"
    return wants_of(
        stack_of_text(
            onprem("nodeSelectors: { fixed: { pool: core } }") + f"  ebbtide:adopted: {{ hub: {{ {text} }} }}\n",
            stack="acme",
            file="Pulumi.acme.yaml",
        ),
        (),
    )


def findings(cluster: TeamsCluster, wants: Wants) -> dict[str, str]:
    """The state and the text of each finding on adopted pods, by its subject."""
    facts, adopted = facts_of(cluster, {}, ()), adopted_facts(cluster, wants.adopted)
    found = findings_of(Probed(facts=facts, wants=wants, clock_ahead=None, adopted=adopted))
    subjects = (
        "adoption",
        "rule ",
        "count of ",
        "budget of ",
        "size of ",
        "labels of ",
        "pods of ",
        "pod ",
        "pool ",
        "sleep of ",
    )
    return {one.what: f"{one.state}: {one.said}" for one in found if one.what.startswith(subjects)}


def test_a_rule_that_fits_is_one_line_and_its_policy_comes_with_the_update() -> None:
    cluster = TeamsCluster([pod()])

    assert findings(cluster, wants(selector="app: [hub, old]")) == {
        "adoption": "note: pulumi up creates its policy, which labels and places pods that are created after it",
        "rule hub": "ok: 1 pod of Deployment jupyter/hub",
    }
    assert (cluster.selectors, cluster.tried) == (["app in (hub,old)"], [])


@pytest.mark.parametrize(
    ("rule", "nodes", "most"),
    [
        ("category: fixed, replicas: 2", "fixed", 2),
        ("category: worker, usually: 5", "flexible", 5),
        ("category: flexible, pods: 3, gpu: 1", "gpu", 3),
        ("pool: { source: { kind: celery, queues: [etl], acks: late }, max: 4, longestJob: 1h }", "flexible", 4),
    ],
)
def test_adopted_pods_need_room_on_their_nodes(rule: str, nodes: str, most: int) -> None:
    assert [pod.most for pod in wants(rule).pods[nodes] if pod.name == "hub"] == [most]


def test_a_stack_without_rules_asks_for_nothing() -> None:
    cluster = TeamsCluster()

    assert adopted_facts(cluster, ()) is None
    assert cluster.asked == []


def test_an_older_cluster_is_one_line() -> None:
    old = {ADMISSION: {"resources": [{"name": "validatingadmissionpolicies"}]}, "/version": {"gitVersion": "v1.35.2"}}

    assert findings(TeamsCluster([pod()], **old), wants())["adoption"] == (
        "missing: adoption needs Kubernetes 1.36 or later: this cluster has 1.35, where the API server does not have "
        "MutatingAdmissionPolicy v1"
    )


@pytest.mark.parametrize(
    ("cluster", "line"),
    [
        (TeamsCluster(namespace=404), "missing: no namespace jupyter; create it: pulumi up does not create"),
        (TeamsCluster(pods_list=DENIED), "note: its pods cannot be read: you need the right to list pods in jupyter"),
        (TeamsCluster(), "missing: no pod in jupyter has app=hub; correct the selector (kubectl --namespace jupyter"),
        (TeamsCluster([pod(status={"phase": "Succeeded"})]), "missing: no pod in jupyter has app=hub"),
        (
            TeamsCluster([pod(), pod("web-0", reference("StatefulSet", "web"))]),
            "missing: wanted the pods of one owner, found those of Deployment jupyter/hub, StatefulSet jupyter/web; ",
        ),
    ],
)
def test_a_rule_selects_the_pods_of_one_workload(cluster: TeamsCluster, line: str) -> None:
    assert findings(cluster, wants())["rule hub"].startswith(line)


def test_workers_may_have_many_owners_or_none_and_may_be_away() -> None:
    worker = "category: worker, usually: 2"
    jobs = [pod(name, reference("Job", name, "batch/v1")) for name in ("a", "b")]
    bare = [pod("jupyter-user-7", meta={"ownerReferences": []})]

    assert findings(TeamsCluster(jobs), wants(worker))["rule hub"] == "ok: 2 pods of 2 owners"
    assert findings(TeamsCluster(bare), wants(worker))["rule hub"] == "ok: 1 pod of no owner"
    assert findings(TeamsCluster(), wants(worker))["rule hub"] == "note: no pod in jupyter has app=hub now"


def custom(*, scale: bool) -> dict[str, Any]:
    plural = {"name": "clusters", "kind": "Cluster"}
    scales = [{"name": "clusters/scale", "kind": "Scale"}, {"name": "clusters/status", "kind": "Cluster"}]
    return {"/apis/example.com/v1": {"resources": [*(scales if scale else scales[1:]), plural]}}


def of_a_custom_resource() -> dict[str, Any]:
    return pod("hub-a", reference("Cluster", "main", "example.com/v1"))


@pytest.mark.parametrize(
    ("rule", "scale", "line"),
    [
        ("flexible, replicas: 3", False, "missing: Cluster jupyter/main has no scale subresource"),
        ("fixed, replicas: 3", False, "note: Cluster jupyter/main has no scale subresource"),
        ("flexible, pods: 3", True, "note: Cluster jupyter/main has a scale subresource"),
        ("flexible, pods: 3", False, ""),
        ("flexible, replicas: 3", True, ""),
        ("worker, usually: 3", False, ""),
    ],
)
def test_the_count_of_a_rule_is_that_of_its_owners_kind(rule: str, scale: bool, line: str) -> None:
    cluster = TeamsCluster([of_a_custom_resource()], **custom(scale=scale))

    assert findings(cluster, wants(f"category: {rule}")).get("count of hub", "").startswith(line)
    assert bool(line) == ("count of hub" in findings(cluster, wants(f"category: {rule}")))


AGENT = reference("DaemonSet", "agent")
SHARED = {"app": "hub"}
TELLING = {"app": "hub", "component": "hub", "pod-template-hash": "5d4c", "app.kubernetes.io/version": "1.2"}


def of_the_workload(name: str = "hub-1-a", **changes: Any) -> dict[str, Any]:
    return pod(name, labels={**TELLING, "ebbtide.dev/workload": "hub", "ebbtide.dev/category": "flexible"}, **changes)


def test_a_daemon_set_under_a_rules_budget_is_named_with_what_follows() -> None:
    agents = [pod(f"agent-{number}", AGENT, labels=SHARED) for number in range(2)]
    cluster = TeamsCluster([of_the_workload(), *agents])

    found = findings(cluster, wants("category: flexible, replicas: 1"))

    assert found["count of hub"] == (
        "missing: DaemonSet jupyter/agent has pods with the rule's labels, which adoption leaves alone and its budget "
        "covers: Kubernetes cannot count them, so the budget lets no pod go, not even at night (SyncFailed); "
        "add component: hub to its selector"
    )
    assert found["rule hub"] == "ok: 1 pod of Deployment jupyter/hub"
    assert "pods of hub" not in found


@pytest.mark.parametrize(
    ("rule", "state", "follows"),
    [
        ("fixed, replicas: 1", "note", "so the budget lets no pod go, not even in a maintenance"),
        ("flexible, pods: 3", "missing", "at night up to 3 of the rule's pods may go at once"),
        ("worker, usually: 1", "note", "the budget never opens, so a Karpenter node with such a pod stays"),
    ],
)
def test_what_follows_from_a_daemon_sets_pods_depends_on_the_rules_budget(rule: str, state: str, follows: str) -> None:
    agents = [pod(f"agent-{number}", AGENT, labels=SHARED) for number in range(2)]
    own = pod("main-a", reference("Cluster", "main", "example.com/v1"), labels=TELLING)
    cluster = TeamsCluster([own, *agents], **custom(scale="replicas" in rule))

    found = findings(cluster, wants(f"category: {rule}"))["count of hub"]

    assert found.startswith(f"{state}: DaemonSet jupyter/agent has pods with the rule's labels, ")
    assert follows in found


def test_without_a_label_of_their_own_the_pods_need_one() -> None:
    found = findings(TeamsCluster([pod(labels=SHARED), pod("agent-1", AGENT, labels=SHARED)]), wants())

    assert found["count of hub"].endswith(
        "; give its own pods one more label, such as app, and add that to its selector"
    )


def test_a_rule_of_a_daemon_set_alone_is_to_be_removed() -> None:
    found = findings(TeamsCluster([pod("agent-1", AGENT, labels=SHARED)]), wants())

    assert found["count of hub"].endswith("; remove the rule")
    assert "rule hub" not in found


def test_a_daemon_set_that_karpenter_leaves_alone_does_not_matter_for_workers() -> None:
    agent = pod("agent-1", AGENT, labels=SHARED, spec={**pod()["spec"], "tolerations": [{"operator": "Exists"}]})

    assert "count of hub" not in findings(
        TeamsCluster([of_the_workload(), agent]), wants("category: worker, usually: 1")
    )


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (
            pod("migrate-1", reference("Job", "migrate", "batch/v1"), labels=SHARED, status={"phase": "Succeeded"}),
            (
                "missing: Job jupyter/migrate has no scale subresource, so a budget by replicas never lets a pod go "
                "while its ended pods exist; add component: hub to its selector"
            ),
        ),
        (
            pod("debug", labels=SHARED, meta={"ownerReferences": []}),
            (
                "missing: 1 pod without an owner counts as healthy but not as expected, so up to 1 more may go at "
                "once; add component: hub to its selector"
            ),
        ),
        (pod("debug", labels=SHARED, meta={"ownerReferences": []}, status={"phase": "Failed"}), ""),
        (pod("old-1", reference("ReplicationController", "old", "v1"), labels=SHARED), ""),
    ],
    ids=["an ended job's", "a bare one", "an ended bare one", "of a replication controller"],
)
def test_other_pods_under_the_budget_are_named_where_kubernetes_counts_them_wrongly(other: Any, line: str) -> None:
    found = findings(TeamsCluster([of_the_workload(), other]), wants("category: flexible, replicas: 1"))

    assert found.get("count of hub", "") == line


def test_bare_pods_alone_are_workers() -> None:
    bare = pod("debug", labels=SHARED, meta={"ownerReferences": []})

    assert findings(TeamsCluster([bare]), wants("category: flexible, replicas: 1"))["count of hub"] == (
        "missing: its pods have no owner, so a budget by replicas never lets one go; write category: worker"
    )


def test_a_budget_that_kubernetes_cannot_calculate_is_named_whatever_the_cause() -> None:
    failed = budget("ebbtide-hub", labels={"ebbtide.dev/workload": "hub"})
    row = {"type": "DisruptionAllowed", "reason": "SyncFailed", "message": "found no controllers for pod x"}
    failed["status"]["conditions"] = [row]

    found = findings(TeamsCluster([pod()], budgets={"items": [failed]}), wants("category: flexible, replicas: 1"))

    assert found["count of hub"] == (
        "missing: budget ebbtide-hub lets no pod go: Kubernetes cannot calculate it "
        "(SyncFailed: found no controllers for pod x)"
    )


def test_an_unknown_kind_is_not_judged() -> None:
    cluster = TeamsCluster([of_a_custom_resource()], **{"/apis/example.com/v1": DENIED})

    assert "count of hub" not in findings(cluster, wants("category: flexible, replicas: 3"))


POOL = "pool: { source: { kind: celery, queues: [etl], acks: late }, max: 4, longestJob: 1h }"
LOADER = "/apis/apps/v1/namespaces/jupyter/deployments/hub"


def loader(writer: str = "", grace: int = 3600) -> dict[str, Any]:
    """The Deployment of a pool; `writer` owns its replicas."""
    fields: dict[str, Any] = {"fieldsV1": {"f:spec": {"f:replicas": {}}}, "manager": writer}
    template = {"spec": {"terminationGracePeriodSeconds": grace}}
    return {"metadata": {"managedFields": [fields] if writer else []}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("deployment", "line"),
    [
        (404, "missing: no Deployment jupyter/hub, whose replicas the pool sets; name another one"),
        (
            loader("argocd-controller"),
            "missing: argocd-controller writes spec.replicas of Deployment jupyter/hub. Argo",
        ),
        (loader(grace=30), "note: it only grows: wanted terminationGracePeriodSeconds 3600 in the template of Depl"),
    ],
)
def test_a_pool_sets_the_replicas_of_one_deployment_that_nobody_else_sets(deployment: Any, line: str) -> None:
    assert findings(TeamsCluster([pod()], **{LOADER: deployment}), wants(POOL))["pool hub"].startswith(line)


@pytest.mark.parametrize(
    ("deployment", "rule"),
    [
        (DENIED, POOL),
        (loader("ebbtide-controller"), POOL),
        (loader("argocd-controller"), POOL.replace("longestJob", "replicas: kept, longestJob")),
    ],
)
def test_a_pool_whose_number_is_the_controllers_has_no_finding(deployment: Any, rule: str) -> None:
    assert "pool hub" not in findings(TeamsCluster([pod()], **{LOADER: deployment}), wants(rule))


def test_a_pool_of_another_deployment_than_that_of_the_selected_pods_is_told() -> None:
    cluster = TeamsCluster([pod("web-0", reference("StatefulSet", "web"))], **{LOADER: loader()})

    assert findings(cluster, wants(POOL))["pool hub"] == (
        "missing: the rule selects pods of StatefulSet jupyter/web, and the pool sets the replicas of Deployment "
        "jupyter/hub"
    )


CNPG = "postgresql.cnpg.io/v1"


@pytest.mark.parametrize(
    ("second", "remedy"),
    [
        (budget("main", reference("Cluster", "main", CNPG)), "set enablePDB: false in Cluster main"),
        (budget("kafka", reference("Kafka", "log", "kafka.strimzi.io/v1")), "made for Kafka log, whose op"),
        (budget("hub", labels={"app.kubernetes.io/managed-by": "Helm"}), "made by a chart, whose values switch it off"),
        (budget("ebbtide-hub.pods", labels={"ebbtide.dev/workload": "hub"}), "of a former rule: kubectl --namespace"),
        (budget("by-hand"), "remove it where it is applied from"),
    ],
)
def test_a_second_budget_is_named_with_how_to_switch_it_off(second: dict[str, Any], remedy: str) -> None:
    ours = budget("ebbtide-hub", labels={"ebbtide.dev/workload": "hub"})
    cluster = TeamsCluster([pod()], budgets={"items": [ours, second]})

    assert findings(cluster, wants())["budget of hub"].startswith(
        f"missing: {second['metadata']['name']} covers the same pods, and a pod with two budgets cannot be evicted; "
        f"{remedy}"
    )


def test_our_own_budget_and_one_of_other_pods_are_none_too_many() -> None:
    other = {**budget("web"), "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    cluster = TeamsCluster(
        [pod()], budgets={"items": [budget("ebbtide-hub", labels={"ebbtide.dev/workload": "hub"}), other]}
    )

    assert "budget of hub" not in findings(cluster, wants())


KEPT = wants("category: flexible, replicas: 1, budget: hub-pdb")


@pytest.mark.parametrize(
    ("budgets", "lines"),
    [
        ([budget("hub-pdb")], None),
        ([], "missing: no budget jupyter/hub-pdb: let the chart create it, or remove budget from the rule"),
        ([budget("hub-pdb", reference("Cluster", "main", CNPG))], "missing: an operator writes hub-pdb: set enablePDB"),
        ([budget("hub-pdb"), budget("second")], "missing: second covers the same pods"),
        (
            [{**budget("hub-pdb"), "spec": {"selector": {"matchLabels": {"app": "web"}}}}],
            "missing: hub-pdb does not cover pod hub-1-a: correct its selector or the rule's",
        ),
    ],
    ids=["fits", "missing", "of an operator", "a second one", "of other pods"],
)
def test_the_budget_that_a_rule_names_is_that_of_its_pods_chart(budgets: list[Any], lines: str | None) -> None:
    found = findings(TeamsCluster([pod()], budgets={"items": budgets}), KEPT)

    assert found.get("budget of hub", "").startswith(lines or "")
    assert ("budget of hub" in found) is (lines is not None)


def test_differences_between_the_file_and_the_pods_are_a_note() -> None:
    larger = pod("hub-1-b", cpu="2", extra={"nvidia.com/gpu": "1"})

    assert findings(TeamsCluster([pod(), larger]), wants())["size of hub"] == (
        "note: the stack file differs: replicas 1, the cluster has 2; cpu 1, a pod requests 2; gpu 0, a pod requests 1"
    )
    assert "size of hub" not in findings(TeamsCluster([pod(), pod("b")]), wants("category: worker, usually: 9"))


def test_a_pods_sidecars_and_overhead_are_part_of_its_size() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    meshed = pod(spec={**pod()["spec"], "initContainers": [sidecar], "overhead": {"cpu": "250m"}})

    assert findings(TeamsCluster([meshed]), wants())["size of hub"].endswith("cpu 1, a pod requests 1.75")


def stored(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": {**LABELLED, **labels}}, "spec": {"nodeSelector": {"pool": "core"}}}


def test_a_dry_run_shows_what_the_policy_does() -> None:
    cluster = TeamsCluster([pod()], stored(), **INSTALLED)

    found = findings(cluster, wants())

    assert found["adoption"] == "ok: its policy is installed"
    assert found["labels of hub"] == "ok: a new pod gets them, and runs on pool=core"
    assert cluster.tried == [(PODS, {"dryRun": "All"})]


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            stored(**{"ebbtide.dev/category": "worker"}),
            "missing: a new pod would lack label ebbtide.dev/category=fixed; is there a webhook",
        ),
        (
            {"metadata": {"labels": LABELLED}, "spec": {}},
            "missing: a new pod would lack node selector pool=core; is there a webhook",
        ),
        ("exceeded quota", "note: a pod could not be created as a dry run: exceeded quota"),
    ],
)
def test_a_pod_that_would_lack_something_is_told(outcome: Any, line: str) -> None:
    assert findings(TeamsCluster([pod()], outcome, **INSTALLED), wants())["labels of hub"].startswith(line)


def test_a_rule_that_the_installed_policy_does_not_have_is_not_tried() -> None:
    cluster = TeamsCluster([pod()], stored(), policy=policy("users"))

    assert findings(cluster, wants())["labels of hub"].startswith("note: the installed policy does not have this rule")
    assert cluster.tried == []


def test_other_texts_of_the_policy_are_no_rules() -> None:
    """The policy also chooses by rule among categories."""
    assert (knows(policy("users"), "users"), knows(policy("users"), "flexible")) == (True, False)


def test_pods_without_the_labels_are_counted_but_for_those_that_the_policy_leaves_alone() -> None:
    old, out = pod("old", labels=HUB), pod("out", labels={**HUB, "ebbtide.dev/adopt": "no"})
    daemon = pod("daemon", reference("DaemonSet", "cni"), labels=HUB)
    cluster = TeamsCluster([pod(), old, out, daemon], stored(), **INSTALLED)

    assert findings(cluster, wants())["pods of hub"].startswith("note: 1 of 3 pods lack the labels")
    assert "pods of hub" not in findings(TeamsCluster([pod()], stored(), **INSTALLED), wants())


HPAS = "/apis/autoscaling/v2/namespaces/jupyter/horizontalpodautoscalers"
SLEEP = "category: fixed, replicas: 1, sleep: { when: outsideBusinessHours, scale: { kind: Deployment, name: hub } }"
KEPT_SLEEP = SLEEP.replace("name: hub", "name: hub, replicas: kept")


def chart(writer: str = "", **meta: Any) -> dict[str, Any]:
    """The Deployment of a rule that sleeps; `writer` owns its replicas."""
    fields: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
    entry: dict[str, Any] = {"manager": writer, "fieldsV1": fields, "time": "2026-01-02T00:00:00Z"}
    return {
        "metadata": {"name": "hub", "managedFields": [entry] if writer else [], **meta},
        "spec": {"replicas": 1},
    }


def autoscaler(kind: str = "Deployment", name: str = "hub") -> dict[str, Any]:
    return {"metadata": {"name": "grows"}, "spec": {"scaleTargetRef": {"kind": kind, "name": name}}}


@pytest.mark.parametrize(
    ("deployment", "autoscalers", "rule", "line"),
    [
        (404, [], SLEEP, "missing: no Deployment jupyter/hub, whose replicas it writes; name another one"),
        (DENIED, [], SLEEP, "note: Deployment jupyter/hub cannot be read: you need the right to get deployments"),
        (
            chart(ownerReferences=[reference("Cluster", "main")]),
            [],
            KEPT_SLEEP,
            "missing: Cluster main owns Deployment jupyter/hub, and its operator writes the replicas: it does not",
        ),
        (chart(), [autoscaler()], KEPT_SLEEP, "missing: HorizontalPodAutoscaler grows scales Deployment jupyter/hub"),
        (
            chart("argocd-controller"),
            [],
            SLEEP,
            "note: argocd-controller writes spec.replicas of Deployment jupyter/hub",
        ),
    ],
)
def test_an_object_that_cannot_sleep_is_told(deployment: Any, autoscalers: list[Any], rule: str, line: str) -> None:
    answers: dict[str, Any] = {HPAS: {"items": autoscalers}, **({} if deployment == 404 else {LOADER: deployment})}

    assert findings(TeamsCluster([pod()], **answers), wants(rule))["sleep of hub"].startswith(line)


@pytest.mark.parametrize("writer", ["helm", "ebbtide-workloads", ""])
def test_a_chart_that_sleeps_beside_other_autoscalers_has_no_finding(writer: str) -> None:
    others = [autoscaler("StatefulSet"), autoscaler(name="web")]
    answers: dict[str, Any] = {LOADER: chart(writer), HPAS: {"items": others}}

    assert "sleep of hub" not in findings(TeamsCluster([pod()], **answers), wants(KEPT_SLEEP))


@pytest.mark.parametrize(("pods", "asleep"), [([], 0), ([pod()], 1)])
def test_a_chart_that_sleeps_now_lacks_no_pods(pods: list[Any], asleep: int) -> None:
    rule = SLEEP.replace("replicas: 1", "replicas: 2").replace("when:", f"replicas: {asleep}, when:")
    answers: dict[str, Any] = {LOADER: {**chart(), "spec": {"replicas": asleep}}, HPAS: {"items": []}}
    found = findings(TeamsCluster(pods, **answers), wants(rule))

    assert not [text for text in found.values() if text.startswith("missing")]
    assert "size of hub" not in found
    awake = findings(TeamsCluster(pods, **{**answers, LOADER: {**chart(), "spec": {"replicas": 2}}}), wants(rule))
    assert "size of hub" in awake or awake["rule hub"].startswith("missing: no pod in jupyter")


def test_a_rule_whose_pods_are_of_another_object_than_it_scales_is_told() -> None:
    rule = SLEEP.replace("name: hub", "name: web")
    answers: dict[str, Any] = {LOADER.replace("hub", "web"): chart(), HPAS: DENIED}
    cluster = TeamsCluster([pod()], **answers)

    assert "pods of Deployment jupyter/hub, and sleep writes" in str(_sleep_findings(cluster, wants(rule)))
    assert "you need the right to list horizontalpodautoscalers" in str(_sleep_findings(cluster, wants(rule)))


def _sleep_findings(cluster: TeamsCluster, stack_wants: Wants) -> list[str]:
    facts, adopted = facts_of(cluster, {}, ()), adopted_facts(cluster, stack_wants.adopted)
    found = findings_of(Probed(facts=facts, wants=stack_wants, clock_ahead=None, adopted=adopted))
    return [one.said for one in found if one.what == "sleep of hub"]
