"""The part of a Ray cluster's spec that may be written now. Pure.

While the cluster sleeps (none of its pods is left), the entire declared spec is written. While it is awake, only
changes that interrupt nothing are written; the others are pending. The trap: Ray's autoscaler writes a group's
`replicas` and `scaleStrategy` by the group's index, in a patch that checks no version. So while the cluster is awake no
group changes its index, and both fields are carried over unchanged.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from controllers.workloads.ray.documents import (
    GROUPS,
    IDLE_TIMEOUT,
    NAME,
    Json,
    declared_part,
    differences,
    groups_of,
    replicas_of,
    without_suspend,
)

_RESIZABLE = ("minReplicas", "maxReplicas", IDLE_TIMEOUT)  # of a group: the autoscaler reads them in each loop
_NO_MAXIMUM = 2**31 - 1


class Phase(StrEnum):
    EMPTY = "empty"  # no spec was ever written: no pod exists
    AWAKE = "awake"  # also while the cluster starts, and while its pods terminate
    ASLEEP = "asleep"  # KubeRay reports that no pod is left


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDecision:
    """`spec` is the complete spec to write, without `suspend`; None: nothing must be written now."""

    spec: Json | None = None
    reason: str = "applied"
    pending: tuple[str, ...] = ()  # paths of changes that must wait until the cluster sleeps
    later: tuple[str, ...] = ()  # changes that will happen without an interruption


def decide_spec(live: Json, declared: Json, phase: Phase) -> SpecDecision:
    """Decide about the spec. `declared` is in the form that the API server would store, with initial replicas."""
    target = declared_part(declared)
    if phase is not Phase.AWAKE:
        if declared_part(live) == target:
            return SpecDecision()
        return SpecDecision(spec=declared, reason="spec-first" if phase is Phase.EMPTY else "spec-whole")
    groups, pending, later = _awake_groups(live, declared)
    spec = _with_idle_timeout({**without_suspend(live), GROUPS: groups}, declared)
    pending = [*differences(_without_groups(spec), _without_groups(target)), *pending]
    changed = spec != {**without_suspend(live), GROUPS: groups_of(live)}
    return SpecDecision(
        spec=spec if changed else None,
        reason="spec-awake" if changed else _reason(pending, later),
        pending=tuple(pending),
        later=tuple(later),
    )


def _without_groups(spec: Json) -> Json:
    return {key: value for key, value in spec.items() if key != GROUPS}


def _reason(pending: list[str], later: list[str]) -> str:
    if pending:
        return "old-image" if any(path.endswith(".image") for path in pending) else "old-spec"
    return "settling" if later else "applied"


def _awake_groups(live: Json, declared: Json) -> tuple[list[Json], list[str], list[str]]:
    """Return the groups to write, the pending paths, and the later changes."""
    unplaced: dict[str, Json] = {group[NAME]: group for group in groups_of(declared)}
    groups: list[Json] = []
    pending: list[str] = []
    later: list[str] = []
    for group in groups_of(live):
        name = str(group.get(NAME))
        target = unplaced.pop(name, None)
        if target is None:
            groups.append(_removed(group))
            later.append(f"group {name} goes when the cluster sleeps")
            continue
        groups.append(_resized(group, target))
        if groups[-1]["maxReplicas"] != target["maxReplicas"]:
            later.append(f"group {name}: at most {target['maxReplicas']} when its workers have gone")
        pending += differences(_fixed_part(group), _fixed_part(target), f"{GROUPS}[{name}]")
    for name, target in unplaced.items():
        same_image = _image(target) == _image(live.get("headGroupSpec"))
        if same_image and live.get("rayVersion") == declared.get("rayVersion"):
            groups.append(target)
        else:
            pending.append(f"{GROUPS}[{name}]")
    order = [group[NAME] for group in groups_of(declared)]
    if not later and not pending and [group[NAME] for group in groups] != order:
        later.append("groups take their wanted order when the cluster sleeps")
    return groups, pending, later


def _fixed_part(group: Json) -> Json:
    """Return the part of a group that cannot change while the cluster is awake."""
    fixed = {key: value for key, value in group.items() if key not in _RESIZABLE}
    return declared_part({GROUPS: [fixed]})[GROUPS][0]


def _removed(group: Json) -> Json:
    """Keep a removed group's index, and limit it to the workers that it has now."""
    return {**group, "minReplicas": 0, "maxReplicas": min(_maximum(group), replicas_of(group))}


def _resized(group: Json, target: Json) -> Json:
    maximum = target["maxReplicas"]
    if maximum < _maximum(group):
        maximum = min(_maximum(group), max(maximum, replicas_of(group)))
    resized = {**group, "minReplicas": target["minReplicas"], "maxReplicas": maximum}
    return _with(resized, IDLE_TIMEOUT, target.get(IDLE_TIMEOUT))


def _with_idle_timeout(spec: Json, declared: Json) -> Json:
    """Take over the autoscaler's idle timeout, if both specs have autoscaler options."""
    options, target = spec.get("autoscalerOptions"), declared.get("autoscalerOptions")
    if not isinstance(options, dict) or not isinstance(target, dict):
        return spec
    timeout = cast("Json", target).get(IDLE_TIMEOUT)
    return {**spec, "autoscalerOptions": _with(cast("Json", options), IDLE_TIMEOUT, timeout)}


def _with(document: Json, key: str, value: Any) -> Json:
    """Return a copy with this value; None removes the key."""
    if value is not None:
        return {**document, key: value}
    return {name: other for name, other in document.items() if name != key}


def _maximum(group: Json) -> int:
    return group.get("maxReplicas", _NO_MAXIMUM)


def _image(group: Any) -> object:
    """Return the image of the first container, which runs Ray; None if there is no container."""
    try:
        return group["template"]["spec"]["containers"][0]["image"]
    except (KeyError, IndexError, TypeError):
        return None
