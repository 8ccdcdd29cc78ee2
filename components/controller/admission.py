"""Admission policies that limit which fields the controller and the closer may change.

RBAC limits access by object: an account that may patch a pod may relabel it out of its budget, and one that may patch a
budget may set it to "100%". Two admission policies limit the fields. They apply only to the accounts of the controller
and of the closer; the closer may only close budgets. They fail closed: if a policy cannot be evaluated, the write is
refused and the controller holds.

The expressions are CEL. `has` guards every optional field, since reading an absent field is an error, and an error
refuses the write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pulumi

from components.admission_policy import enforce, on
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, DELETION_COST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulumi_kubernetes.admissionregistration.v1 import ValidationArgsDict, VariableArgsDict


def unchanged(field: str) -> str:
    """Return an expression: both objects lack the field, or both have the same value."""
    now, before = f"object.{field}", f"oldObject.{field}"
    return f"has({now}) ? (has({before}) && {now} == {before}) : !has({before})"


_BINDINGS = ("metadata.labels", "metadata.finalizers", "metadata.ownerReferences")

BINDINGS_STAY = {unchanged(field): f"{field} must stay as it is" for field in _BINDINGS}

ANNOTATIONS: "list[VariableArgsDict]" = [
    {"name": "now", "expression": "has(object.metadata.annotations) ? object.metadata.annotations : {}"},
    {"name": "before", "expression": "has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"},
]


def annotating_only(key: str, description: str) -> dict[str, str]:
    """Return rules for the variables `ANNOTATIONS`: only `key` may change. `description` names it in messages."""
    is_key = f"k == '{key}'"
    stays = f"variables.now.all(k, {is_key} || (k in variables.before && variables.now[k] == variables.before[k]))"
    return {
        stays: f"only {description} may be annotated",
        f"variables.before.all(k, {is_key} || k in variables.now)": f"only {description} may be removed",
    }


POD_RULES = {
    **BINDINGS_STAY,
    "object.spec == oldObject.spec": "spec must stay as it is",
    **annotating_only(DELETION_COST, "the deletion cost"),
}
_MOST, _LEAST = "spec.maxUnavailable", "spec.minAvailable"
_BY_MINIMUM = f"has(object.{_LEAST}) && !has(oldObject.{_MOST})"
"""A budget of pods without a scale (docs/adr/0024). Rendered files have neither number: the controller owns it."""
_SHUT = f"{_BY_MINIMUM} && object.{_LEAST} == {CLOSED_MINIMUM}"


def budget_rules(minimums: Mapping[str, int]) -> Mapping[str, str]:
    """Return the rules for writes to budgets. `minimums` as in `AdmissionArgs`."""
    stays = f"has(oldObject.{_LEAST}) && object.{_LEAST} == oldObject.{_LEAST}"
    # `minAvailable` may be removed from any budget: `maxUnavailable` is then 0 or 1, so at most one pod is evicted.
    allowed, numbers = f"!has(object.{_LEAST}) || {stays} || {_SHUT}", str(CLOSED_MINIMUM)
    if minimums:
        opened = ", ".join(f"'{budget} {number}'" for budget, number in sorted(minimums.items()))
        this = f"object.metadata.namespace + '/' + object.metadata.name + ' ' + string(object.{_LEAST})"
        allowed = f"{allowed} || ({_BY_MINIMUM} && {this} in [{opened}])"
        numbers = f"{numbers} or, for flexible pods, one less than the stack file's number"
    return {
        **BINDINGS_STAY,
        **{
            unchanged(path): f"{path} must stay as it is"
            for path in ("metadata.annotations", "spec.selector", "spec.unhealthyPodEvictionPolicy")
        },
        allowed: f"minAvailable must stay as it is, be removed, or be {numbers}",
        f"has(object.{_LEAST}) || (has(object.{_MOST}) && (object.{_MOST} == 0 || object.{_MOST} == 1))": (
            "maxUnavailable must be 0 or 1"
        ),
    }


@dataclass(frozen=True, kw_only=True)
class AdmissionArgs:
    namespace: pulumi.Input[str]  # of the accounts
    controller: str  # names of service accounts
    closer: str
    minimums: Mapping[str, int] = field(default_factory=dict[str, int])
    """`minAvailable` of open budgets of pods without a scale, by "namespace/name"."""


class Admission(pulumi.ComponentResource):
    def __init__(self, name: str, args: AdmissionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Admission", name, None, opts)
        self._policy(name, args, "pods", "", [args.controller])
        self._policy(name, args, "poddisruptionbudgets", "policy", [args.controller, args.closer])
        self.register_outputs({})

    def _policy(self, name: str, args: AdmissionArgs, resource: str, group: str, accounts: "Sequence[str]") -> None:
        variables = ANNOTATIONS if resource == "pods" else []
        rules = POD_RULES if resource == "pods" else budget_rules(args.minimums)
        users = [user_of(args.namespace, account) for account in accounts]
        ours = pulumi.Output.all(*users).apply(lambda names: f"request.userInfo.username in [{', '.join(names)}]")
        enforce(
            (f"{name}-{resource}", f"{name}-{resource}-binding"),
            f"ebbtide-{resource}",
            on(group, resource, ["UPDATE"]),
            [*validations("Ebbtide's own accounts", rules), *_only_closes(args, resource)],
            conditions=[{"name": "written-by-ebbtide", "expression": ours}],
            variables=variables,
            parent=self,
        )


def user_of(namespace: pulumi.Input[str], account: str) -> pulumi.Output[str]:
    return pulumi.Output.concat("'system:serviceaccount:", namespace, f":{account}'")


def _only_closes(args: AdmissionArgs, resource: str) -> "list[ValidationArgsDict]":
    if resource == "pods":
        return []
    closer = user_of(args.namespace, args.closer)
    closed = f"(has(object.{_LEAST}) ? object.{_LEAST} == {CLOSED_MINIMUM} : object.{_MOST} == 0)"
    closes = pulumi.Output.concat("request.userInfo.username != ", closer, f" || {closed}")
    return [{"expression": closes, "message": "Ebbtide's closer: maxUnavailable must be 0"}]


def validations(whose: str, rules: Mapping[str, str]) -> "list[ValidationArgsDict]":
    return [{"expression": expression, "message": f"{whose}: {message}"} for expression, message in rules.items()]
