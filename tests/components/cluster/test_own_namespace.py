"""A workload that starts pods: its namespace, rights and policies, and the rules of the pods that it starts."""

from datetime import date
from typing import Any

import pytest

from components.cluster.started_pods import validations
from ebbtide.operate.probe.facts import Right
from ebbtide.operate.probe.rights import rights_of
from ebbtide.policies.judging import judge
from ebbtide.recording.output import is_object
from ebbtide.settings import StackSettings, parse_stack
from ebbtide.vocabulary.labels import CLOSED_MINIMUM
from tests.builders.components import pod_of
from tests.builders.existing import stack_config
from tests.builders.recorded import record
from tests.builders.rights import RULES, hub, hub_stack
from tests.builders.stack import Recorded

OWN = "ebbtide-hub"
TODAY = date(2026, 11, 21)


@pytest.fixture(scope="module")
def stack() -> Recorded:
    return Recorded(record(hub_stack()))


def on_premises(**cluster: Any) -> StackSettings:
    config = {key: value for key, value in stack_config("demo").items() if key.startswith("ebbtide:")}
    for key in ("ebbtide:network", "ebbtide:nodeGroups", "ebbtide:costs"):
        config.pop(key, None)
    section = {"category": "fixed", "image": "hub:1", "cpu": 1, "memory": "1Gi", "kubernetes": {"rules": [*RULES]}}
    config |= {"ebbtide:cluster": {"kind": "existing", "context": "onprem", **cluster}}
    config["ebbtide:workloads"] = {**config["ebbtide:workloads"], "hub": section}
    return parse_stack(config, stack="demo", file="demo.yaml")


def test_all_that_it_has_is_in_its_own_namespace(stack: Recorded) -> None:
    placed = {r.type.rpartition(":")[2]: r.inputs["metadata"]["namespace"] for r in stack.all if r.name in (
        "hub-budget", "hub-account", "hub-deployment", "own-hub-role", "own-hub-binding",
    )}  # fmt: skip

    assert placed == dict.fromkeys(("PodDisruptionBudget", "ServiceAccount", "Deployment", "Role", "RoleBinding"), OWN)
    assert stack.named("api-deployment").inputs["metadata"]["namespace"] == "ebbtide"


def test_the_namespace_lets_restricted_pods_in_alone(stack: Recorded) -> None:
    labels = stack.named("own-hub-namespace").inputs["metadata"]["labels"]

    assert labels == stack.named("namespaces-system").inputs["metadata"]["labels"]


def test_nothing_is_open_in_it_but_by_a_policy_that_opens_it(stack: Recorded) -> None:
    there = [r.inputs for r in stack.of("NetworkPolicy") if r.inputs["metadata"]["namespace"] == OWN]
    closed = [policy["spec"] for policy in there if policy["metadata"]["name"] == "ebbtide-default-deny"]

    assert closed == [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]


def test_its_role_is_what_the_file_says_and_for_its_account_alone(stack: Recorded) -> None:
    rules = stack.named("own-hub-role").inputs["rules"]

    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in rules] == [
        (rule["groups"], rule["resources"], rule["verbs"]) for rule in RULES
    ]
    assert [rule.get("resourceNames") for rule in rules] == [None, ["hub-state"], None]
    binding = stack.named("own-hub-binding").inputs
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "hub", "namespace": OWN}]
    assert binding["roleRef"]["name"] == "hub"


def test_it_alone_holds_a_token(stack: Recorded) -> None:
    tokens = {r.name: pod_of(r).get("automountServiceAccountToken", "left out") for r in stack.of("Deployment")}

    assert tokens["hub-deployment"] is True
    assert (tokens["api-deployment"], tokens["reports-deployment"]) == (False, "left out")
    assert stack.named("hub-account").inputs["automountServiceAccountToken"] is False


def test_its_role_on_aws_is_for_its_own_namespace(stack: Recorded) -> None:
    assert stack.named("workload-hub-role-identity").inputs["namespace"] == OWN


def test_the_walls_and_the_admission_stand_before_it_starts(stack: Recorded) -> None:
    assert {"own-hub", "network-policies", "hub-account"} <= stack.before(stack.named("hub-deployment"))


def test_a_destroy_takes_the_workload_then_its_namespace_then_the_nodes(stack: Recorded) -> None:
    namespace = stack.named("own-hub-namespace")

    for name in ("hub-deployment", "hub-budget", "controller-closer-ebbtide-hub-role", "network-policies-of-hub"):
        assert namespace.name in stack.before(stack.named(name))
    assert any(r.urn in stack.urns_before(namespace) for r in stack.of("NodeGroup") if r.type.startswith("ebbtide:"))


def test_the_closer_may_close_its_budget_there(stack: Recorded) -> None:
    role = stack.named("controller-closer-ebbtide-hub-role").inputs
    subjects = stack.named("controller-closer-ebbtide-hub-binding").inputs["subjects"]

    assert role["metadata"]["namespace"] == OWN
    assert [(rule["resources"], rule["resourceNames"]) for rule in role["rules"]] == [
        (["poddisruptionbudgets"], ["hub", "hub-pods"])
    ]
    assert subjects == [{"kind": "ServiceAccount", "name": "ebbtide-closer", "namespace": "ebbtide"}]
    here = stack.named("controller-closer-role").inputs["rules"][0]["resourceNames"]
    assert "hub" not in here
    assert "api" in here


def test_what_it_starts_has_a_budget_that_is_closed_by_a_minimum(stack: Recorded) -> None:
    budget = stack.named("own-hub-budget").inputs

    assert (budget["metadata"]["namespace"], budget["metadata"]["name"]) == (OWN, "hub-pods")
    assert budget["spec"]["minAvailable"] == CLOSED_MINIMUM
    assert budget["spec"]["selector"] == {"matchLabels": {"ebbtide.dev/workload": "hub-pods"}}


def test_such_a_stack_breaks_no_rule() -> None:
    settings = hub_stack()

    assert judge(settings, record(settings), TODAY) == ()


def test_an_open_namespace_of_such_a_workload_is_found() -> None:
    settings = hub_stack()
    resources = record(settings)
    for resource in resources:
        if resource.name == "own-hub-namespace":
            del resource.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]

    assert {result.code for result in judge(settings, resources, TODAY)} == {"EB028"}


def test_the_rights_that_it_takes_on_an_existing_cluster_are_asked_about() -> None:
    settings = on_premises()
    asked = set(rights_of(record(settings)))
    made = [r for r in record(settings) if is_object(r) and r.inputs["metadata"].get("namespace") == OWN]

    kinds = {"Role": "roles", "RoleBinding": "rolebindings", "NetworkPolicy": "networkpolicies"}
    kinds |= {"PodDisruptionBudget": "poddisruptionbudgets", "Deployment": "deployments"}
    kinds |= {"ServiceAccount": "serviceaccounts"}
    assert {kinds[r.inputs["kind"]] for r in made} <= {r.resource for r in asked if r.namespace == OWN}
    assert Right("create", "batch", "jobs", OWN) in asked


# --- the pods that it starts ------------------------------------------------------------------------------------------


def asks_for_nodes(settings: StackSettings) -> list[str]:
    policy = Recorded(record(settings)).named("own-hub-started-policy").inputs["spec"]
    return [rule["message"] for rule in policy["validations"] if "nodeSelector" in rule["expression"]]


def test_they_choose_flexible_or_gpu_nodes_in_the_words_of_the_clusters_owner() -> None:
    named = on_premises(nodeSelectors={"flexible": {"pool": "batch", "tier": "b"}, "fixed": {"pool": "services"}})

    assert asks_for_nodes(hub_stack()) == [
        "Ebbtide: a nodeSelector is needed with ebbtide.dev/node-kind: flexible or ebbtide.dev/node-kind: gpu"
    ]
    assert asks_for_nodes(named) == ["Ebbtide: a nodeSelector is needed with pool: batch, tier: b"]
    assert asks_for_nodes(on_premises()) == []
    assert asks_for_nodes(on_premises(nodeSelectors={"gpu": {"pool": "gpu"}})) == []  # flexible ones may be any


def test_the_policies_of_two_such_workloads_are_two() -> None:
    found = Recorded(record(hub_stack(workloads={"hub": hub(), "runs": hub()})))

    names = [r.inputs["metadata"]["name"] for r in found.of("ValidatingAdmissionPolicy")]
    assert {"ebbtide-started-by-hub", "ebbtide-started-by-runs"} <= set(names)
    assert len(set(names)) == len(names)


def test_each_refusal_says_what_is_wanted() -> None:
    messages = [rule.get("message", "") for rule in validations("hub", [{"a": "b"}])]

    assert len(messages) == 5
    assert any(
        "ebbtide.dev/workload: hub-pods and ebbtide.dev/category: worker" in message for message in map(str, messages)
    )
