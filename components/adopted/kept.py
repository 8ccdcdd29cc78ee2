"""Admission policies that keep the controller's number in an object of the team: `pool.replicas: kept`, `budget`.

**Replicas.** A manifest with `replicas` sets its number at each apply, and so does a client-side apply of one from
which the line was just removed: workers above that number would be stopped. The policy replaces the number by the
present one whenever a client updates the Deployment. The controller and `kubectl scale` write another resource,
`deployments/scale`, and pass.

An applier then owns the field with the controller's number. To the controller that is no conflict, since the number is
the same (controllers/adapters/replica_writers.py).

**A chart's budget.** Its manifest has `minAvailable`, or a number that is open by day. The policy takes `minAvailable`
out of every write, since no budget may have both fields, and keeps the present `maxUnavailable`: 0 for a new object.
Only the controller and the closer write another one; both are limited by `components.controller.admission`.
"""

from collections.abc import Mapping

import pulumi

from components.admission_policy import mutate, on
from components.adopted.cel import adopted_namespaces, one_of
from ebbtide.settings.sections.adopted import AdoptedSettings, Replicas, deployment_of
from ebbtide.vocabulary.labels import CLOSER, CONTROLLER, NAMESPACE

POLICY, BUDGETS_POLICY = "ebbtide-kept-replicas", "ebbtide-kept-budgets"
"""Names of the policies and of their bindings."""

_OBJECT = 'request.namespace + "/" + object.metadata.name'
_OURS = one_of(
    "request.userInfo.username", [f"system:serviceaccount:{NAMESPACE}:{name}" for name in (CLOSER, CONTROLLER)]
)
_KEEP_REPLICAS = '[JSONPatch{op: "replace", path: "/spec/replicas", value: oldObject.spec.replicas}]'
_KEEP_BUDGET = f"""(object.spec.?minAvailable.hasValue() ? [JSONPatch{{op: "remove", path: "/spec/minAvailable"}}] : [])
+ ({_OURS} && object.spec.?maxUnavailable.hasValue() ? [] :
  [JSONPatch{{op: "add", path: "/spec/maxUnavailable",
    value: oldObject == null ? 0 : oldObject.spec.?maxUnavailable.orValue(0)}}])"""


def keep_replicas(name: str, rules: Mapping[str, AdoptedSettings], parent: pulumi.Resource) -> None:
    """Create the policy and its binding, if a rule asks for them."""
    names = sorted(
        f"{rule.namespace}/{deployment_of(rule_name, rule)}"
        for rule_name, rule in rules.items()
        if rule.pool is not None and rule.pool.replicas is Replicas.KEPT
    )
    if names:
        mutate(
            (f"{name}-replicas-policy", f"{name}-replicas-binding"),
            POLICY,
            {**on("apps", "deployments", ["UPDATE"]), **adopted_namespaces(rules)},
            _KEEP_REPLICAS,
            conditions=[
                {"name": "of-a-pool", "expression": one_of(_OBJECT, names)},
                {"name": "another-number", "expression": "object.spec.?replicas != oldObject.spec.?replicas"},
            ],
            parent=parent,
        )


def keep_budgets(name: str, rules: Mapping[str, AdoptedSettings], parent: pulumi.Resource) -> None:
    """Create the policy for budgets of charts and its binding, if a rule names one."""
    if any(rule.budget for rule in rules.values()):
        mutate(
            (f"{name}-kept-budgets-policy", f"{name}-kept-budgets-binding"),
            BUDGETS_POLICY,
            {**on("policy", "poddisruptionbudgets", ["CREATE", "UPDATE"]), **adopted_namespaces(rules)},
            _KEEP_BUDGET,
            conditions=[{"name": "of-a-rule", "expression": is_kept(rules)}],
            parent=parent,
        )


def is_kept(rules: Mapping[str, AdoptedSettings]) -> str:
    """Return a condition on a budget: a rule names it. At least one does."""
    return one_of(_OBJECT, sorted(f"{rule.namespace}/{rule.budget}" for rule in rules.values() if rule.budget))
