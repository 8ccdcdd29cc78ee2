"""Permissions at the API server, for workloads that start pods themselves, such as notebook hubs and orchestrators.

Such a workload has its own namespace, where its permissions end. Some are refused even there, since they would undo the
stack's promises: budgets, scales, accounts and roles, network policies, and unnamed Secrets. Pods that last and scale
belong in the stack file, which sets category and budget: among Kubernetes' own kinds the lasting ones are known; other
kinds may be written only if they are known to end.

A right to create pods includes every account and every Secret of the namespace, so the namespace holds nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import text, text_schema

OWN_NAMESPACE_PREFIX = "ebbtide-"

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_READING = ("get", "list", "watch")
_GAINING: Mapping[str, str] = {
    "*": "every verb includes those that gain further rights; name the ones that are needed",
    **dict.fromkeys(("escalate", "bind"), "with it the workload could give itself any right"),
    "impersonate": "with it the workload could act as any user",
}

_GROUP = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$"
_RESOURCE = r"^[a-z][a-z0-9]*(/[a-z]+)?$"
_OBJECT = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"

_GROUPS_REFUSED: Mapping[str, str] = {
    "*": "every group includes budgets and roles; name the ones that are needed",
    "policy": "budgets are Ebbtide's: an open budget allows evictions of pods with unfinished work",
    "rbac.authorization.k8s.io": "a workload that writes roles has every right",
    "admissionregistration.k8s.io": "admission enforces this workload's limits",
    "authentication.k8s.io": "a workload that creates tokens can act as any user",
    "autoscaling": "replicasOwner in the stack file sets who scales a workload",
}
_RESOURCES_REFUSED: Mapping[str, str] = {
    "pods/eviction": "evictions are for drains, and budgets decide them",
    "serviceaccounts": "rights are bound to accounts",
    "serviceaccounts/token": "a workload that creates tokens can act as any account",
    "networkpolicies": "the network policies of the namespace are Ebbtide's",
    "poddisruptionbudgets": "budgets are Ebbtide's: an open budget allows evictions of pods with unfinished work",
    **dict.fromkeys(("bindings", "pods/binding"), "the scheduler chooses a pod's node"),
    **dict.fromkeys(("roles", "rolebindings"), "a workload that writes roles has every right"),
}
_LASTING: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            *("authorization.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "metrics.k8s.io"),
            *("networking.k8s.io", "resource.k8s.io", "storage.k8s.io"),
        ),
        frozenset[str](),
    ),
    "": frozenset({"replicationcontrollers"}),
    "apps": frozenset({"deployments", "statefulsets", "replicasets", "daemonsets"}),
    "batch": frozenset({"cronjobs"}),
}
"""Kinds in Kubernetes' own API groups that keep creating pods."""

_ENDING: Mapping[str, frozenset[str]] = {
    "argoproj.io": frozenset({"workflows"}),
    "batch.volcano.sh": frozenset({"jobs"}),
    "gateway.networking.k8s.io": frozenset({"grpcroutes", "httproutes"}),
    "jobset.x-k8s.io": frozenset({"jobsets"}),
    "kubeflow.org": frozenset({"jaxjobs", "mpijobs", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs"}),
    "kubernetes.dask.org": frozenset({"daskjobs"}),
    "scheduling.volcano.sh": frozenset({"podgroups"}),
    "snapshot.storage.k8s.io": frozenset({"volumesnapshots"}),
    "sparkoperator.k8s.io": frozenset({"sparkapplications"}),
    "tekton.dev": frozenset({"pipelineruns", "taskruns"}),
    "trainer.kubeflow.org": frozenset({"trainjobs"}),
}
"""Kinds in other API groups that end by themselves or run nothing. Any other kind may keep creating pods."""


def parse_verb(value: object) -> str:
    if isinstance(value, str) and value in _GAINING:
        raise wanted("verb.refused", f"one of {', '.join(_VERBS)}", example="get", hint=_GAINING[value])
    if not isinstance(value, str) or value not in _VERBS:
        raise wanted("verb.unknown", f"one of {', '.join(_VERBS)}", example="get")
    return value


def parse_group(value: object) -> str:
    expected = 'an API group without its version, "" for pods and Secrets'
    if isinstance(value, str) and value in _GROUPS_REFUSED:
        raise wanted("api-group.refused", expected, example="batch", hint=_GROUPS_REFUSED[value])
    if not isinstance(value, str) or re.fullmatch(_GROUP, value) is None:
        raise wanted("api-group.form", expected, example="batch")
    return value


def parse_resource(value: object) -> str:
    expected = "a resource in the plural, as kubectl api-resources lists it"
    text = value if isinstance(value, str) else ""
    if "*" in text:
        hint = "every resource includes Secrets and scales; name the ones that are needed"
        raise wanted("api-resource.refused", expected, example="pods", hint=hint)
    if text.endswith("/scale"):
        hint = "the stack file, the controller or an HPA decides the number of pods"
        raise wanted("api-resource.refused", expected, example="pods", hint=hint)
    if text in _RESOURCES_REFUSED:
        raise wanted("api-resource.refused", expected, example="pods", hint=_RESOURCES_REFUSED[text])
    if re.fullmatch(_RESOURCE, text) is None:
        raise wanted("api-resource.form", expected, example="pods")
    return text


def parse_account(value: object) -> str:
    """Accept the name of an existing ServiceAccount."""
    expected = "the name of an existing ServiceAccount in the pod's namespace"
    if not isinstance(value, str) or re.fullmatch(_OBJECT, value) is None:
        raise wanted("service-account.form", expected, example="reports")
    if value == "default" or value.startswith(OWN_NAMESPACE_PREFIX):
        hint = (
            "every pod without its own account runs as the default account"
            if value == "default"
            else "this one is Ebbtide's own"
        )
        raise wanted("service-account.refused", expected, example="reports", hint=hint)
    return value


def _secrets_by_name(resources: Sequence[str], names: Sequence[str]) -> None:
    if "secrets" in resources and not names:
        expected = "the names of the Secrets: without them the rule covers all in the namespace"
        raise wanted("secrets.without-names", expected, found="none", example="[hub-state]", at="names")


def _names_can_be_compared(verbs: Sequence[str], names: Sequence[str]) -> None:
    unnamed = [verb for verb in ("create", "deletecollection") if verb in verbs]
    if names and unnamed:
        expected = "verbs whose requests name an object"
        hint = (
            f"the API server grants {unnamed[0]} without a name, so the name would have no effect; give it its own rule"
        )
        raise wanted("verb.without-name", expected, found=unnamed[0], example="get", hint=hint, at="verbs")


def _lasting_is_in_the_file(groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str]) -> None:
    """A rule grants each of its resources in each of its groups, so every pair is checked."""
    writing = [verb for verb in verbs if verb not in _READING]
    pairs = [(group, resource) for group in groups for resource in resources if _may_last(group, resource)]
    if writing and pairs:
        group, resource = pairs[0]
        hint = "pods that last belong under ebbtide:workloads, where they have a category and a budget"
        if group not in _LASTING:
            kinds = ", ".join(sorted(_ENDING.get(group, ())))
            hint = f"kinds of {group} known to end: {kinds or 'none'}; {hint}. Give others your own Role"
        expected = f"only reading for {resource}{f' of {group}' if group else ''}: get, list, watch"
        raise wanted("verb.on-lasting", expected, found=writing[0], example="get", hint=hint, at="verbs")


def _may_last(group: str, resource: str) -> bool:
    kind = resource.partition("/")[0]
    return kind in _LASTING[group] if group in _LASTING else kind not in _ENDING.get(group, ())


Verb: TypeAlias = Annotated[str, BeforeValidator(parse_verb), WithJsonSchema({"type": "string", "enum": list(_VERBS)})]
ApiGroup: TypeAlias = Annotated[str, BeforeValidator(parse_group), text_schema(_GROUP)]
ApiResource: TypeAlias = Annotated[str, BeforeValidator(parse_resource), text_schema(_RESOURCE)]
ObjectName: TypeAlias = Annotated[str, *text(_OBJECT, "object-name.form", "the name of an object", "hub-state")]
AccountName: TypeAlias = Annotated[str, BeforeValidator(parse_account), text_schema(_OBJECT)]


class RightsRule(Settings):
    """One rule of a Role, as in Kubernetes."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("resources", "names"), _secrets_by_name),
        Check(("verbs", "names"), _names_can_be_compared),
        Check(("groups", "resources", "verbs"), _lasting_is_in_the_file),
    )

    groups: Annotated[tuple[ApiGroup, ...], Field(min_length=1)] = Field(
        description='API groups without a version; "" is the group of pods, Secrets and claims', examples=['[""]']
    )
    resources: Annotated[tuple[ApiResource, ...], Field(min_length=1)] = Field(
        description="resources in the plural; of Secrets only by names", examples=["[pods, pods/log]"]
    )
    verbs: Annotated[tuple[Verb, ...], Field(min_length=1)] = Field(
        description="allowed verbs", examples=["[get, list, watch, create, delete]"]
    )
    names: Annotated[tuple[ObjectName, ...], Field(min_length=1)] = Field(
        default=(), description="names of the objects; default: all in the namespace", examples=["[hub-state]"]
    )


class KubernetesRights(Settings):
    """Kubernetes permissions of a workload, in its own namespace."""

    rules: Annotated[tuple[RightsRule, ...], Field(min_length=1)] = Field(
        description="the rules of its Role",
        examples=['[{ groups: [""], resources: [pods], verbs: [get, list, watch, create, delete] }]'],
    )


def own_namespace(workload: str) -> str:
    """Return the namespace of a workload that starts pods. It is unique in Ebbtide: `workers` is refused as a name
    there.
    """
    return OWN_NAMESPACE_PREFIX + workload


def started_by(workload: str) -> str:
    """Return the label value of the pods that a workload starts, by which their budget selects them."""
    return f"{workload}-pods"
