"""A warning for a second budget over adopted pods.

Kubernetes refuses every eviction of a pod that two budgets select, whatever they allow. The policy therefore warns the
client that writes a budget whose labels may select the pods of a rule. The write succeeds.

Only `matchLabels` are compared, since CEL cannot compare selectors. The client gets a warning if the budget shares a
label with the rule and contradicts none, or if it selects all pods. `ebbtide probe` compares the pods themselves.
"""

from collections.abc import Mapping

import pulumi

from components.admission_policy import enforce, on
from components.adopted.cel import adopted_namespaces, one_of, rule_variables, text, texts
from components.adopted.kept import is_kept
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.vocabulary.labels import WORKLOAD

POLICY = "ebbtide-second-budgets"
"""Name of the policy and of its binding."""

_LABELS, _EXPRESSIONS = (f"object.spec.?selector.?{field}.orValue" for field in ("matchLabels", "matchExpressions"))


def warn_of_second_budgets(name: str, rules: Mapping[str, AdoptedSettings], parent: pulumi.Resource) -> None:
    ours = f"{text(WORKLOAD)} in object.metadata.?labels.orValue({{}})"
    if any(rule.budget for rule in rules.values()):
        ours = f"{ours} || {is_kept(rules)}"
    enforce(
        (f"{name}-budgets-policy", f"{name}-budgets-binding"),
        POLICY,
        {**on("policy", "poddisruptionbudgets", ["CREATE", "UPDATE"]), **adopted_namespaces(rules)},
        [{"expression": 'variables.rule == ""', "message_expression": _MESSAGE}],
        conditions=[{"name": "not-ours", "expression": f"!({ours})"}],
        warns=True,
        variables=[
            {"name": "labels", "expression": f"{_LABELS}({{}})"},
            {
                "name": "selectsAll",
                "expression": "object.spec.?selector.hasValue() && variables.labels.size() == 0 "
                f"&& {_EXPRESSIONS}([]).size() == 0",
            },
            *rule_variables({rule_name: _may_select(rule) for rule_name, rule in rules.items()}),
        ],
        parent=parent,
    )


def _may_select(rule: AdoptedSettings) -> str:
    """Return a condition on a budget. A label that the budget does not name counts as allowed by the rule."""
    shared = f"variables.labels.exists(k, k in {texts(sorted(rule.selector))})"
    agreeing = [
        one_of(f"variables.labels[?{text(key)}].orValue({text(values[0])})", values)
        for key, values in sorted(rule.selector.items())
    ]
    return (
        f"{one_of('request.namespace', [rule.namespace])} "
        f"&& (variables.selectsAll || {shared} && {' && '.join(agreeing)})"
    )


_MESSAGE = (
    '"Ebbtide has a budget for the pods of ebbtide:adopted." + variables.rule + ". If this budget selects them too, '
    "Kubernetes refuses every eviction: switch it off where it comes from (a chart: pdb.enabled: false, "
    'CloudNativePG: enablePDB: false)"'
)
