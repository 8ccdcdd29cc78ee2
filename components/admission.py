"""What the controller may change within the objects that it may change at all.

Rights stop at the object: whoever may patch a pod may relabel it out of its budget, and whoever may patch a budget may
set it to "100%". Two admission policies stop at the field. They bind the controller's and the closer's accounts and
nobody else; the closer may only close. They fail closed: where one cannot be evaluated, the write is refused and the
controller holds.

The expressions are CEL. `has` guards every optional field, since reading an absent one is an error, and an error is a
refusal.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding

from ebbtide.vocabulary.labels import DELETION_COST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulumi_kubernetes.admissionregistration.v1 import ValidationArgsDict

_COST = f"'{DELETION_COST}'"


def _unchanged(field: str) -> str:
    """Both sides lack the field, or both have the same."""
    now, before = f"object.{field}", f"oldObject.{field}"
    return f"has({now}) ? (has({before}) && {now} == {before}) : !has({before})"


_BINDINGS = ("metadata.labels", "metadata.finalizers", "metadata.ownerReferences")

POD_VARIABLES = {
    "now": "has(object.metadata.annotations) ? object.metadata.annotations : {}",
    "before": "has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}",
}
POD_RULES = {
    **{_unchanged(field): f"{field} must stay as it is" for field in _BINDINGS},
    "object.spec == oldObject.spec": "spec must stay as it is",
    f"variables.now.all(k, k == {_COST} || (k in variables.before && variables.now[k] == variables.before[k]))": (
        "only the deletion cost may be annotated"
    ),
    f"variables.before.all(k, k == {_COST} || k in variables.now)": "only the deletion cost may be removed",
}
BUDGET_RULES = {
    **{_unchanged(field): f"{field} must stay as it is" for field in (*_BINDINGS, "metadata.annotations")},
    **{
        _unchanged(field): f"{field} must stay as it is"
        for field in ("spec.selector", "spec.minAvailable", "spec.unhealthyPodEvictionPolicy")
    },
    "has(object.spec.maxUnavailable) && (object.spec.maxUnavailable == 0 || object.spec.maxUnavailable == 1)": (
        "maxUnavailable must be 0 or 1"
    ),
}


@dataclass(frozen=True, kw_only=True)
class AdmissionArgs:
    namespace: pulumi.Input[str]  # of the accounts
    controller: str  # names of service accounts
    closer: str


class Admission(pulumi.ComponentResource):
    def __init__(self, name: str, args: AdmissionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Admission", name, None, opts)
        self._policy(name, args, "pods", "", [args.controller])
        self._policy(name, args, "poddisruptionbudgets", "policy", [args.controller, args.closer])
        self.register_outputs({})

    def _policy(self, name: str, args: AdmissionArgs, resource: str, group: str, accounts: "Sequence[str]") -> None:
        policy_name = f"ebbtide-{resource}"
        variables = POD_VARIABLES if resource == "pods" else {}
        rules = POD_RULES if resource == "pods" else BUDGET_RULES
        users = [_user(args.namespace, account) for account in accounts]
        ours = pulumi.Output.all(*users).apply(lambda names: f"request.userInfo.username in [{', '.join(names)}]")
        policy = ValidatingAdmissionPolicy(
            f"{name}-{resource}",
            metadata={"name": policy_name},
            spec={
                "failure_policy": "Fail",
                "match_constraints": {
                    "resource_rules": [
                        {
                            "api_groups": [group],
                            "api_versions": ["v1"],
                            "operations": ["UPDATE"],
                            "resources": [resource],
                        }
                    ]
                },
                "match_conditions": [{"name": "written-by-ebbtide", "expression": ours}],
                "variables": [{"name": key, "expression": expression} for key, expression in variables.items()],
                "validations": [*_validations(rules), *_only_closes(args, resource)],
            },
            opts=pulumi.ResourceOptions(parent=self),
        )
        ValidatingAdmissionPolicyBinding(
            f"{name}-{resource}-binding",
            metadata={"name": policy_name},
            spec={"policy_name": policy_name, "validation_actions": ["Deny"]},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )


def _user(namespace: pulumi.Input[str], account: str) -> pulumi.Output[str]:
    return pulumi.Output.concat("'system:serviceaccount:", namespace, f":{account}'")


def _only_closes(args: AdmissionArgs, resource: str) -> "list[ValidationArgsDict]":
    if resource == "pods":
        return []
    closer = _user(args.namespace, args.closer)
    closes = pulumi.Output.concat("request.userInfo.username != ", closer, " || object.spec.maxUnavailable == 0")
    return [{"expression": closes, "message": "Ebbtide's closer: maxUnavailable must be 0"}]


def _validations(rules: dict[str, str]) -> "list[ValidationArgsDict]":
    return [
        {"expression": expression, "message": f"Ebbtide's own accounts: {message}"}
        for expression, message in rules.items()
    ]
