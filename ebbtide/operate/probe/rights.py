"""The rights that `pulumi up` needs, and those of the stack's own accounts. Both follow from the stack's objects.

Creating an object takes four verbs, the last for `pulumi destroy`. Kubernetes refuses to grant rights that the caller
does not hold, so the caller also needs every right that a role of the stack grants.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ebbtide.operate.probe.facts import Right
from ebbtide.recording.resources import Resource, is_part, kind_of
from ebbtide.recording.values import value_at

_MAKE = ("get", "create", "patch", "delete")
_ROLES = {"Role", "ClusterRole"}
_VOWELS = "aeiou"


def rights_of(resources: Sequence[Resource]) -> tuple[Right, ...]:
    """Of whoever runs `pulumi up`, and later `pulumi destroy`, for these objects; each once."""
    return tuple(dict.fromkeys(_rights(resources)))


def rights_of_accounts(resources: Sequence[Resource], namespace: str) -> Mapping[tuple[str, str], tuple[Right, ...]]:
    """What is granted in a namespace by roles of the stack, by the namespace and the name of the account."""
    here = [each for each in resources if kind_of(each) and value_at(each.inputs, "metadata.namespace") == namespace]
    roles = {value_at(each.inputs, "metadata.name"): each for each in here if kind_of(each) == "Role"}
    found = dict[tuple[str, str], tuple[Right, ...]]()
    for binding in here:
        role = roles.get(value_at(binding.inputs, "roleRef.name"))
        if kind_of(binding) == "RoleBinding" and role is not None:
            for subject in binding.inputs["subjects"]:
                account = subject["namespace"], subject["name"]
                found[account] = (*found.get(account, ()), *_granted(role, by_name=True))
    return found


def _rights(resources: Sequence[Resource]) -> Iterator[Right]:
    for each in resources:
        kind = kind_of(each)
        if kind and is_part(each) and "metadata" in each.inputs:
            group = str(each.inputs["apiVersion"]).rpartition("/")[0]
            yield from (Right(verb, group, _plural(kind), _namespace(each)) for verb in _MAKE)
            if kind in _ROLES:
                yield from _granted(each, by_name=False)


def _granted(role: Resource, *, by_name: bool) -> Iterator[Right]:
    for rule in cast("Sequence[Mapping[str, Any]]", role.inputs["rules"]):
        names = rule.get("resourceNames", ("",)) if by_name else ("",)
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                for name in names:
                    yield from (Right(verb, group, resource, _namespace(role), name) for verb in rule["verbs"])


def _namespace(each: Resource) -> str:
    namespace = value_at(each.inputs, "metadata.namespace")
    return namespace if isinstance(namespace, str) else ""


def _plural(kind: str) -> str:
    """As all kinds are spelt that a stack has: policies, ingresses, gateways."""
    name = kind.lower()
    if name.endswith("y") and name[-2] not in _VOWELS:
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"
