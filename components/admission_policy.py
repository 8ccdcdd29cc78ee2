"""An admission policy and its binding. It refuses a write, warns of one, or changes it."""

from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulumi_kubernetes.admissionregistration.v1 import (
        MatchConditionArgsDict,
        MatchResourcesArgsDict,
        MutatingAdmissionPolicySpecArgsDict,
        NamedRuleWithOperationsArgsDict,
        ValidatingAdmissionPolicySpecArgsDict,
        ValidationArgsDict,
        VariableArgsDict,
    )


def enforce(
    names: tuple[str, str],  # Pulumi's names of the policy and its binding
    policy_name: str,
    match: "MatchResourcesArgsDict",
    validations: "Sequence[ValidationArgsDict]",
    *,
    conditions: "Sequence[MatchConditionArgsDict]" = (),
    variables: "Sequence[VariableArgsDict] | None" = None,
    parent: pulumi.Resource,
) -> None:
    """Refuse a write that violates a rule or that the policy cannot evaluate.

    Create no policy without rules: the API server refuses an empty list of validations.
    """
    if not validations:
        return
    spec: ValidatingAdmissionPolicySpecArgsDict = {
        "failure_policy": "Fail",
        "match_constraints": match,
        "validations": list(validations),
    }
    if conditions:
        spec["match_conditions"] = list(conditions)
    if variables is not None:
        spec["variables"] = list(variables)
    _create(names, policy_name, spec, action="Deny", parent=parent)


def warn(
    names: tuple[str, str],  # as for `enforce`
    policy_name: str,
    match: "MatchResourcesArgsDict",
    validation: "ValidationArgsDict",
    *,
    condition: "MatchConditionArgsDict",
    variables: "Sequence[VariableArgsDict]",
    parent: pulumi.Resource,
) -> None:
    """Send a warning to the client of a write that violates the rule. A write that cannot be evaluated passes."""
    spec: ValidatingAdmissionPolicySpecArgsDict = {
        "failure_policy": "Ignore",
        "match_constraints": match,
        "match_conditions": [condition],
        "validations": [validation],
        "variables": list(variables),
    }
    _create(names, policy_name, spec, action="Warn", parent=parent)


def mutate(
    names: tuple[str, str],  # as for `enforce`
    policy_name: str,
    spec: "MutatingAdmissionPolicySpecArgsDict",
    *,
    parent: pulumi.Resource,
) -> MutatingAdmissionPolicy:
    policy, binding = names
    created = MutatingAdmissionPolicy(
        policy, metadata={"name": policy_name}, spec=spec, opts=pulumi.ResourceOptions(parent=parent)
    )
    MutatingAdmissionPolicyBinding(
        binding,
        metadata={"name": policy_name},
        spec={"policy_name": policy_name},
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[created]),
    )
    return created


def _create(
    names: tuple[str, str],
    policy_name: str,
    spec: "ValidatingAdmissionPolicySpecArgsDict",
    *,
    action: str,
    parent: pulumi.Resource,
) -> None:
    policy, binding = names
    created_policy = ValidatingAdmissionPolicy(
        policy, metadata={"name": policy_name}, spec=spec, opts=pulumi.ResourceOptions(parent=parent)
    )
    ValidatingAdmissionPolicyBinding(
        binding,
        metadata={"name": policy_name},
        spec={"policy_name": policy_name, "validation_actions": [action]},
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[created_policy]),
    )


def on(
    group: str,
    resource: str,
    operations: "Sequence[str]",
    namespace: pulumi.Input[str] | None = None,
    *,
    version: str = "v1",
) -> "MatchResourcesArgsDict":
    """Match one version of a resource, in a namespace or in all."""
    rule: NamedRuleWithOperationsArgsDict = {
        "api_groups": [group],
        "api_versions": [version],
        "operations": [*operations],
        "resources": [resource],
    }
    match: MatchResourcesArgsDict = {"resource_rules": [rule]}
    if namespace is not None:
        match["namespace_selector"] = {"match_labels": {"kubernetes.io/metadata.name": namespace}}
    return match
