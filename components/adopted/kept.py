"""Admission policies that keep a controller's number in a team's object: `pool.replicas: kept`,
`sleep.scale.replicas: kept`, `budget`.

**Replicas.** Each apply of a manifest with `replicas` resets the number. So does a client-side apply of a manifest from
which `replicas` was just removed. Workers above the new number would be stopped. Whenever a client updates the
Deployment or StatefulSet, the policy restores the present number. The controllers and `kubectl scale` write another
resource, `deployments/scale`, which the policy does not match. The policy ignores objects that an operator owns: the
operator sets their number, and the workload controller never lets such an object sleep.

The applier then owns the field, with the controller's number. The controller sees no conflict, since the number is the
same (controllers/adapters/replica_writers.py).

**A chart's budget.** The chart's manifest sets `minAvailable`, or a `maxUnavailable` that is open by day. The policy
removes `minAvailable` from every write, since a budget may not have both fields, and keeps the present
`maxUnavailable`; a new object gets 0. Only the controller and the closer may write another number, within the limits of
`components.controller.admission`.
"""

from collections.abc import Mapping, Sequence

import pulumi

from components.admission_policy import mutate, on
from components.adopted.cel import adopted_namespaces, one_of, text
from ebbtide.settings.sections.adopted import AdoptedSettings, Replicas, ScaledKind, deployment_of
from ebbtide.vocabulary.labels import CLOSER, CONTROLLER, NAMESPACE

POLICY, BUDGETS_POLICY = "ebbtide-kept-replicas", "ebbtide-kept-budgets"
"""Names of the policies and of their bindings."""

_RESOURCES = {ScaledKind.DEPLOYMENT: "deployments", ScaledKind.STATEFUL_SET: "statefulsets"}
_OBJECT = 'request.namespace + "/" + object.metadata.name'
_OURS = one_of(
    "request.userInfo.username", [f"system:serviceaccount:{NAMESPACE}:{name}" for name in (CLOSER, CONTROLLER)]
)
_OWNED = "object.metadata.?ownerReferences.orValue([]).size() > 0"
_KEEP_REPLICAS = '[JSONPatch{op: "replace", path: "/spec/replicas", value: oldObject.spec.replicas}]'
_KEEP_BUDGET = f"""(object.spec.?minAvailable.hasValue() ? [JSONPatch{{op: "remove", path: "/spec/minAvailable"}}] : [])
+ ({_OURS} && object.spec.?maxUnavailable.hasValue() ? [] :
  [JSONPatch{{op: "add", path: "/spec/maxUnavailable",
    value: oldObject == null ? 0 : oldObject.spec.?maxUnavailable.orValue(0)}}])"""


def keep_replicas(name: str, rules: Mapping[str, AdoptedSettings], parent: pulumi.Resource) -> None:
    """Create the policy and its binding, if a rule has `pool.replicas: kept` or `sleep.scale.replicas: kept`."""
    pools = sorted(
        f"{rule.namespace}/{deployment_of(rule_name, rule)}"
        for rule_name, rule in rules.items()
        if rule.pool is not None and rule.pool.replicas is Replicas.KEPT
    )
    sleepers = {
        resource: sorted(
            f"{rule.namespace}/{rule.sleep.scale.name}"
            for rule in rules.values()
            if rule.sleep is not None and rule.sleep.keeps and rule.sleep.scale.kind is kind
        )
        for kind, resource in _RESOURCES.items()
    }
    kept = [_is_kept(_RESOURCES[ScaledKind.DEPLOYMENT], pools)] if pools else []
    kept += [f"{_is_kept(resource, names)} && !({_OWNED})" for resource, names in sleepers.items() if names]
    if kept:
        resources = [resource for resource, names in sleepers.items() if names or (pools and resource == "deployments")]
        mutate(
            (f"{name}-replicas-policy", f"{name}-replicas-binding"),
            POLICY,
            {**on("apps", resources, ["UPDATE"]), **adopted_namespaces(rules)},
            _KEEP_REPLICAS,
            conditions=[
                {"name": "of-a-rule", "expression": " || ".join(f"({condition})" for condition in kept)},
                {"name": "another-number", "expression": "object.spec.?replicas != oldObject.spec.?replicas"},
            ],
            parent=parent,
        )


def _is_kept(resource: str, names: Sequence[str]) -> str:
    return f"request.resource.resource == {text(resource)} && {one_of(_OBJECT, names)}"


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
