"""What the policy does with a pod, whoever creates it: dry runs against the real API server."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from components.pods.rules import HOST, affinity, tolerations
from controllers.adapters.kube_api import Json
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.vocabulary.labels import ADOPT, CATEGORY, NODE_GROUP, NODE_KIND, WORKLOAD, Category
from tests.control_plane.support.adopted import CONTAINER, Adopted, adoption_of

pytestmark = pytest.mark.control_plane

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferred" + REQUIRED.removeprefix("required")
HUB, WEB, TASK, MODEL = ({"app": name} for name in ("hub", "web", "task", "model"))
ENGINE = {"app": "engine", "example.com/role": "instance"}
OWN_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "hub"}}}
OUR_TERM: Json = {
    "topologyKey": HOST,
    "namespaceSelector": {},
    "labelSelector": {"matchExpressions": [{"key": CATEGORY, "operator": "In", "values": ["flexible", "worker"]}]},
}


def terms_of(pod: Json) -> list[Json]:
    return pod["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, [])


def of_gpus(pod: Json) -> list[Json]:
    return [each for each in pod["spec"].get("tolerations", []) if each.get("key", "").startswith("nvidia.com/")]


# --- pods that say nothing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "category", "rule", "nodes"),
    [
        (HUB, "fixed", "hub", "fixed"),
        (WEB, "flexible", "web", "flexible"),
        ({"app": "front", "pod-template-hash": "1"}, "flexible", "web", "flexible"),
        (TASK, "worker", "task", "flexible"),
        (MODEL, "flexible", "model", "gpu"),
        (ENGINE, "flexible", "engine", "flexible"),
    ],
)
def test_a_pod_of_a_rule_is_labelled_and_placed(
    labels: Mapping[str, str], category: str, rule: str, nodes: str, team: Adopted
) -> None:
    pod = team.admitted(labels)

    assert pod["metadata"]["labels"] == {**labels, CATEGORY: category, WORKLOAD: rule}
    assert pod["spec"]["nodeSelector"] == {NODE_KIND: nodes}


@pytest.mark.parametrize("labels", [None, {}, {"app": "other"}, {"app": "engine"}, {"tier": "hub"}])
def test_a_pod_of_no_rule_is_left_alone(labels: Mapping[str, str] | None, team: Adopted) -> None:
    pod = team.admitted(labels)

    assert pod["metadata"].get("labels", {}) == (labels or {})
    assert "nodeSelector" not in pod["spec"]


def test_a_fixed_pod_keeps_off_the_nodes_of_others_and_may_preempt(team: Adopted) -> None:
    hub, web = team.admitted(HUB), team.admitted(WEB)

    assert (terms_of(hub), terms_of(web)) == ([OUR_TERM], [])
    assert (hub["spec"]["priorityClassName"], hub["spec"]["priority"]) == ("system-cluster-critical", 2_000_000_000)
    assert ("priorityClassName" in web["spec"], web["spec"]["priority"]) == (False, 0)


def test_the_term_is_the_one_of_the_stacks_own_fixed_pods() -> None:
    own: Any = affinity(Category.FIXED)
    (term,) = own["pod_anti_affinity"]["required_during_scheduling_ignored_during_execution"]

    assert term["label_selector"]["match_expressions"] == OUR_TERM["labelSelector"]["matchExpressions"]
    assert (term["namespace_selector"], term["topology_key"]) == ({}, OUR_TERM["topologyKey"])


def test_a_pod_with_gpus_tolerates_the_taint_of_their_nodes(team: Adopted) -> None:
    assert of_gpus(team.admitted(MODEL)) == tolerations(Gpu(count=1))
    assert of_gpus(team.admitted(WEB)) == []


# --- pods that say something already ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "selector"),
    [
        ({"disk": "ssd"}, {"disk": "ssd", NODE_KIND: "flexible"}),
        ({NODE_KIND: "gpu"}, {NODE_KIND: "gpu"}),
        ({NODE_GROUP: "large"}, {NODE_GROUP: "large"}),
        ({HOST: "node-7"}, {HOST: "node-7"}),
    ],
)
def test_a_node_selector_of_the_pod_is_kept(own: Mapping[str, str], selector: Mapping[str, str], team: Adopted) -> None:
    assert team.admitted(WEB, nodeSelector=own)["spec"]["nodeSelector"] == selector


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def term(*expressions: Json) -> Json:
    return {"matchExpressions": list(expressions)}


def of_kind(operator: str, *values: str) -> Json:
    return expression(NODE_KIND, operator, *values)


def requiring(*terms: Json) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


NAMED = {"matchFields": [expression("metadata.name", "In", "node-7")]}
AGREEING: list[tuple[Json, ...]] = [
    (term(of_kind("In", "KIND", "spot")),),
    (term(of_kind("NotIn", "spot", "other")),),
    (term(of_kind("Exists")),),
    (term(expression("disk", "DoesNotExist")),),
    (term(expression("generation", "Gt", "2")),),
    (term(expression(NODE_GROUP, "NotIn", "large")),),
    (term(of_kind("In", "spot")), term(expression("disk", "In", "ssd"))),
    (term(of_kind("In", "spot")), term(of_kind("In", "KIND"))),
    ({}, term(of_kind("In", "KIND"))),
    (NAMED, term(of_kind("In", "KIND"))),
    ({"matchFields": [expression("metadata.name", "NotIn", "node-7")]},),
]
CHOOSING: list[tuple[Json, ...]] = [
    (term(of_kind("In", "spot", "other")),),
    (term(of_kind("NotIn", "spot", "KIND")),),
    (term(of_kind("DoesNotExist")),),
    (term(of_kind("Gt", "1")),),
    (term(of_kind("Lt", "1")),),
    (term(of_kind("Exists"), expression("disk", "Exists"), of_kind("NotIn", "KIND")),),
    (term(of_kind("In", "spot")), term(of_kind("DoesNotExist"), expression("disk", "In", "ssd"))),
    ({}, term(of_kind("In", "spot"))),
    (term(expression(NODE_GROUP, "In", "large")),),
    (term(expression(HOST, "In", "node-7")),),
    (NAMED, term(of_kind("In", "spot"))),
]


@pytest.mark.parametrize(("terms", "chooses"), [(it, False) for it in AGREEING] + [(it, True) for it in CHOOSING])
@pytest.mark.parametrize(("labels", "kind"), [(WEB, "flexible"), (HUB, "fixed"), (MODEL, "gpu")])
def test_a_required_node_affinity_is_a_choice_where_each_of_its_terms_excludes_the_rules_nodes(
    labels: Mapping[str, str], kind: str, terms: tuple[Json, ...], chooses: bool, team: Adopted
) -> None:
    """Beside a node selector of ours such a pod would have no node at all."""
    spec = team.admitted(labels, affinity=json.loads(json.dumps(requiring(*terms)).replace("KIND", kind)))["spec"]

    assert spec.get("nodeSelector", {}) == ({} if chooses else {NODE_KIND: kind})
    assert ("priorityClassName" in spec) is (kind == "fixed" and not chooses)


@pytest.mark.parametrize("own", [{NODE_KIND: "gpu"}, {NODE_GROUP: "large"}, {HOST: "node-7"}])
def test_a_fixed_pod_on_other_nodes_preempts_nobody(own: Mapping[str, str], team: Adopted) -> None:
    spec = team.admitted(HUB, nodeSelector=own)["spec"]

    assert (spec["nodeSelector"], "priorityClassName" in spec, spec["priority"]) == (own, False, 0)


def test_the_stack_file_wins_over_labels_of_ours_that_the_pod_has(team: Adopted) -> None:
    assert adoption_of(team.admitted({**WEB, CATEGORY: "fixed", WORKLOAD: "hub"})) == ("flexible", "web")


@pytest.mark.parametrize(
    "given",
    [
        {"podAntiAffinity": {REQUIRED: [OWN_TERM]}},
        {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": OWN_TERM}]}},
        {"podAffinity": {REQUIRED: [OWN_TERM]}},
        {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": OWN_TERM}]}},
        {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
            }
        },
    ],
)
def test_an_affinity_of_the_pod_is_kept_and_ours_is_appended(given: Json, team: Adopted) -> None:
    admitted = team.admitted(HUB, affinity=given)["spec"]["affinity"]
    kept: dict[str, Any] = {"podAntiAffinity": {}, **given}
    own_terms = kept["podAntiAffinity"].get(REQUIRED, [])

    assert admitted == {**kept, "podAntiAffinity": {**kept["podAntiAffinity"], REQUIRED: [*own_terms, OUR_TERM]}}


def test_a_preference_of_the_pod_is_kept_and_ours_is_appended(team: Adopted) -> None:
    own = {"weight": 1, "podAffinityTerm": OWN_TERM}
    wishes = team.admitted(WEB, affinity={"podAffinity": {PREFERRED: [own]}})["spec"]["affinity"]

    assert wishes == {"podAffinity": {PREFERRED: [own, gathering("flexible")]}}


@pytest.mark.parametrize(("labels", "category"), [(WEB, "flexible"), (TASK, "worker")])
def test_pods_whose_nodes_may_empty_prefer_nodes_with_pods_of_their_category(
    labels: Mapping[str, str], category: str, team: Adopted
) -> None:
    assert team.admitted(labels)["spec"]["affinity"] == {"podAffinity": {PREFERRED: [gathering(category)]}}


def test_fixed_pods_are_not_gathered(team: Adopted) -> None:
    assert team.admitted(HUB)["spec"]["affinity"] == {"podAntiAffinity": {REQUIRED: [OUR_TERM]}}


def gathering(category: str) -> Json:
    labels = {"matchLabels": {CATEGORY: category}}
    term = {"labelSelector": labels, "namespaceSelector": {}, "topologyKey": HOST}
    return {"weight": 50, "podAffinityTerm": term}


@pytest.mark.parametrize(
    ("labels", "selected"),
    [
        (HUB, {"app": ["hub"]}),
        ({"app": "front", "pod-template-hash": "1"}, {"app": ["front", "web"], "pod-template-hash": ["1"]}),
        (MODEL, {"app": ["model"]}),
        ({**ENGINE, "tier": "a"}, {"app": ["engine"], "example.com/role": ["instance"]}),
    ],
)
def test_pods_of_a_rule_are_spread_over_hosts_and_zones(
    labels: Mapping[str, str], selected: Mapping[str, list[str]], team: Adopted
) -> None:
    """All pods that the rule selects count, and in a rollout those of one version."""
    spread = team.admitted(labels)["spec"]["topologySpreadConstraints"]

    assert [it["topologyKey"] for it in spread] == [HOST, "topology.kubernetes.io/zone"]
    for it in spread:
        assert (it["maxSkew"], it["whenUnsatisfiable"]) == (1, "ScheduleAnyway")
        assert {each["key"]: each["values"] for each in it["labelSelector"]["matchExpressions"]} == selected


@pytest.mark.parametrize("when", ["ScheduleAnyway", "DoNotSchedule"])
def test_a_spread_of_the_pod_is_kept_alone(when: str, team: Adopted) -> None:
    own: Json = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": when, "labelSelector": {}}

    assert team.admitted(WEB, topologySpreadConstraints=[own])["spec"]["topologySpreadConstraints"] == [own]


def test_workers_are_not_spread(team: Adopted) -> None:
    assert "topologySpreadConstraints" not in team.admitted(TASK)["spec"]


def test_an_anti_affinity_between_categories_is_not_doubled(team: Adopted) -> None:
    own = {**OUR_TERM, "topologyKey": "topology.kubernetes.io/zone"}

    assert terms_of(team.admitted(HUB, affinity={"podAntiAffinity": {REQUIRED: [own]}})) == [own]


def test_a_priority_class_of_the_pod_is_kept(team: Adopted) -> None:
    pod = team.admitted(HUB, priorityClassName="system-node-critical")

    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("system-node-critical", 2_000_001_000)


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ({"operator": "Exists"}, 0),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, 0),
        ({"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}, 0),
        ({"key": "nvidia.com/gpu", "value": "present"}, 1),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, 1),
        ({"key": "dedicated", "operator": "Exists"}, 1),
    ],
)
def test_a_toleration_is_added_only_where_the_pod_does_not_tolerate_the_taint(
    own: Json, added: int, team: Adopted
) -> None:
    admitted = team.admitted(MODEL, tolerations=[own])["spec"]["tolerations"]

    assert admitted[0] == own
    assert [each for each in admitted[1:] if each["key"] == "nvidia.com/gpu"] == tolerations(Gpu(count=1)) * added


# --- pods that are left alone -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_a_pod_of_a_node_is_left_alone(kind: str, team: Adopted) -> None:
    version = "apps/v1" if kind == "DaemonSet" else "v1"
    owner = {"apiVersion": version, "kind": kind, "name": "any", "uid": "3f1c2a9e-6b0d-4c57-9f5e-0a4d8c7b6e21"}

    assert adoption_of(team.admitted_with({"labels": WEB, "ownerReferences": [owner]})) == (None, None)


def test_a_pod_that_is_bound_already_is_left_alone(team: Adopted) -> None:
    assert adoption_of(team.admitted(WEB, nodeName="any")) == (None, None)


def test_a_pod_may_opt_out(team: Adopted) -> None:
    assert adoption_of(team.admitted({**WEB, ADOPT: "no"})) == (None, None)
    assert adoption_of(team.admitted({**WEB, ADOPT: "yes"})) == ("flexible", "web")


def test_a_pod_of_another_namespace_is_left_alone(team: Adopted) -> None:
    body = {"metadata": {"name": "pod", "labels": HUB}, "spec": {"containers": [CONTAINER]}}

    assert "ebbtide" not in str(team.plane.api.create(f"/api/v1/namespaces/{team.fresh.namespace()}/pods", body))


# --- second budgets ---------------------------------------------------------------------------------------------------


def warning(team: Adopted, selector: Json | None, labels: Mapping[str, str] | None = None) -> str:
    """What kubectl prints beside "created"; empty if that is all."""
    spec = {"maxUnavailable": 1, **({} if selector is None else {"selector": selector})}
    metadata = {"name": "second", "namespace": team.namespace, "labels": labels or {}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    arguments = ("create", "--dry-run=server", "--warnings-as-errors", "-f", "-")
    try:
        made = team.plane.kubectl(*arguments, stdin=str(budget).replace("'", '"'))
    except subprocess.CalledProcessError as error:
        made, shown = error.stdout, error.stderr
    else:
        shown = ""
    assert "second created" in made
    return shown


@pytest.mark.parametrize(
    ("selector", "rule"),
    [
        ({"matchLabels": {"app": "front", "release": "web"}}, "web"),
        ({"matchLabels": {"example.com/role": "instance"}}, "engine"),
        ({}, "engine"),
    ],
)
def test_a_second_budget_is_created_with_one_warning(selector: Json, rule: str, team: Adopted) -> None:
    (line,) = [line for line in warning(team, selector).splitlines() if line.startswith("Warning:")]

    assert f"ebbtide:adopted.{rule}" in line
    assert "switch it off" in line


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        ({"matchLabels": {"app": "other"}}, {}),
        ({"matchLabels": {"app": "engine", "example.com/role": "proxy"}}, {}),
        ({"matchLabels": {"tier": "web"}}, {}),
        (None, {}),
        ({"matchLabels": {"app": "hub"}}, {WORKLOAD: "hub"}),
    ],
)
def test_other_budgets_and_ours_are_created_without_a_word(
    selector: Json | None, labels: Mapping[str, str], team: Adopted
) -> None:
    assert warning(team, selector, labels) == ""
