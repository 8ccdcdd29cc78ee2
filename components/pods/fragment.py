"""Merges a fragment of a PodSpec into the rendered pod, as the last step.

**Nothing is taken away.** Mappings gain keys; lists whose entries Kubernetes tells apart by a key are merged entry by
entry, all others grow; a plain value is replaced. So terms of affinity and tolerations of Ebbtide's stay, whatever a
fragment says, and what it may not replace was refused with the stack file (`ebbtide.settings.fragment`).

**Further containers are held to what holds for the pod's own:** the restricted security level, and no more memory than
they ask for.

**Spelling.** A fragment has Kubernetes' names, the provider's SDK takes names in Python's form. Only fields are spelt
anew, by the schema: keys of labels, of selectors and of resources are data. `wire_form` goes the other way.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from components.pods.rules import container_security
from ebbtide.settings.fragment.schema import LIST, MAP, POD_SPEC, Field, type_named

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?:[A-Z]|$))")
_OF_PYTHON = {"exec": "exec_"}  # words that the SDK keeps free for the language
_DEFAULTS = {"protocol": "TCP"}  # of the fields that tell entries apart


def merged(pod: "PodSpecArgsDict", fragment: Mapping[str, Any], *, main: str) -> "PodSpecArgsDict":
    """`main` is the name of the pod's own container: an entry of that name says more of it."""
    if not fragment:
        return pod
    further = {
        key: [each if key == "containers" and each["name"] == main else _restricted(each) for each in fragment[key]]
        for key in ("containers", "initContainers")
        if key in fragment
    }
    more = _spelt({**fragment, **further}, Field(type=POD_SPEC))
    return cast("PodSpecArgsDict", _merged(pod, more, Field(type=POD_SPEC)))


def python_name(field: str) -> str:
    """As the provider's SDK spells a field: `hostIPC` is `host_ipc`, `targetWWNs` is `target_wwns`."""
    return _OF_PYTHON.get(field) or _WORDS.sub("_", field).lower()


def wire_form(value: Mapping[str, Any], kind: str = POD_SPEC) -> dict[str, Any]:
    """A pod, or another type of its schema, as Kubernetes spells it: for objects that the SDK does not know."""
    return cast("dict[str, Any]", _unspelt(value, Field(type=kind)))


def _unspelt(value: Any, field: Field) -> Any:
    if field.type.startswith(LIST):
        return [_unspelt(each, Field(type=field.type.removeprefix(LIST))) for each in value]
    kind = None if field.type.startswith(MAP) else type_named(field.type)
    if kind is None:
        return value
    names = {python_name(name): name for name in kind.fields}
    return {names[key]: _unspelt(inner, kind.fields[names[key]]) for key, inner in value.items()}


def _restricted(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """A further container with what Ebbtide's own have; what it says itself counts, and was checked."""
    resources = dict(container.get("resources", {}))
    requested_memory = resources.get("requests", {}).get("memory")
    if requested_memory is not None:
        resources["limits"] = {**resources.get("limits", {}), "memory": requested_memory}
    restricted = wire_form(container_security(), "SecurityContext")
    stated = container.get("securityContext", {})
    context = {**restricted, **stated}
    if "capabilities" in stated:
        context["capabilities"] = {**stated["capabilities"], "drop": ["ALL"]}
    return {**container, "resources": resources, "securityContext": context}


def _spelt(value: Any, field: Field) -> Any:
    if field.type.startswith(LIST):
        return [_spelt(each, Field(type=field.type.removeprefix(LIST))) for each in value]
    if field.type.startswith(MAP):
        return dict(value)
    kind = type_named(field.type)
    if kind is None:
        return value
    return {python_name(key): _spelt(inner, kind.fields[key]) for key, inner in value.items()}


def _merged(base: Any, more: Any, field: Field) -> Any:
    if field.type.startswith(LIST):
        return _lists(list(base), more, field)
    if field.type.startswith(MAP):
        return {**base, **more}
    kind = type_named(field.type)
    if kind is None:
        return more
    fields = {python_name(name): inner for name, inner in kind.fields.items()}
    return {**base, **{key: _merged(base[key], more[key], fields[key]) if key in base else more[key] for key in more}}


def _lists(base: list[Any], more: Sequence[Any], field: Field) -> list[Any]:
    if not field.keys:
        return [*base, *(each for each in more if each not in base)]
    places = {_key(each, field): place for place, each in enumerate(base)}
    entry = Field(type=field.type.removeprefix(LIST))
    for each in more:
        place = places.get(_key(each, field))
        if place is None:
            base.append(each)
        else:
            base[place] = _merged(base[place], each, entry)
    return base


def _key(entry: Mapping[str, Any], field: Field) -> tuple[Any, ...]:
    return tuple(entry.get(python_name(name), _DEFAULTS.get(name)) for name in field.keys)
