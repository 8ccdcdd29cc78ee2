"""Rights that `pulumi up` needs, and rights of the stack's own accounts. Both follow from the stack's objects.

Creating an object takes four verbs, the last for `pulumi destroy`. Kubernetes refuses to grant rights that the caller
does not hold, so the caller also needs every right that a role of the stack grants.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ebbtide.operate.probe.facts import Right
from ebbtide.recording.resources import Resource, is_part, kind_of
from ebbtide.recording.values import value_at

_VERBS = ("get", "create", "patch", "delete")
_ROLES = {"Role", "ClusterRole"}
_VOWELS = "aeiou"


def rights_of(resources: Sequence[Resource]) -> tuple[Right, ...]:
    """Return the rights that `pulumi up` and `pulumi destroy` need for these objects, each once."""
    return tuple(dict.fromkeys(_rights(resources)))


def rights_of_accounts(resources: Sequence[Resource], namespace: str) -> Mapping[tuple[str, str], tuple[Right, ...]]:
    """Return what the stack's roles grant in a namespace, by namespace and name of the account."""
    items = [item for item in resources if kind_of(item) and value_at(item.inputs, "metadata.namespace") == namespace]
    roles = {value_at(item.inputs, "metadata.name"): item for item in items if kind_of(item) == "Role"}
    granted = dict[tuple[str, str], tuple[Right, ...]]()
    for binding in items:
        role = roles.get(value_at(binding.inputs, "roleRef.name"))
        if kind_of(binding) == "RoleBinding" and role is not None:
            for subject in binding.inputs["subjects"]:
                account = subject["namespace"], subject["name"]
                granted[account] = (*granted.get(account, ()), *_granted(role, by_name=True))
    return granted


def _rights(resources: Sequence[Resource]) -> Iterator[Right]:
    for item in resources:
        kind = kind_of(item)
        if kind and is_part(item) and "metadata" in item.inputs:
            group = str(item.inputs["apiVersion"]).rpartition("/")[0]
            yield from (Right(verb, group, _plural(kind), _namespace(item)) for verb in _VERBS)
            if kind in _ROLES:
                yield from _granted(item, by_name=False)


def _granted(role: Resource, *, by_name: bool) -> Iterator[Right]:
    for rule in cast("Sequence[Mapping[str, Any]]", role.inputs["rules"]):
        names = rule.get("resourceNames", ("",)) if by_name else ("",)
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                for name in names:
                    yield from (Right(verb, group, resource, _namespace(role), name) for verb in rule["verbs"])


def _namespace(item: Resource) -> str:
    namespace = value_at(item.inputs, "metadata.namespace")
    return namespace if isinstance(namespace, str) else ""


def _plural(kind: str) -> str:
    """Return the plural of a kind that stacks create: policies, ingresses, gateways."""
    name = kind.lower()
    if name.endswith("y") and name[-2] not in _VOWELS:
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"
