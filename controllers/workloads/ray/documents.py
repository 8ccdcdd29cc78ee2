"""Specs of Ray clusters as plain JSON: what a wanted one must be, how two differ, how one becomes the other. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

GROUPS, NAME = "workerGroupSpecs", "groupName"
_NOT_THEIRS = ("suspend", "upgradeStrategy", "managedBy")  # of a spec: an upgrade strategy deletes busy pods
_AUTOSCALERS = ("replicas", "scaleStrategy")  # of a group


def wanted_of(text: str) -> Json:
    """The spec of the annotation, its groups at their minimum. Raises ValueError with one clear message."""
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(spec, dict):
        raise ValueError(f"wanted a JSON object, found {text[:60]!r}")
    found = cast("Json", spec)
    if foreign := [key for key in _NOT_THEIRS if key in found]:
        raise ValueError(f"{', '.join(foreign)}: may not be in it")
    if not isinstance(found.get("headGroupSpec"), dict):
        raise ValueError("headGroupSpec: wanted an object")
    given = found.get(GROUPS, [])
    if not isinstance(given, list):
        raise ValueError(f"{GROUPS}: wanted a list")
    groups = [_group_of(group, index) for index, group in enumerate(cast("list[Any]", given))]
    names = [group[NAME] for group in groups]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{GROUPS}: named twice: {', '.join(twice)}")
    return {**found, GROUPS: groups}


def _group_of(group: object, index: int) -> Json:
    where = f"{GROUPS}[{index}]"
    if not isinstance(group, dict) or not isinstance(cast("Json", group).get(NAME), str):
        raise ValueError(f"{where}: wanted an object with a {NAME}")
    found = cast("Json", group)
    if foreign := [key for key in (*_AUTOSCALERS, "suspend") if key in found]:
        raise ValueError(f"{where}: {', '.join(foreign)}: may not be in it, Ray's autoscaler writes it")
    least, most = found.get("minReplicas", 0), found.get("maxReplicas")
    if type(least) is not int or type(most) is not int or not 0 <= least <= most:
        raise ValueError(f"{where}: wanted 0 <= minReplicas <= maxReplicas, found {least!r} and {most!r}")
    return {**found, "minReplicas": least, "replicas": least}


def without_values(spec: Json) -> Json:
    """A spec without what others write of it: the declared part alone."""
    groups = [{key: value for key, value in group.items() if key not in _AUTOSCALERS} for group in groups_of(spec)]
    return {**{key: value for key, value in spec.items() if key != "suspend"}, GROUPS: groups}


def groups_of(spec: Json) -> list[Json]:
    return spec.get(GROUPS) or []


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """What turns `before` into `after` as a JSON merge patch (RFC 7386): lists whole, null for what goes."""
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
    """The paths at which two documents differ, as deep as both have the same shape."""
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("Json", before), cast("Json", after)
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(cast("list[Any]", before)) == len(cast("list[Any]", after))
    ):
        for index, (one, other) in enumerate(zip(cast("list[Any]", before), cast("list[Any]", after), strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif before != after:
        yield path
