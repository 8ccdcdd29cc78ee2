"""Admission policies that keep the controller's number in a team's object: `pool.replicas: kept`, `budget`.

**Replicas.** Each apply of a manifest with `replicas` resets the number. So does a client-side apply of a manifest from
which `replicas` was just removed. Workers above the new number would be stopped. Whenever a client updates the
Deployment, the policy restores the present number. The controller and `kubectl scale` write another resource,
`deployments/scale`, which the policy does not match.

The applier then owns the field, with the controller's number. The controller sees no conflict, since the number is the
same (controllers/adapters/replica_writers.py).

**A chart's budget.** The chart's manifest sets `minAvailable`, or a `maxUnavailable` that is open by day. The policy
removes `minAvailable` from every write, since a budget may not have both fields, and keeps the present
`maxUnavailable`; a new object gets 0. Only the controller and the closer may write another number, within the limits of
`components.controller.admission`.
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
    """Create the policy and its binding, if a rule has `pool.replicas: kept`."""
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
    """Create the policy for charts' budgets and its binding, if a rule names a budget."""
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
    """Return a condition on a budget: a rule names it. At least one rule must have a `budget`."""
    return one_of(_OBJECT, sorted(f"{rule.namespace}/{rule.budget}" for rule in rules.values() if rule.budget))
