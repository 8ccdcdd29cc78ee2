"""`ebbtide adopt`: the rules proposed for what runs, that a stack file accepts them, and what a night is said to be."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from ebbtide.cli import cluster as cluster_options
from ebbtide.cli.__main__ import app
from ebbtide.operate.adopt.facts import adopt_facts
from ebbtide.operate.adopt.proposals import Proposal, proposals_of
from ebbtide.operate.adopt.selectors import Other, RuleCandidate, choose
from ebbtide.operate.adopt.text import adopt_lines
from ebbtide.prices import on_demand
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.adopted import disjoint
from ebbtide.text.money import dollars
from tests.builders.existing import onprem, written
from tests.builders.settings import loaded
from tests.unit.operate.adoptable import Adoptable

CLAIM: dict[str, Any] = {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}
TYPE, REGION = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"


def hub_labels(component: str) -> dict[str, str]:
    release = {"app": "jupyterhub", "release": "jhub", "helm.sh/chart": "jupyterhub-4.0.0"}
    return {**release, "component": component, "app.kubernetes.io/managed-by": "Helm"}


def platform() -> Adoptable:
    """A hub with three users, a database by an operator, an API and a nightly report."""
    cluster = Adoptable()
    for number in range(1, 6):
        cluster.node(f"node-{number}", **{TYPE: "m7i.2xlarge", REGION: "eu-central-1"})
    cluster.workload("Deployment", "hub", namespace="jupyter", labels=hub_labels("hub"))
    cluster.workload("Deployment", "proxy", 2, namespace="jupyter", labels=hub_labels("proxy"), requests={})
    for number, user in enumerate(("ada", "bob", "eve"), start=2):
        labels = {**hub_labels("singleuser-server"), "hub.jupyter.org/username": user}
        cluster.pod(
            f"jupyter-{user}", "jupyter", labels=labels, node=f"node-{number}", requests={"cpu": "2", "memory": "8Gi"}
        )
    database = {"cnpg.io/cluster": "main", "cnpg.io/podRole": "instance"}
    cluster.workload("Cluster", "main", 3, namespace="postgres", labels=database, volumes=[CLAIM], node="node-5")
    cluster.workload("Deployment", "api", 3, namespace="api")
    cluster.workload(
        "CronJob", "report", namespace="api", labels={"app": "nightly"}, phase="Succeeded", restarts="OnFailure"
    )
    return cluster


def lines_of(cluster: Adoptable, *namespaces: str, settings: StackSettings | None = None) -> list[str]:
    return adopt_lines(adopt_facts(cluster, namespaces or ("team",)), settings)  # pyright: ignore[reportArgumentType] - answers as the API does


def proposed(cluster: Adoptable, settings: StackSettings | None = None, *namespaces: str) -> dict[str, Proposal]:
    facts = adopt_facts(cluster, namespaces or ("team",))  # pyright: ignore[reportArgumentType] - answers as the API does
    return {proposal.name: proposal for proposal in proposals_of(facts, settings)}


def line(lines: list[str], part: str) -> str:
    (found,) = [each for each in lines if part in each]
    return found


def test_a_stack_file_accepts_the_printed_section(tmp_path: Path) -> None:
    printed = "\n".join(lines_of(platform(), "jupyter", "postgres", "api"))

    rules = loaded(onprem() + printed + "\n", tmp_path).adopted

    assert {
        name: (rule.namespace, dict(rule.selector), rule.category.value, rule.count) for name, rule in rules.items()
    } == {
        "hub": ("jupyter", {"component": ("hub",)}, "fixed", 1),
        "proxy": ("jupyter", {"component": ("proxy",)}, "flexible", 2),
        "singleuser-server": ("jupyter", {"component": ("singleuser-server",)}, "worker", 3),
        "main": ("postgres", {"cnpg.io/cluster": ("main",)}, "fixed", 3),
        "api": ("api", {"app": ("api",)}, "flexible", 3),
        "nightly": ("api", {"app": ("nightly",)}, "worker", 0),
    }
    assert (rules["singleuser-server"].cpu, rules["singleuser-server"].memory) == (2000, 8192)


@pytest.mark.parametrize(
    ("kind", "count", "how", "category", "counted_by", "reason"),
    [
        ("Deployment", 3, {}, "flexible", "replicas", "3 replicas, no claim"),
        ("Deployment", 1, {}, "fixed", "replicas", "one replica"),
        ("Deployment", 2, {"volumes": [CLAIM]}, "fixed", "replicas", "mounts 1 claim (data-0)"),
        ("StatefulSet", 3, {}, "fixed", "replicas", "a StatefulSet"),
        ("Cluster", 3, {}, "flexible", "replicas", "3 replicas"),
        ("Cluster", 3, {"restarts": "Never"}, "flexible", "replicas", "3 replicas"),
        ("Runner", 3, {}, "flexible", "pods", "3 replicas"),
        ("Runner", 1, {}, "fixed", "pods", "one replica"),
        ("Runner", 3, {"restarts": "Never"}, "worker", "usually", "pods of a Runner run tasks"),
        ("Job", 2, {"restarts": "Never"}, "worker", "usually", "pods of a Job run tasks"),
        ("CronJob", 1, {"restarts": "Never"}, "worker", "usually", "pods of a CronJob run tasks"),
    ],
)
def test_the_category_is_guessed_from_the_owner(
    kind: str, count: int, how: dict[str, Any], category: str, counted_by: str, reason: str
) -> None:
    cluster = Adoptable()
    cluster.workload(kind, "each", count, **how)

    (proposal,) = proposed(cluster).values()

    assert (proposal.guess.category, proposal.counted_by, proposal.count) == (category, counted_by, count)
    assert reason in proposal.guess.reason


def test_bare_pods_with_the_same_labels_are_one_workload() -> None:
    cluster = Adoptable()
    cluster.pod("a", labels={"app": "loader", "run_id": "1"})
    cluster.pod("b", labels={"app": "loader", "run_id": "2"})

    (proposal,) = proposed(cluster).values()

    assert (proposal.name, proposal.count, dict(proposal.selector)) == ("loader", 2, {"app": "loader"})
    assert "bare pods" in proposal.guess.reason


@pytest.mark.parametrize(
    "labels",
    [
        {"pod-template-hash": "5d4c"},
        {"job-name": "x"},
        {"batch.kubernetes.io/controller-uid": "5d4c"},
        {"statefulset.kubernetes.io/pod-name": "x-0"},
        {"anything": "x-0"},
        {"helm.sh/chart": "x-1.2.3"},
        {"ebbtide.dev/team": "x"},
        {"run": "0b0d8e3e-6a0c-4f0a-8d5c-0a4d8c7b6e21"},
        {"dag_id": "etl", "task_id": "load", "run_id": "manual", "try_number": "1", "execution_date": "2026-11-20"},
        {"hub.jupyter.org/username": "ada", "hub.jupyter.org/servername": "gpu"},
        {"controller-revision-hash": "x", "batch.kubernetes.io/job-completion-index": "0"},
        {"spark-app-selector": "spark-12f88a73", "spark-exec-id": "1", "spark-app-name": "etl"},
        {"training.kubeflow.org/job-name": "bert", "training.kubeflow.org/replica-index": "0"},
        {"workflows.argoproj.io/workflow": "etl-x1", "workflows.argoproj.io/creator": "ada"},
        {"build": "etl-12f88a73cb544ce2", "app.kubernetes.io/version": "1.2", "tag": "v1.2.0"},
        {"started": "2026-11-20"},
    ],
)
def test_labels_of_one_object_or_one_version_never_select(labels: dict[str, str]) -> None:
    cluster = Adoptable()
    cluster.pod("x-0", labels=labels)
    cluster.pod("other", labels={"app": "other"})

    lines = lines_of(cluster)

    assert "its pods share no label that lasts" in line(lines, "no rule for team/bare pods: ")
    assert list(yaml.safe_load("\n".join(lines))["ebbtide:adopted"]) == ["other"]


def test_labels_that_a_controller_adds_to_pods_never_select() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 2, labels={"tier": "web"}, extra={"app": "injected"})

    assert dict(proposed(cluster)["api"].selector) == {"tier": "web"}


def test_a_selector_never_selects_pods_of_a_daemon_set_or_ended_ones_of_others() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 2, labels={"app": "api", "tier": "web"})
    cluster.workload("DaemonSet", "agent", labels={"app": "api", "tier": "agent"})

    assert dict(proposed(cluster)["api"].selector) == {"tier": "web"}


def test_pods_that_no_label_tells_apart_get_a_line_and_no_rule() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "one", 2, labels={"app": "same"})
    cluster.workload("Deployment", "two", 2, labels={"app": "same"})

    lines = lines_of(cluster)

    assert line(lines, "team/Deployment one: no").strip() == (
        "# no rule for team/Deployment one: no label tells its pods from those of team/Deployment two; "
        "add one to their template, such as app"
    )
    assert "ebbtide:adopted: {}" in lines[0]


def test_rules_and_names_of_the_stack_are_respected(tmp_path: Path) -> None:
    rule = "{ namespace: team, selector: { app: hub }, category: fixed, replicas: 1, cpu: 1, memory: 2Gi }"
    settings = loaded(onprem(more=f"ebbtide:adopted: {{ hub: {rule} }}"), tmp_path)
    cluster = Adoptable()
    cluster.workload("Deployment", "hub")
    cluster.workload("Deployment", "train", 2)  # the name of a pool of the stack
    cluster.workload("Deployment", "other", 2, labels={"tier": "web"})

    lines = lines_of(cluster, settings=settings)

    assert list(yaml.safe_load("\n".join(lines))["ebbtide:adopted"]) == ["team-train"]
    assert not any("Deployment hub: " in each for each in lines)
    assert "no label keeps its pods out of rule hub" in line(lines, "no rule for team/Deployment other")


def test_a_budget_of_the_pods_is_to_be_switched_off_or_for_flexible_pods_kept() -> None:
    cluster = Adoptable()
    for name, replicas in (("api", 3), ("hub", 1)):
        cluster.workload("Deployment", name, replicas)
        cluster.budget(f"{name}-pdb", {"app": name})
    cluster.budget("ebbtide-api", {"app": "api"}, labels={"ebbtide.dev/workload": "api"})

    lines = lines_of(cluster)

    assert line(lines, "team/Deployment api: 3 replicas").endswith(
        "; switch off its budget api-pdb, or add budget: api-pdb"
    )
    assert line(lines, "team/Deployment hub: one replica").endswith("; switch off its budget hub-pdb")


def test_a_rule_may_have_the_name_of_a_budget_that_exists_since_ours_has_another() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "hub")
    cluster.budget("hub", {"app": "hub"}, labels={"app.kubernetes.io/managed-by": "Helm"})

    lines = lines_of(cluster)

    assert list(yaml.safe_load("\n".join(lines))["ebbtide:adopted"]) == ["hub"]


def test_pods_without_requests_get_a_placeholder_that_says_so() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 2, requests={"cpu": "300m"})
    cluster.workload("Deployment", "web", 2)

    lines = lines_of(cluster)

    assert "its pods request no memory: the value here is a placeholder" in line(lines, "# team/Deployment api")
    assert "cpu: 0.3, memory: 128Mi" in line(lines, "    api: ")
    assert "placeholder" not in line(lines, "# team/Deployment web")


def test_the_largest_requests_of_a_pod_and_the_owners_own_number_count() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 2)
    cluster.pod(
        "api-5d4c-2", owner=("ReplicaSet", "api-5d4c"), labels={"app": "api"}, requests={"cpu": "3", "memory": "1"}
    )

    proposal = proposed(cluster)["api"]

    assert (proposal.count, proposal.size.cpu, proposal.size.memory) == (2, 3000, 2048)


def test_a_pods_size_includes_its_sidecars_and_its_overhead() -> None:
    requests = {"requests": {"cpu": "500m", "memory": "512Mi"}}
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": requests}
    cluster = Adoptable()
    spec = {"initContainers": [sidecar], "overhead": {"cpu": "250m", "memory": "120Mi"}}
    cluster.workload("Deployment", "api", 2, spec=spec)

    assert "cpu: 1.75, memory: 2680Mi" in line(lines_of(cluster), "    api: ")


def test_what_a_scaled_down_owner_left_over_is_no_workload() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 1, phase="Failed")

    assert proposed(cluster) == {}


def test_what_yaml_would_read_as_a_number_or_a_truth_is_quoted(tmp_path: Path) -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 2, labels={"app": "1.30"})
    cluster.workload("Deployment", "web", 2, labels={"app": "on"})

    rules = loaded(onprem() + "\n".join(lines_of(cluster)) + "\n", tmp_path).adopted

    assert [dict(rule.selector) for rule in rules.values()] == [{"app": ("1.30",)}, {"app": ("on",)}]


def test_gpus_of_another_make_are_named() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 2, requests={"cpu": "1", "memory": "1Gi", "amd.com/gpu": "2"})

    assert "gpu: { count: 2, resource: amd.com/gpu }" in line(lines_of(cluster), "selector")


def test_pods_that_no_rule_may_touch_are_left_out() -> None:
    cluster = Adoptable()
    cluster.pod("free", labels={"app": "free", "ebbtide.dev/adopt": "no"})
    cluster.pod("done", labels={"app": "done", "ebbtide.dev/workload": "done", "ebbtide.dev/category": "worker"})
    cluster.workload("DaemonSet", "agent")

    lines = lines_of(cluster)

    assert yaml.safe_load("\n".join(lines)) == {"ebbtide:adopted": {}}


def test_the_night_names_pods_that_pin_and_what_rules_save() -> None:
    lines = lines_of(platform(), "jupyter", "postgres", "api")

    assert line(lines, "singleuser-server: 3 pods on").endswith(
        "node-2, node-3, node-4: is a bare pod: nothing would recreate it"
    )
    assert "Cluster's: the autoscaler does not move it" in line(lines, "Cluster main: 3 pods on node-5")
    assert "today 4 nodes, with these rules 1 fixed (like node-1) and 1 flexible (like node-1)" in line(
        lines, "estimate for a night"
    )
    price = on_demand("eu-central-1", "m7i.2xlarge")
    assert line(lines, "on-demand list prices").endswith(
        f"{dollars(4 * price)} an hour today, {dollars(2 * price)} with these rules"
    )


def test_prices_of_the_stack_count_before_those_of_a_region(tmp_path: Path) -> None:
    nodes = "{ fixed: { pool: fixed }, flexible: { pool: batch } }"
    shape = "cpu: 8, memory: 32Gi, max: 9"
    shapes = f"{{ fixed: {{ {shape}, usdPerHour: 1 }}, flexible: {{ {shape}, usdPerHour: 2 }} }}"
    settings = loaded(onprem(f"nodeSelectors: {nodes}, nodeShapes: {shapes}"), tmp_path)
    cluster = platform()
    for node in cluster.nodes:
        node["metadata"]["labels"] = {"pool": "batch"}

    lines = lines_of(cluster, "jupyter", "postgres", settings=settings)

    assert line(lines, "estimate").endswith("1 fixed (like node-1) and 1 flexible (like node-1)")
    assert line(lines, "list prices").endswith("$8.00 an hour today, $4.00 with these rules")


@pytest.mark.parametrize(("region", "priced_in"), [("  aws:region: us-east-1\n", "us-east-1"), ("", "eu-central-1")])
def test_a_node_of_a_listed_type_costs_that_type_in_the_files_region_or_its_own(
    region: str, priced_in: str, tmp_path: Path
) -> None:
    selectors = "{ fixed: { pool: batch }, flexible: { pool: batch } }"
    shape = "{ instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 9 }"
    cluster_keys = (
        f"nodeSelectors: {selectors}, nodePools: {{ flexible: [general] }}, nodeShapes: {{ flexible: {shape} }}"
    )
    text = onprem(cluster_keys).replace("config:\n", f"config:\n{region}")
    cluster = platform()
    for node in cluster.nodes:  # of type m7i.2xlarge, in eu-central-1
        node["metadata"]["labels"]["pool"] = "batch"

    lines = lines_of(cluster, "jupyter", "postgres", settings=loaded(text, tmp_path))

    assert f"{dollars(4 * on_demand(priced_in, 'm7i.2xlarge'))} an hour today" in line(lines, "list prices")


@pytest.mark.parametrize(
    ("shape", "label", "usd"),
    [
        ("instanceTypes: [m7i.4xlarge, m7i.8xlarge]", "m7i.large", on_demand("us-east-1", "m7i.large")),
        ("types: { D16s: { cpu: 16, memory: 64Gi, usdPerHour: 3 } }", "D16s", 3),
        ("types: { D16s: { cpu: 16, memory: 64Gi, usdPerHour: 3 } }", "m7i.large", on_demand("us-east-1", "m7i.large")),
        ("cpu: 16, memory: 64Gi, usdPerHour: 2", "m7i.large", 2),
        ("cpu: 16, memory: 64Gi", "m7i.large", on_demand("us-east-1", "m7i.large")),
        ("instanceTypes: [m7i.4xlarge]", "", on_demand("us-east-1", "m7i.4xlarge")),
        ("instanceTypes: [m7i.4xlarge, m7i.8xlarge]", "", None),
    ],
)
def test_a_node_that_its_set_does_not_list_has_its_own_price(
    shape: str, label: str, usd: float | None, tmp_path: Path
) -> None:
    selectors = "{ fixed: { pool: batch }, flexible: { pool: batch } }"
    sets = f"nodeSelectors: {selectors}, nodePools: {{ flexible: [general] }}"
    text = onprem(f"{sets}, nodeShapes: {{ flexible: {{ {shape}, max: 9 }} }}")
    cluster = platform()
    for node in cluster.nodes:
        node["metadata"]["labels"] = {"pool": "batch", **({"node.kubernetes.io/instance-type": label} if label else {})}

    settings = loaded(text.replace("config:\n", "config:\n  aws:region: us-east-1\n"), tmp_path)
    lines = lines_of(cluster, "jupyter", "postgres", settings=settings)

    wanted = "has no labels node.kubernetes.io/instance-type" if usd is None else f"{dollars(4 * usd)} an hour today"
    assert any(wanted in text for text in lines)


def test_files_on_a_node_pin_it_unless_the_autoscaler_is_told_otherwise() -> None:
    cluster = Adoptable()
    cluster.workload("Deployment", "api", 2, volumes=[{"name": "tmp", "emptyDir": {}}])
    pinned = lines_of(cluster)
    command = ["./cluster-autoscaler", "--skip-nodes-with-local-storage=false"]
    template = {"template": {"spec": {"containers": [{"command": command}]}}}
    cluster.objects["/apis/apps/v1/namespaces/kube-system/deployments/cluster-autoscaler"] = {"spec": template}

    assert "emptyDir tmp" in line(pinned, "api: 2 pods on node-1")
    assert "no pod keeps its node" in line(lines_of(cluster), "tonight")


def by_karpenter() -> Adoptable:
    """Two nodes of Karpenter, each with a bare pod that keeps files; the one on node-2 has Karpenter's annotation."""
    cluster = Adoptable()
    files: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    for name in ("node-1", "node-2"):
        cluster.node(name, **{"karpenter.sh/nodepool": "flexible"})
    cluster.pod("one", labels={"app": "one"}, volumes=files)
    kept = {"karpenter.sh/do-not-disrupt": "true"}
    cluster.pod("two", labels={"app": "two"}, volumes=files, node="node-2", annotations=kept)
    return cluster


def test_a_node_of_karpenter_is_kept_by_what_karpenter_reads() -> None:
    lines = lines_of(by_karpenter())

    assert line(lines, "pod on node-").endswith("two: 1 pod on node-2: carries karpenter.sh/do-not-disrupt: true")
    assert "today 1 node, with these rules 1 flexible (like node-1)" in line(lines, "estimate for a night")


def test_workers_that_pin_no_node_of_karpenter_today_keep_one_with_their_rule() -> None:
    cluster = Adoptable()
    for name in ("node-1", "node-2"):
        cluster.node(name, **{"karpenter.sh/nodepool": "flexible"})
        cluster.pod(f"user-{name}", labels={"app": "user"}, node=name, requests={"cpu": "5", "memory": "8Gi"})

    assert "today no nodes, with these rules 2 flexible (like node-1)" in line(lines_of(cluster), "estimate")


@pytest.mark.parametrize(
    ("labels", "annotation"),
    [
        ({"karpenter.sh/nodepool": "flexible"}, "karpenter.sh/do-not-disrupt"),
        ({}, "cluster-autoscaler.kubernetes.io/scale-down-disabled"),
    ],
)
def test_a_node_that_is_annotated_to_stay_stays_with_the_rules_too(labels: dict[str, str], annotation: str) -> None:
    cluster = Adoptable()
    cluster.node("node-1")
    cluster.node("node-2")
    cluster.nodes[1]["metadata"] |= {"labels": labels, "annotations": {annotation: "true"}}
    cluster.workload("Deployment", "api", 2, node="node-2")
    cluster.workload("StatefulSet", "main", 1, node="node-1", volumes=[{"name": "tmp", "emptyDir": {}}])

    lines = lines_of(cluster)

    assert "today 2 nodes, with these rules 1 fixed (like node-1) and 1 annotated to stay" in line(lines, "estimate")
    assert line(lines, "node-2 carries").endswith(f"node-2 carries {annotation}: true")


def test_a_pod_without_a_node_keeps_none() -> None:
    cluster = Adoptable()
    cluster.pod("waiting", labels={"app": "waiting"}, node=None, phase="Pending")

    assert "no pod keeps its node" in line(lines_of(cluster), "tonight")


def test_what_may_not_be_read_is_said_and_the_rest_is_proposed() -> None:
    cluster = platform()
    cluster.denied = {"/nodes", "deployments", "poddisruptionbudgets", "kube-system"}

    lines = lines_of(cluster, "api")

    assert "api: { namespace: api, selector: { app: api }, category: flexible, replicas: 3" in line(lines, "    api: ")
    assert {each.split(":")[1].strip() for each in lines if each.startswith("# not known")} == {
        "budgets",
        "objects of kind Deployment",
        "nodes",
        "the autoscaler's flags",
    }
    assert not any("estimate" in each for each in lines)


def test_a_task_that_ended_gives_way_to_what_runs() -> None:
    cluster = Adoptable()
    cluster.workload("Cluster", "main", 3, labels={"cluster": "main", "role": "instance"}, volumes=[CLAIM])
    cluster.pod("init", owner=("Job", "init"), labels={"cluster": "main", "stage": "bootstrap"}, phase="Succeeded")

    lines = lines_of(cluster)

    assert yaml.safe_load("\n".join(lines))["ebbtide:adopted"]["main"]["selector"] == {"role": "instance"}
    assert "it and team/Cluster main have no label with different values" in line(lines, "no rule for team/Job jobs")


def test_the_most_telling_label_is_chosen_and_it_differs_from_the_rules_that_exist() -> None:
    one = RuleCandidate("one", True, {"app": "a", "component": "a", "tier": "a"})
    pods = [Other(one.name, one.labels)]

    assert choose([one], pods, {})[0].selector == {"app": "a"}
    assert choose([one], pods, {"rule": {"tier": ("b", "c")}})[0].selector == {"tier": "a"}


LABELS = st.dictionaries(st.sampled_from(["app", "component", "tier", "zone"]), st.sampled_from("abc"), max_size=4)


@given(st.lists(LABELS, min_size=1, max_size=6), st.lists(LABELS, max_size=2))
def test_chosen_selectors_are_exact_and_disjoint_and_no_label_could_be_left_out(
    workloads: list[dict[str, str]], strangers: list[dict[str, str]]
) -> None:
    candidates = [RuleCandidate(str(number), True, labels) for number, labels in enumerate(workloads)]
    pods = [Other(each.name, each.labels) for each in candidates] + [Other("stranger", each) for each in strangers]

    chosen = choose(candidates, pods, {})

    given_ = [(each, choice.selector) for each, choice in zip(candidates, chosen, strict=True) if choice.selector]
    assert all(bool(choice.selector) != bool(choice.why_not) for choice in chosen)
    for each, selector in given_:
        assert {pod.of for pod in pods if selector.items() <= pod.labels.items()} == {each.name}
        for key in selector:
            fewer = {name: value for name, value in selector.items() if name != key}
            exact = {pod.of for pod in pods if fewer.items() <= pod.labels.items()} == {each.name}
            assert not (fewer and exact and all(apart(fewer, other) for _, other in given_ if other is not selector))
    assert all(apart(one, other) for number, (_, one) in enumerate(given_) for _, other in given_[:number])


def apart(one: dict[str, str], other: dict[str, str]) -> bool:
    return disjoint(*({key: (value,) for key, value in each.items()} for each in (one, other)))


def run(monkeypatch: pytest.MonkeyPatch, cluster: Adoptable, *words: str) -> Result:
    def connected(_file: str | None, _context: str | None) -> Adoptable:
        return cluster

    monkeypatch.setattr(cluster_options, "connect", connected)
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["adopt", *words])


STACK = onprem(
    more="ebbtide:adopted: { hub: { namespace: team, selector: { app: hub }, category: fixed, replicas: 1, cpu: 1, "
    "memory: 2Gi } }"
)
OURS = {"ebbtide.dev/category": "fixed", "ebbtide.dev/workload": "hub"}


def hubs(count: int = 2) -> Adoptable:
    """Pods of the rule, and four that must not be labelled."""
    cluster = Adoptable()
    cluster.workload("Deployment", "hub", count)
    cluster.workload("DaemonSet", "agent", labels={"app": "hub"})
    cluster.pod("free", labels={"app": "hub", "ebbtide.dev/adopt": "no"})
    cluster.pod("has", labels={"app": "hub", **OURS})
    cluster.pod("ended", labels={"app": "hub"}, phase="Failed")
    cluster.pod("other", labels={"app": "other"})
    return cluster


def test_running_pods_are_listed_and_nothing_is_written_without_yes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = hubs()

    result = run(monkeypatch, cluster, written(STACK, tmp_path), "--label-running")

    assert (result.exit_code, cluster.patches) == (0, []), result.output
    assert result.output.splitlines() == [
        "team/hub-5d4c-0: ebbtide.dev/category=fixed, ebbtide.dev/workload=hub",
        "team/hub-5d4c-1: ebbtide.dev/category=fixed, ebbtide.dev/workload=hub",
        "2 pods would get labels; nothing was written: add --yes",
    ]


def test_a_namespace_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, hubs(), "--namespace", "team", "--namespace", "taem")

    assert result.exit_code == 2
    assert "--namespace: no namespace is called taem" in result.output


@pytest.mark.parametrize("former", [{"ebbtide.dev/workload": "core"}, {"ebbtide.dev/category": "flexible"}])
def test_labels_of_a_former_rule_or_category_are_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, former: dict[str, str]
) -> None:
    cluster = Adoptable()
    cluster.pod("one", labels={"app": "hub", **OURS, **former})

    run(monkeypatch, cluster, written(STACK, tmp_path), "--label-running", "--yes")

    assert [body["metadata"]["labels"] for _, body in cluster.patches] == [OURS]


def test_a_patch_has_two_labels_and_the_version_that_was_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = hubs(1)

    result = run(monkeypatch, cluster, written(STACK, tmp_path), "--label-running", "--yes")

    body = {"metadata": {"resourceVersion": "1", "labels": OURS}}
    assert result.exit_code == 0, result.output
    assert cluster.patches == [("/api/v1/namespaces/team/pods/hub-5d4c-0", body)]
    assert "0 pods" not in run(monkeypatch, cluster, written(STACK, tmp_path), "--label-running", "--yes").output


def test_a_pod_that_changed_since_it_was_read_is_not_labelled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = hubs(2)

    def change(path: str) -> None:
        if path.endswith("-1"):
            cluster.pods[f"team/{path.rpartition('/')[2]}"]["metadata"]["resourceVersion"] = "2"

    cluster.before_patch = change
    result = run(monkeypatch, cluster, written(STACK, tmp_path), "--label-running", "--yes")

    assert result.exit_code == 1
    assert cluster.pods["team/hub-5d4c-0"]["metadata"]["labels"].items() >= OURS.items()
    assert not OURS.items() & cluster.pods["team/hub-5d4c-1"]["metadata"]["labels"].items()
    assert "not labelled: team/hub-5d4c-1" in result.output
    assert "1 pod labelled, 1 not" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--namespace: wanted the namespaces to read"),
        (("--namespace", "kube-system"), "found 'kube-system'"),
        (("--namespace", "ebbtide-workers"), "found 'ebbtide-workers'"),
        (("--namespace", "team", "--yes"), "--yes: wanted with --label-running"),
        (("--label-running",), "--label-running: wanted the STACK"),
    ],
)
def test_wrong_use_is_one_line(words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, Adoptable(), *words)

    assert (result.exit_code, len(result.output.splitlines())) == (2, 1), result.output
    assert said in result.output
