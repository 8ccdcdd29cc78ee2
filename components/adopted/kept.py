"""An admission policy that keeps the replicas of adopted pools: `pool.replicas: kept`.

A manifest with `replicas` sets its number at each apply, and so does a client-side apply of one from which the line was
just removed: workers above that number would be stopped. The policy replaces the number by the present one whenever a
client updates the Deployment. The controller and `kubectl scale` write another resource, `deployments/scale`, and pass.

An applier then owns the field with the controller's number. To the controller that is no conflict, since the number is
the same (controllers/adapters/replica_writers.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pulumi

from components.admission_policy import mutate, on
from components.adopted.cel import adopted_namespaces, one_of
from ebbtide.settings.sections.adopted import AdoptedSettings, Replicas, deployment_of

if TYPE_CHECKING:
    from pulumi_kubernetes.admissionregistration.v1 import MutatingAdmissionPolicySpecArgsDict

POLICY = "ebbtide-kept-replicas"
"""Name of the policy and of its binding."""

_KEEP = "Object{spec: Object.spec{replicas: oldObject.spec.replicas}}"


def keep_replicas(name: str, rules: Mapping[str, AdoptedSettings], parent: pulumi.Resource) -> None:
    """Create the policy and its binding, if a rule asks for them."""
    kept = {
        rule_name: rule
        for rule_name, rule in rules.items()
        if rule.pool is not None and rule.pool.replicas is Replicas.KEPT
    }
    if kept:
        mutate((f"{name}-replicas-policy", f"{name}-replicas-binding"), POLICY, policy_spec(kept), parent=parent)


def policy_spec(rules: Mapping[str, AdoptedSettings]) -> "MutatingAdmissionPolicySpecArgsDict":
    """Return the policy for at least one rule with a pool. An error lets the write pass with its own number."""
    names = sorted(f"{rule.namespace}/{deployment_of(name, rule)}" for name, rule in rules.items())
    return {
        "failure_policy": "Ignore",
        "reinvocation_policy": "IfNeeded",
        "match_constraints": {**on("apps", "deployments", ["UPDATE"]), **adopted_namespaces(rules)},
        "match_conditions": [
            {"name": "of-a-pool", "expression": one_of('request.namespace + "/" + request.name', names)},
            {"name": "another-number", "expression": "object.spec.?replicas != oldObject.spec.?replicas"},
        ],
        "mutations": [{"patch_type": "ApplyConfiguration", "apply_configuration": {"expression": _KEEP}}],
    }
