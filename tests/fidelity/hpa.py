"""The model of the HorizontalPodAutoscaler against recordings of the real one.

A recording is held to in two ways. **Beat by beat**: the model is given what the real controller read at each of its
looks, and must write the same number. **Alone**: the model is given the scenario's script, and when the real one
looked; the numbers are its own, and its pods start as the service simulator's do. Then it must write the same numbers
in the same order. Form of the files: tests/data/hpa-scenarios/README.md.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbtide.lab.simulator.services.fleet import ReplicaFleet
from ebbtide.lab.simulator.services.served import PodModel
from ebbtide.lab.simulator.strategies.hpa import (
    TOLERANCE,
    Hpa,
    HpaBehavior,
    HpaMetric,
    HpaPolicy,
    HpaRules,
    HpaSight,
    HpaSpec,
    TargetKind,
)

Values = Mapping[str, float | None]
"""By the metric's name; CPU's is the percentage that each ready pod uses. None: missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One look of the real controller. `values` are empty where it asked for none: the number was out of bounds."""

    at_s: float
    replicas: int  # asked for, before it
    there: int  # pods that the Deployment says there are
    ready: int
    least: int
    values: Values
    wrote: int | None  # None: nothing
    desired: int | None = None  # of its status, where that changed
    conditions: Mapping[str, str] = field(default_factory=dict[str, str])  # reason by type, where they changed

    @property
    def after(self) -> int:
        return self.replicas if self.wrote is None else self.wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Of the script, at a time: what is None stays."""

    at_s: float
    values: Values = field(default_factory=dict[str, float | None])
    least: int | None = None  # written by another field manager
    replicas: int | None = None  # scaled by somebody else
    surge: int | None = None  # pods more than asked for, of a rollout whose new pods never get ready


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaScenario:
    name: str
    shows: str
    hpa: Mapping[str, Any]  # spec of autoscaling/v2, without what it scales
    first: int  # replicas
    timeline: Sequence[Change]
    end_s: float
    starts_s: float = 0.0  # until a new pod is ready
    sync_s: float = 3.0
    stabilization_s: float = 20.0  # the controller's flag
    takes: Sequence[Sequence[Beat]] = ()

    @property
    def metrics(self) -> list[str]:
        return [next(_named(metric)) for metric in self.hpa["metrics"]]

    @property
    def spec(self) -> HpaSpec:
        behavior = self.hpa.get("behavior")
        return HpaSpec(
            metrics=tuple(_metric(metric) for metric in self.hpa["metrics"]),
            least=self.hpa["minReplicas"],
            most=self.hpa["maxReplicas"],
            behavior=behavior and HpaBehavior(up=_rules(behavior["scaleUp"]), down=_rules(behavior["scaleDown"])),
            stabilization_s=self.stabilization_s,
        )


def _named(metric: Mapping[str, Any]) -> Iterator[str]:
    if "external" in metric:
        yield metric["external"]["metric"]["name"]
    else:
        yield metric["resource"]["name"]


def _metric(metric: Mapping[str, Any]) -> HpaMetric:
    target = metric.get("external", metric.get("resource"))["target"]
    kind = TargetKind(target["type"])
    key = {TargetKind.TOTAL: "averageValue", TargetKind.RATIO: "value", TargetKind.USE: "averageUtilization"}[kind]
    return HpaMetric(kind, float(target[key]))


def _rules(rules: Mapping[str, Any]) -> HpaRules:
    policies = [HpaPolicy(float(it["periodSeconds"]), **{it["type"].lower(): it["value"]}) for it in rules["policies"]]
    return HpaRules(
        policies=tuple(policies),
        stabilization_s=float(rules["stabilizationWindowSeconds"]),
        tolerance=float(rules.get("tolerance", TOLERANCE)),
    )


# --- reading ----------------------------------------------------------------------------------------------------------


def read_recordings(file: Path) -> list[HpaScenario]:
    return [_scenario(it) for it in json.loads(file.read_text(encoding="utf-8"))]


def _scenario(it: Mapping[str, Any]) -> HpaScenario:
    parts: dict[str, Any] = {
        "timeline": [Change(**change) for change in it["timeline"]],
        "takes": [[Beat(**beat) for beat in take] for take in it["takes"]],
    }
    return HpaScenario(**{**it, **parts})


# --- comparing --------------------------------------------------------------------------------------------------------


def beat_by_beat(scenario: HpaScenario, take: Sequence[Beat]) -> list[tuple[Beat, int]]:
    """Each beat with the number that the model would have written."""
    hpa = Hpa(scenario.spec)
    found: list[tuple[Beat, int]] = []
    for beat in take:
        hpa.least = beat.least
        values = [beat.values.get(name) for name in scenario.metrics]
        sight = HpaSight(beat.replicas, values, ready=beat.ready, existing=beat.there)
        found.append((beat, hpa.sync(beat.at_s, sight)))
    return found


Numbers = list[tuple[float, int]]
"""Each time that another number was written, and by whom counts not."""


def alone(scenario: HpaScenario, looks: Iterable[float]) -> Numbers:
    """What the model writes at these looks, with pods that start as the service simulator's."""
    pods = PodModel(
        request_s=1, spread=0, at_once=1, starts_s=scenario.starts_s, stop_s=0, node_boot_s=0, per_node=1000
    )
    fleet, hpa = ReplicaFleet(pods), Hpa(scenario.spec)
    fleet.begin(0, scenario.first)
    values: dict[str, float | None] = {}
    surge, coming = 0, list(scenario.timeline)
    found: Numbers = []
    for now in looks:
        while coming and coming[0].at_s <= now:
            change = coming.pop(0)
            values |= change.values
            surge = surge if change.surge is None else change.surge
            hpa.least = hpa.least if change.least is None else change.least
            if change.replicas is not None:
                fleet.scale(change.at_s, change.replicas)
        fleet.become_ready(now)
        seen = [values.get(name) for name in scenario.metrics]
        before = fleet.replicas
        wanted = hpa.sync(now, HpaSight(before, seen, ready=len(fleet.ready), existing=before + surge))
        if wanted != before:
            found.append((now, wanted))
            fleet.scale(now, wanted)
    return found


def written(take: Sequence[Beat]) -> Numbers:
    return [(beat.at_s, beat.wrote) for beat in take if beat.wrote is not None and beat.wrote != beat.replicas]


@dataclass(frozen=True, slots=True)
class Likeness:
    """Of one scenario. Times in seconds; None where the numbers themselves differ."""

    beats: int
    same: int  # beats of all takes at which the model writes the same
    numbers: Sequence[int]  # that the first take wrote, in their order
    alone_alike: int  # takes whose numbers the model writes alone
    offset_s: float | None  # the largest between a number of the model alone and that of the take
    spread_s: float | None  # the largest between the first take and another


def likeness(scenario: HpaScenario) -> Likeness:
    pairs = [pair for take in scenario.takes for pair in beat_by_beat(scenario, take)]
    takes = [written(take) for take in scenario.takes]
    models = [alone(scenario, instants(take)) for take in scenario.takes]
    apart = [_apart(model, take) for model, take in zip(models, takes, strict=True)]
    return Likeness(
        beats=len(pairs),
        same=sum(beat.after == of_model for beat, of_model in pairs),
        numbers=[number for _, number in takes[0]],
        alone_alike=sum(it is not None for it in apart),
        offset_s=_largest(apart),
        spread_s=_largest([_apart(takes[0], take) for take in takes]),
    )


def instants(take: Sequence[Beat]) -> list[float]:
    return [beat.at_s for beat in take]


def _apart(one: Numbers, other: Numbers) -> float | None:
    """The largest difference in time; None if they are of different numbers."""
    if [number for _, number in one] != [number for _, number in other]:
        return None
    return max((abs(at - then) for (at, _), (then, _) in zip(one, other, strict=True)), default=0.0)


def _largest(some: Sequence[float | None]) -> float | None:
    known = [it for it in some if it is not None]
    return max(known) if len(known) == len(some) else None


def differences(scenario: HpaScenario, take: Sequence[Beat]) -> list[str]:
    """One line for each beat at which the model would have written something else."""
    return [
        f"{scenario.name} at {beat.at_s:.1f} s: of {beat.replicas} ({beat.there} there, {beat.ready} ready, at least "
        f"{beat.least}) with {dict(beat.values)} the real one made {beat.after}, the model {model}"
        for beat, model in beat_by_beat(scenario, take)
        if beat.after != model
    ]
