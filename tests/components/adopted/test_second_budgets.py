"""The text of the warning for second budgets; the control-plane tests evaluate it."""

from tests.builders.adoption import policies, stack_with


def test_a_budget_with_our_labels_is_not_looked_at() -> None:
    *_, policy, _ = policies(stack_with(hub={"selector": {"component": "hub"}}).adopted)

    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == '!("ebbtide.dev/workload" in object.metadata.?labels.orValue({}))'


def test_a_label_that_the_budget_lacks_is_no_contradiction() -> None:
    *_, policy, _ = policies(stack_with(web={"selector": {"app": ["web", "front"], "tier": "1"}}).adopted)

    expressions = {variable["name"]: variable["expression"] for variable in policy["spec"]["variables"]}
    assert expressions["is_web"] == (
        'request.namespace == "team" && (variables.selectsAll || '
        'variables.labels.exists(k, k in ["app", "tier"]) && '
        'variables.labels[?"app"].orValue("front") in ["front", "web"] && '
        'variables.labels[?"tier"].orValue("1") == "1")'
    )
