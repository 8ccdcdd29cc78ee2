"""What is played to the real autoscaler: one rule, or a few, in each. Times are a fifth of those on a cluster.

A script changes half-way between two looks, so that none of them is in doubt.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.serving.scaling import behavior
from components.serving.service import scaled_variants
from ebbtide.simulator.fidelity.hpa import Change, HpaScenario
from tests.builders.workloads.services import services_stack

_FASTER = 5
SYNC_S = 3.0


def total(target: float, name: str = "load") -> dict[str, Any]:
    return _external(name, {"type": "AverageValue", "averageValue": f"{target:g}"})


def ratio(target: float, name: str = "late") -> dict[str, Any]:
    return _external(name, {"type": "Value", "value": f"{target:g}"})


def use(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _external(name: str, target: Mapping[str, str]) -> dict[str, Any]:
    return {"type": "External", "external": {"metric": {"name": name}, "target": dict(target)}}


def rules(
    *policies: tuple[str, int, int], stabilization: int = 0, tolerance: str | None = None
) -> dict[str, Any]:
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


def at(beat: float, *, least: int | None = None, replicas: int | None = None, surge: int | None = None, **values: float | None) -> Change:
    """Half a period before that look."""
    when = max(0.0, (beat - 0.5) * SYNC_S)
    return Change(at_s=when, values=values, least=least, replicas=replicas, surge=surge)


def scenario(name: str, shows: str, spec: Mapping[str, Any], first: int, *timeline: Change, beats: int, starts: float = 0) -> HpaScenario:
    """`beats`: how many looks it lasts."""
    end = beats * SYNC_S + SYNC_S / 2
    return HpaScenario(name=name, shows=shows, hpa=spec, first=first, timeline=timeline, end_s=end, starts_s=starts)


def _rendered(metrics: str = "inFlight: 3") -> dict[str, Any]:
    """The stack's own steps, five times faster."""
    stack = services_stack(("inFlight: 3, latency: 300ms", metrics))
    small, *_ = scaled_variants(stack, "embedder", prometheus="http://prometheus", tolerance=True)
    steps: dict[str, Any] = dict(behavior(small))
    for each in steps.values():
        each["stabilizationWindowSeconds"] = _faster(each["stabilizationWindowSeconds"])
        for policy in each["policies"]:
            policy["periodSeconds"] = _faster(policy["periodSeconds"])
    return steps


def _faster(seconds: int) -> int:
    return round(seconds / _FASTER)


def all_scenarios() -> list[HpaScenario]:
    calm = rules(("Pods", 10, 3), stabilization=12)
    own = _rendered()
    waiting = _rendered("inFlight: 3, latency: 300ms")
    return [
        scenario(
            "doubles-without-behavior",
            "to four, then twice as many at each look; falls at once when the flag's window is over",
            hpa(total(2)), 1, at(0, load=2), at(4, load=100), at(12, load=6), beats=24,
        ),
        scenario(
            "tolerance-of-a-tenth",
            "nothing within a tenth of the target, up or down",
            hpa(total(10), up=rules(FREE), down=rules(ALL)), 10,
            at(0, load=100), at(3, load=110), at(6, load=111), at(9, load=100), at(12, load=99), at(15, load=98), beats=18,
        ),
        scenario(
            "tolerances-of-its-own",
            "2 % up and 30 % down",
            hpa(total(10), up=rules(FREE, tolerance="0.02"), down=rules(ALL, tolerance="0.3")), 10,
            at(0, load=101), at(3, load=103), at(6, load=80), at(9, load=76), at(12, load=72), beats=15,
        ),
        scenario(
            "window-up",
            "a higher number counts once it was wanted for the whole window, and then the lowest of it",
            hpa(total(2), up=calm, down=rules(ALL, stabilization=60)), 2,
            at(0, load=4), at(3, load=20), at(5, load=4), at(8, load=14), at(10, load=18), at(11, load=12), beats=20,
        ),
        scenario(
            "window-down",
            "a lower number counts once nothing higher was wanted for the whole window, and then the highest of it",
            hpa(total(2), up=rules(FREE), down=rules(ALL, stabilization=15)), 10,
            at(0, load=20), at(3, load=4), at(5, load=20), at(8, load=6), at(10, load=12), at(13, load=2), beats=26,
        ),
        scenario(
            "steps-up-by-percent-or-pods",
            "the larger of half as many more and two more in each two looks",
            hpa(total(2), most=40, up=rules(("Percent", 50, 6), ("Pods", 2, 6))), 1, at(0, load=2), at(3, load=78), beats=22,
        ),
        scenario(
            "steps-down-by-percent-or-pods",
            "the larger of a quarter and one fewer in each three looks; what it grew meanwhile counts too",
            hpa(total(2), most=40, down=rules(("Percent", 25, 9), ("Pods", 1, 9))), 20,
            at(0, load=40), at(2, load=2), at(10, load=30), at(12, load=2), beats=36,
        ),
        scenario(
            "one-metric-of-two-missing",
            "the other may raise and not lower; once it is back both count",
            hpa(total(2), total(2, "queue"), down=rules(ALL)), 4,
            at(0, load=8, queue=8), at(3, load=4, queue=None), at(6, load=16), at(9, load=6), at(13, queue=10), at(16, queue=0), beats=20,
        ),
        scenario(
            "all-metrics-missing",
            "nothing changes, and what was wanted before the gap has left the window",
            hpa(total(2), down=rules(ALL, stabilization=12)), 6,
            at(0, load=12), at(3, load=None), at(10, load=2), at(14, load=None), at(16, load=12), beats=20,
        ),
        scenario(
            "use-with-pods-not-ready",
            "pods that start count as idle on the way up and not at all on the way down; a percentage is cut to a whole",
            hpa(use(80), most=30, down=rules(ALL, stabilization=9)), 4,
            at(0, cpu=88.9), at(3, cpu=89), at(5, cpu=150), at(14, cpu=200), at(22, cpu=20), beats=32, starts=10,
        ),
        scenario(
            "ratio-with-pods-not-ready",
            "a ratio counts from the pods that are ready: the same reading twice wants the same number, not twice it",
            hpa(ratio(1), most=30, down=rules(ALL, stabilization=9)), 3,
            at(0, late=1), at(3, late=2), at(9, late=1.05), at(12, late=3), at(18, late=0.4), beats=28, starts=10,
        ),
        scenario(
            "floor-raised-and-lowered",
            "another manager writes minReplicas: up at the next look, down as the load and its window let it",
            hpa(total(2), down=rules(("Percent", 50, 6), stabilization=9)), 1,
            at(0, load=2), at(3, least=8), at(7, least=5), at(13, load=30), at(16, least=2), at(18, load=2), beats=30,
        ),
        scenario(
            "floor-without-behavior",
            "the same without steps of its own",
            hpa(total(2)), 1, at(0, load=2), at(3, least=9), at(8, least=2), at(18, least=4), beats=22,
        ),
        scenario(
            "out-of-bounds",
            "what somebody scaled above max or below min comes back at the next look; at 0 it is off",
            hpa(total(2), least=3, most=10, down=rules(("Pods", 1, 9))), 4,
            at(0, load=8), at(3, replicas=16), at(5, replicas=1), at(8, replicas=0), at(11, replicas=5), at(13, load=60), beats=22,
        ),
        scenario(
            "several-metrics-at-once",
            "the one that asks for most counts, each by its own kind of target",
            hpa(total(3), ratio(1), use(60), most=30, down=rules(("Percent", 25, 6), stabilization=9)), 4,
            at(0, load=12, late=1, cpu=50), at(3, load=24), at(6, late=2), at(10, late=0.5, cpu=90), at(14, load=3, cpu=10),
            at(20, late=None), at(23, late=0.2), beats=32, starts=7,
        ),
        scenario(
            "rollout-with-a-surplus",
            "pods that a rollout adds count as there: a load within the tolerance then wants them all",
            hpa(total(2), down=rules(ALL, stabilization=6)), 10,
            at(0, load=20), at(3, surge=1), at(8, load=26), at(11, load=20), beats=18, starts=1,
        ),
        scenario(
            "rendered-steps-by-load",
            "the stack's own: doubled or four more at each look, by a quarter after the window, tolerance 1/max up",
            {**hpa(total(3), least=2, most=12), "behavior": own}, 2,
            at(0, load=6), at(3, load=30), at(7, load=31.5), at(9, load=6), at(26, load=18), at(28, load=6), beats=36, starts=9,
        ),
        scenario(
            "rendered-steps-by-latency",
            "the stack's own with latency: it waits for the pods of the step before; a floor is raised and lowered in it",
            {**hpa(total(3), ratio(0.3), least=2, most=12), "behavior": waiting}, 2,
            at(0, load=6, late=0.2), at(3, load=24, late=0.9), at(8, late=0.6), at(14, load=9, late=0.2), at(16, least=6),
            at(24, least=2), beats=38, starts=9,
        ),
    ]


_QUICK = (
    "doubles-without-behavior",
    "one-metric-of-two-missing",
    "out-of-bounds",
    "ratio-with-pods-not-ready",
    "rendered-steps-by-load",
    "tolerances-of-its-own",
)
_QUICK_BEATS = 12


def quick_scenarios() -> list[HpaScenario]:
    """A few, each cut off early: what a live check can afford."""
    end = _QUICK_BEATS * SYNC_S + SYNC_S / 2
    return [
        replace(it, end_s=end, timeline=[change for change in it.timeline if change.at_s < end])
        for it in all_scenarios()
        if it.name in _QUICK
    ]
