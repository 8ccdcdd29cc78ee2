"""What may be written of a Ray cluster's spec now. Pure.

While the cluster sleeps (no pod of it is left) the whole wanted spec is written. While it is awake only what interrupts
nothing is; the rest is pending. The trap: Ray's autoscaler writes `replicas` and `scaleStrategy` of a group by the
group's index, in a patch that checks no version. So while it is awake no group changes its place, and both fields are
carried over as they are.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from controllers.workloads.ray.documents import GROUPS, NAME, Json, differences, groups_of, without_values

_AT_ONCE = ("minReplicas", "maxReplicas", "idleTimeoutSeconds")  # of a group: the autoscaler reads them in each turn
_IDLE = "idleTimeoutSeconds"


class Phase(StrEnum):
    EMPTY = "empty"  # nothing was ever written: no pod exists
    AWAKE = "awake"  # also while it starts, and while its pods go
    ASLEEP = "asleep"  # KubeRay says that no pod is left


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDecision:
    """`spec` is to be written as a whole, without `suspend`; None: nothing is to be written now."""

    spec: Json | None = None
    reason: str = "applied"
    pending: tuple[str, ...] = ()  # paths that only a sleeping cluster can take over
    later: tuple[str, ...] = ()  # what becomes true by itself, without a need to interrupt anything


def decide_spec(live: Json, wanted: Json, phase: Phase) -> SpecDecision:
    """`wanted` as the API server would store it, its groups with the replicas that they begin with."""
    declared, policy = without_values(live), without_values(wanted)
    if phase is not Phase.AWAKE:
        if declared == policy:
            return SpecDecision()
        return SpecDecision(spec=wanted, reason="spec-first" if phase is Phase.EMPTY else "spec-whole")
    groups, pending, later = _groups_awake(live, wanted)
    spec = _with_idle_timeout({**{key: live[key] for key in live if key != "suspend"}, GROUPS: groups}, wanted)
    rest = {key: value for key, value in policy.items() if key != GROUPS}
    others = {key: value for key, value in spec.items() if key != GROUPS}
    pending = [*differences(others, rest), *pending]
    before = {**{key: live[key] for key in live if key != "suspend"}, GROUPS: groups_of(live)}
    return SpecDecision(
        spec=spec if spec != before else None,
        reason="spec-awake" if spec != before else _word(pending, later),
        pending=tuple(pending),
        later=tuple(later),
    )


def _word(pending: list[str], later: list[str]) -> str:
    if pending:
        return "old-image" if any(path.endswith(".image") for path in pending) else "old-spec"
    return "settling" if later else "applied"


def _groups_awake(live: Json, wanted: Json) -> tuple[list[Json], list[str], list[str]]:
    """The groups to write, what is pending of them, and what comes later."""
    asked: dict[str, Json] = {group[NAME]: group for group in groups_of(wanted)}
    groups: list[Json] = []
    pending: list[str] = []
    later: list[str] = []
    for group in groups_of(live):
        name = str(group.get(NAME))
        want = asked.pop(name, None)
        groups.append(_leaving(group) if want is None else _resized(group, want))
        if want is None:
            later.append(f"group {name} goes when the cluster sleeps")
            continue
        if groups[-1]["maxReplicas"] != want["maxReplicas"]:
            later.append(f"group {name}: at most {want['maxReplicas']} when its workers have gone")
        fixed = [{key: value for key, value in each.items() if key not in _AT_ONCE} for each in (group, want)]
        old, new = (without_values({GROUPS: [each]})[GROUPS][0] for each in fixed)
        pending += differences(old, new, f"{GROUPS}[{name}]")
    for name, want in asked.items():
        if _image(want) == _image(live.get("headGroupSpec")) and live.get("rayVersion") == wanted.get("rayVersion"):
            groups.append(want)
        else:
            pending.append(f"{GROUPS}[{name}]")
    order = [group[NAME] for group in groups_of(wanted)]
    if not later and not pending and [group[NAME] for group in groups] != order:
        later.append("groups take their wanted order when the cluster sleeps")
    return groups, pending, later


def _leaving(group: Json) -> Json:
    """Never more workers than it has; it keeps its place."""
    return {**group, "minReplicas": 0, "maxReplicas": min(_most(group), _replicas(group))}


def _resized(group: Json, want: Json) -> Json:
    most = want["maxReplicas"]
    if most < _most(group):
        most = min(_most(group), max(most, _replicas(group)))
    sized = {**group, "minReplicas": want["minReplicas"], "maxReplicas": most}
    return _with(sized, _IDLE, want.get(_IDLE))


def _with_idle_timeout(spec: Json, wanted: Json) -> Json:
    """The autoscaler's own idle timeout, too, where it has options before and after."""
    options, want = spec.get("autoscalerOptions"), wanted.get("autoscalerOptions")
    if not isinstance(options, dict) or not isinstance(want, dict):
        return spec
    timeout = cast("Json", want).get(_IDLE)
    return {**spec, "autoscalerOptions": _with(cast("Json", options), _IDLE, timeout)}


def _with(before: Json, key: str, value: Any) -> Json:
    return {**before, key: value} if value is not None else {name: it for name, it in before.items() if name != key}


def _replicas(group: Json) -> int:
    return group.get("replicas") or 0


def _most(group: Json) -> int:
    return group.get("maxReplicas", 2**31 - 1)


def _image(group: Any) -> object:
    """Of the container that runs Ray, which is the first one; None where there is none."""
    try:
        return group["template"]["spec"]["containers"][0]["image"]
    except (KeyError, IndexError, TypeError):
        return None
