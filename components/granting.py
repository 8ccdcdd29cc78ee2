"""Rights of one account, in one namespace or in the entire cluster: a role and a binding of the same name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict


def grant(
    resource_name: str,
    name: str,
    where: pulumi.Input[str],
    rules: "Sequence[PolicyRuleArgsDict]",
    *,
    account: str = "",
    home: pulumi.Input[str] | None = None,
    parent: pulumi.Resource,
) -> tuple[Role, RoleBinding]:
    """Grant the rules in the namespace `where`. `account` defaults to `name`, and its namespace `home` to `where`."""
    opts = pulumi.ResourceOptions(parent=parent)
    metadata: ObjectMetaArgsDict = {"name": name, "namespace": where}
    role = Role(f"{resource_name}-role", metadata=metadata, rules=rules, opts=opts)
    binding = RoleBinding(
        f"{resource_name}-binding",
        metadata=metadata,
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": account or name, "namespace": where if home is None else home}],
        opts=opts,
    )
    return role, binding


def grant_everywhere(
    resource_name: str,
    name: str,
    rules: "Sequence[PolicyRuleArgsDict]",
    *,
    home: pulumi.Input[str],
    parent: pulumi.Resource,
) -> tuple[ClusterRole, ClusterRoleBinding]:
    """Grant the rules to the account `name` of the namespace `home`."""
    opts = pulumi.ResourceOptions(parent=parent)
    role = ClusterRole(f"{resource_name}-role", metadata={"name": name}, rules=rules, opts=opts)
    binding = ClusterRoleBinding(
        f"{resource_name}-binding",
        metadata={"name": name},
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": home}],
        opts=opts,
    )
    return role, binding
