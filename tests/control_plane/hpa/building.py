"""The parts that a scenario is put together from."""

from collections.abc import Mapping
from typing import Any

from components.serving.scaling import behavior
from components.serving.service import scaled_variants
from tests.builders.workloads.services import services_stack
from tests.fidelity.hpa import Change, HpaScenario

_FASTER = 5
SYNC_S = 3.0
_BEFORE_S = 0.4


def total(target: float, name: str = "load") -> dict[str, Any]:
    return _external(name, {"type": "AverageValue", "averageValue": f"{target:g}"})


def ratio(target: float, name: str = "late") -> dict[str, Any]:
    return _external(name, {"type": "Value", "value": f"{target:g}"})


def use(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _external(name: str, target: Mapping[str, str]) -> dict[str, Any]:
    return {"type": "External", "external": {"metric": {"name": name}, "target": dict(target)}}


def rules(*policies: tuple[str, int, int], stabilization: int = 0, tolerance: str | None = None) -> dict[str, Any]:
    """Each policy: kind, value, period in seconds."""
    return {
        "stabilizationWindowSeconds": stabilization,
        "selectPolicy": "Max",
        "policies": [{"type": kind, "value": value, "periodSeconds": period} for kind, value, period in policies],
        **({} if tolerance is None else {"tolerance": tolerance}),
    }


FREE = ("Percent", 900, 1)
ALL = ("Percent", 100, 1)


def hpa(
    *metrics: Mapping[str, Any],
    least: int = 1,
    most: int = 20,
    up: Mapping[str, Any] | None = None,
    down: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    steps = {} if up is None and down is None else {"scaleUp": up or rules(FREE), "scaleDown": down or rules(ALL)}
    spec: dict[str, Any] = {"minReplicas": least, "maxReplicas": most, "metrics": [dict(it) for it in metrics]}
    return {**spec, **({"behavior": steps} if steps else {})}


def at(
    beat: float,
    *,
    least: int | None = None,
    replicas: int | None = None,
    surge: int | None = None,
    **values: float | None,
) -> Change:
    """Shortly before that look."""
    when = max(0.0, beat * SYNC_S - _BEFORE_S)
    return Change(at_s=when, values=values, least=least, replicas=replicas, surge=surge)


def scenario(
    name: str, shows: str, spec: Mapping[str, Any], first: int, *timeline: Change, beats: int, starts: float = 0
) -> HpaScenario:
    """`beats`: how many looks it lasts."""
    end = beats * SYNC_S + SYNC_S / 2
    return HpaScenario(name=name, shows=shows, hpa=spec, first=first, timeline=timeline, end_s=end, starts_s=starts)


def rendered(metrics: str = "inFlight: 3") -> dict[str, Any]:
    """The stack's own steps, five times faster and a second less."""
    stack = services_stack(("inFlight: 3, latency: 300ms", metrics))
    small, *_ = scaled_variants(stack, "embedder", prometheus="http://prometheus", tolerance=True)
    steps: dict[str, Any] = dict(behavior(small))
    for each in steps.values():
        each["stabilizationWindowSeconds"] = _faster(each["stabilizationWindowSeconds"])
        for policy in each["policies"]:
            policy["periodSeconds"] = _faster(policy["periodSeconds"])
    return steps


def _faster(seconds: int) -> int:
    return max(0, seconds // _FASTER - 1)
