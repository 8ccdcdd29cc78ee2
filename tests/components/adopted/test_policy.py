"""The text of the admission policy for adopted pods; the control-plane tests evaluate it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.adopted import cel
from ebbtide.settings import StackSettings
from tests.builders.adoption import policies, stack_with

HUB = {"selector": {"app": "hub"}, "category": "fixed"}
WEB = {"selector": {"app": ["web", "front"], "tier": "1"}}
NOTEBOOK = {"namespace": "jupyter", "selector": {"component": "user"}, "category": "worker"}
MODEL = {"selector": {"app": "model"}, "gpu": 1}


def rendered(stack: StackSettings, **sets: dict[str, str]) -> tuple[dict[str, str], str]:
    """The variables and the patches."""
    spec: Any = policies(stack.adopted, sets or None)[0]["spec"]
    variables = {variable["name"]: variable["expression"] for variable in spec["variables"]}
    return variables, spec["mutations"][0]["jsonPatch"]["expression"]


def test_one_policy_and_its_binding_hold_all_rules() -> None:
    objects = policies(stack_with(hub=HUB, web=WEB, user=NOTEBOOK).adopted)

    assert [(item["kind"], item["metadata"]["name"]) for item in objects] == [
        ("MutatingAdmissionPolicy", "ebbtide-adopt"),
        ("MutatingAdmissionPolicyBinding", "ebbtide-adopt"),
        ("ValidatingAdmissionPolicy", "ebbtide-second-budgets"),
        ("ValidatingAdmissionPolicyBinding", "ebbtide-second-budgets"),
    ]


def test_an_existing_cluster_is_told_the_version_beside_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    def info(line: str, _: object) -> None:
        lines.append(line)

    monkeypatch.setattr("pulumi.log.info", info)
    rules = stack_with(hub=HUB).adopted
    policies(rules)
    assert lines == []

    policies(rules, {})

    assert lines == ["ebbtide:adopted needs Kubernetes 1.36 or later; ebbtide probe checks the cluster"]


def test_an_error_never_keeps_a_pod_of_a_team_from_being_created() -> None:
    adoption, _, budgets, warning = policies(stack_with(hub=HUB).adopted)

    assert (adoption["spec"]["failurePolicy"], budgets["spec"]["failurePolicy"]) == ("Ignore", "Ignore")
    assert warning["spec"]["validationActions"] == ["Warn"]


def test_only_namespaces_of_rules_are_matched() -> None:
    adoption, _, budgets, _ = policies(stack_with(hub=HUB, user=NOTEBOOK).adopted)

    (names,) = adoption["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert names == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["jupyter", "team"]}
    assert budgets["spec"]["matchConstraints"]["namespaceSelector"] == {"matchExpressions": [names]}


def test_a_rule_is_its_namespace_and_all_its_labels() -> None:
    variables, _ = rendered(stack_with(web=WEB))

    assert variables["is_web"] == (
        'request.namespace == "team" && "app" in variables.labels && variables.labels["app"] in ["front", "web"]'
        ' && "tier" in variables.labels && variables.labels["tier"] == "1"'
    )


def test_the_order_of_rules_in_the_file_changes_nothing() -> None:
    one, other = stack_with(web=WEB, hub=HUB, user=NOTEBOOK), stack_with(user=NOTEBOOK, hub=HUB, web=WEB)

    assert policies(one.adopted) == policies(other.adopted)


def test_each_rule_has_its_category_and_its_nodes() -> None:
    variables, _ = rendered(stack_with(hub=HUB, web=WEB, user=NOTEBOOK, model=MODEL))

    assert variables["category"].splitlines() == [
        'variables.rule == "hub" ? "fixed" :',
        'variables.rule in ["model", "web"] ? "flexible" :',
        'variables.rule == "user" ? "worker" :',
        '""',
    ]
    assert variables["nodes"].splitlines() == [
        'variables.rule == "hub" ? {"ebbtide.dev/node-kind": "fixed"} :',
        'variables.rule == "model" ? {"ebbtide.dev/node-kind": "gpu"} :',
        'variables.rule in ["user", "web"] ? {"ebbtide.dev/node-kind": "flexible"} :',
        "{}",
    ]


def test_on_an_existing_cluster_nodes_have_their_owners_labels() -> None:
    variables, _ = rendered(stack_with(hub=HUB, web=WEB), fixed={"pool": "core", "zone": "a"})

    assert variables["nodes"].splitlines() == [
        'variables.rule == "hub" ? {"pool": "core", "zone": "a"} :',
        'variables.rule == "web" ? {} :',
        "{}",
    ]


def test_only_pods_on_fixed_nodes_may_preempt() -> None:
    _, patches = rendered(stack_with(hub=HUB, model={**MODEL, "category": "fixed"}))

    assert 'variables.rule == "hub" && !variables.selectsOthers && object.spec.?priorityClassName' in patches
    assert 'variables.rule in ["hub", "model"] && !variables.apart' in patches


def test_patches_that_no_rule_needs_are_left_out() -> None:
    _, patches = rendered(stack_with(web=WEB))
    assert not re.search("priority|podAntiAffinity|tolerations", patches)

    assert "podAffinity" not in rendered(stack_with(hub=HUB))[1]
    assert "topologySpread" not in rendered(stack_with(user=NOTEBOOK))[1]


def test_a_single_expression_never_holds_the_selectors_of_two_rules() -> None:
    """The API server compiles a long expression for seconds, and refuses one above 100,000 characters."""
    rules = {f"r{number}": {"selector": {"app": [f"a{number}", f"b{number}"]}} for number in range(100)}
    variables, _ = rendered(stack_with(**rules))

    assert max(len(re.findall(r'"a\d+"', expression)) for expression in variables.values()) == 1


@given(st.text())
def test_a_quoted_text_stays_one_text(value: str) -> None:
    quoted = cel.text(value)

    assert json.loads(quoted) == value
    assert re.fullmatch(r'"([^"\\\x00-\x1f]|\\(["\\bfnrt]|u[0-9a-f]{4}))*"', quoted)
    assert not re.search(r"\\ud[89a-f]", quoted)  # half a character to CEL
