"""Specs of Ray clusters as plain JSON: the rules for a declared spec, differences, merge patches. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

GROUPS, NAME, IDLE_TIMEOUT = "workerGroupSpecs", "groupName", "idleTimeoutSeconds"
_FORBIDDEN = ("suspend", "upgradeStrategy", "managedBy")  # in a spec: an upgrade strategy deletes busy pods
_AUTOSCALER_KEYS = ("replicas", "scaleStrategy")  # of a group


def declared_spec(text: str) -> Json:
    """Parse the annotation's spec, with its groups at their minimum. Raises ValueError with one clear message."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"wanted a JSON object, found {text[:60]!r}")
    spec = cast("Json", document)
    if forbidden := [key for key in _FORBIDDEN if key in spec]:
        raise ValueError(f"{', '.join(forbidden)}: may not be in it")
    if not isinstance(spec.get("headGroupSpec"), dict):
        raise ValueError("headGroupSpec: wanted an object")
    entries = spec.get(GROUPS, [])
    if not isinstance(entries, list):
        raise ValueError(f"{GROUPS}: wanted a list")
    groups = [_declared_group(entry, index) for index, entry in enumerate(cast("list[Any]", entries))]
    names = [group[NAME] for group in groups]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{GROUPS}: named twice: {', '.join(twice)}")
    return {**spec, GROUPS: groups}


def _declared_group(entry: object, index: int) -> Json:
    path = f"{GROUPS}[{index}]"
    if not isinstance(entry, dict) or not isinstance(cast("Json", entry).get(NAME), str):
        raise ValueError(f"{path}: wanted an object with a {NAME}")
    group = cast("Json", entry)
    if forbidden := [key for key in (*_AUTOSCALER_KEYS, "suspend") if key in group]:
        raise ValueError(f"{path}: {', '.join(forbidden)}: may not be in it, Ray's autoscaler writes it")
    least, most = group.get("minReplicas", 0), group.get("maxReplicas")
    if type(least) is not int or type(most) is not int or not 0 <= least <= most:
        raise ValueError(f"{path}: wanted 0 <= minReplicas <= maxReplicas, found {least!r} and {most!r}")
    return {**group, "minReplicas": least, "replicas": least}


def declared_part(spec: Json) -> Json:
    """Return a spec without `suspend` and without the fields that Ray's autoscaler writes."""
    groups = [{key: value for key, value in group.items() if key not in _AUTOSCALER_KEYS} for group in groups_of(spec)]
    return {**without_suspend(spec), GROUPS: groups}


def without_suspend(spec: Json) -> Json:
    return {key: value for key, value in spec.items() if key != "suspend"}


def groups_of(spec: Json) -> list[Json]:
    return spec.get(GROUPS) or []


def replicas_of(group: Json) -> int:
    return group.get("replicas") or 0


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """Return the JSON merge patch (RFC 7386) from `before` to `after`: entire lists, null for a removed key."""
    patch: Json = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_patch(cast("Json", old), cast("Json", value)):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch


def differences(before: object, after: object, path: str = "") -> Iterator[str]:
    """Yield the paths at which two documents differ, down to the level at which their shapes differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("Json", before), cast("Json", after)
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
        return
    if isinstance(before, list) and isinstance(after, list):
        old_items, new_items = cast("list[Any]", before), cast("list[Any]", after)
        if len(old_items) == len(new_items):
            for index, (old_item, new_item) in enumerate(zip(old_items, new_items, strict=True)):
                yield from differences(old_item, new_item, f"{path}[{index}]")
            return
    if before != after:
        yield path
