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
    warns: bool = False,
    parent: pulumi.Resource,
) -> None:
    """Refuse a write that violates a rule or that the policy cannot evaluate; with `warns` send a warning instead.

    Create no policy without rules: the API server refuses an empty list of validations.
    """
    if not validations:
        return
    spec: ValidatingAdmissionPolicySpecArgsDict = {
        "failure_policy": "Ignore" if warns else "Fail",
        "match_constraints": match,
        "validations": list(validations),
    }
    if conditions:
        spec["match_conditions"] = list(conditions)
    if variables is not None:
        spec["variables"] = list(variables)
    policy, binding = names
    created = ValidatingAdmissionPolicy(
        policy, metadata={"name": policy_name}, spec=spec, opts=pulumi.ResourceOptions(parent=parent)
    )
    ValidatingAdmissionPolicyBinding(
        binding,
        metadata={"name": policy_name},
        spec={"policy_name": policy_name, "validation_actions": ["Warn" if warns else "Deny"]},
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[created]),
    )


def mutate(
    names: tuple[str, str],  # as for `enforce`
    policy_name: str,
    match: "MatchResourcesArgsDict",
    patches: str,
    *,
    conditions: "Sequence[MatchConditionArgsDict]",
    variables: "Sequence[VariableArgsDict]" = (),
    parent: pulumi.Resource,
) -> MutatingAdmissionPolicy:
    """Change a write with JSON patches, a CEL expression. A write that the policy cannot evaluate passes unchanged."""
    spec: MutatingAdmissionPolicySpecArgsDict = {
        "failure_policy": "Ignore",
        "reinvocation_policy": "IfNeeded",
        "match_constraints": match,
        "match_conditions": list(conditions),
        "mutations": [{"patch_type": "JSONPatch", "json_patch": {"expression": patches}}],
    }
    if variables:
        spec["variables"] = list(variables)
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


def on(
    group: str,
    resource: "str | Sequence[str]",
    operations: "Sequence[str]",
    namespace: pulumi.Input[str] | None = None,
    *,
    version: str = "v1",
) -> "MatchResourcesArgsDict":
    """Match one version of a resource, or of several, in `namespace` or, without it, in all namespaces."""
    rule: NamedRuleWithOperationsArgsDict = {
        "api_groups": [group],
        "api_versions": [version],
        "operations": [*operations],
        "resources": [resource] if isinstance(resource, str) else [*resource],
    }
    match: MatchResourcesArgsDict = {"resource_rules": [rule]}
    if namespace is not None:
        match["namespace_selector"] = {"match_labels": {"kubernetes.io/metadata.name": namespace}}
    return match
