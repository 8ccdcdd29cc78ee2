"""Merges a fragment of a PodSpec into the rendered pod, as the last step.

**Nothing is removed.** Mappings gain keys. Lists whose entries Kubernetes identifies by a key are merged by entry; all
other lists grow. Plain values are replaced. So Ebbtide's affinity terms and tolerations stay, and the settings refuse a
fragment that replaces a protected field (`ebbtide.settings.fragment`).

**Further containers** get the restricted security level and, like the main container, a memory limit equal to their
request.

**Spelling.** A fragment uses Kubernetes' names, and the provider's SDK uses Python names. Only fields are translated,
as the schema lists them: keys of labels, of selectors and of resources are data. `wire_form` translates back.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from components.pods.rules import container_security
from ebbtide.settings.fragment.schema import LIST, MAP, POD_SPEC, Field, type_named

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?:[A-Z]|$))")
_OF_PYTHON = {"exec": "exec_"}  # reserved words of Python
_DEFAULTS = {"protocol": "TCP"}  # of the fields that identify entries


def merged(pod: "PodSpecArgsDict", fragment: Mapping[str, Any], *, main: str) -> "PodSpecArgsDict":
    """Merge the fragment into the pod. A container entry with the name `main` is merged into the main container."""
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
    """Return the SDK's spelling of a field: `hostIPC` is `host_ipc`, `targetWWNs` is `target_wwns`."""
    return _OF_PYTHON.get(field) or _WORDS.sub("_", field).lower()


def wire_form(value: Mapping[str, Any], kind: str = POD_SPEC) -> dict[str, Any]:
    """Return a pod, or another type of its schema, in Kubernetes' spelling, for objects unknown to the SDK."""
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
    """Add Ebbtide's restrictions to a further container. The fragment's values, checked before, take precedence."""
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
