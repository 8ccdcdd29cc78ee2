"""The HorizontalPodAutoscaler's own rules, from metrics to a number of replicas. Pure: time is an argument.

Every 15 s, in this order, as the controller of Kubernetes 1.35 does it:

1. Off at 0 replicas. Outside of `least` and `most` a number comes back at once, whatever the metrics say.
2. Each metric proposes a number, unless it is within its tolerance; the highest counts. **A metric that is missing
   never lowers**: with one missing the others may raise, and with all missing nothing changes.
3. Stabilization: up to the lowest number asked for within the window up, down to the highest within that down.
4. The steps: for each policy, what there was a period ago plus or minus what it allows; `selectPolicy: Max` takes the
   larger change. Without `behavior` it at most doubles, or grows to 4, and falls at once.

A total is held against the pods that are there, a rollout's surplus included: within the tolerance it wants them all.
Percentages are whole, cut off.

Not played: pods that send no metric of their own (what comes from one query has no pods), and the first minutes of a
pod's CPU, which the controller leaves out: a pod counts from the moment that it is ready. Held to recordings of the
real one in `tests.fidelity.hpa`.
Sources: kubernetes/kubernetes v1.35.4, pkg/controller/podautoscaler: horizontal.go (reconcileAutoscaler,
computeReplicasForMetrics, stabilizeRecommendation…, convertDesiredReplicas…) and replica_calculator.go
(GetExternalPerPodMetricReplicas, getUsageRatioReplicaCount, GetResourceReplicas); kube-controller-manager's flags
--horizontal-pod-autoscaler-sync-period, -tolerance and -downscale-stabilization.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

SYNC_S = 15.0
TOLERANCE = 0.1
STABILISATION_S = 300.0
GROWS_TO_AT_LEAST = 4


class TargetKind(StrEnum):
    """How a metric is compared with its target."""

    TOTAL = "AverageValue"  # of the whole service: each replica takes `target` of it
    RATIO = "Value"  # says by what factor the ready replicas are too few
    USE = "Utilization"  # the mean of the ready pods, percent of what they request


@dataclass(frozen=True, slots=True)
class HpaMetric:
    kind: TargetKind
    target: float


@dataclass(frozen=True, slots=True)
class HpaPolicy:
    """At most so many `percent` or `pods` of change in a period; one of the two is 0."""

    period_s: float
    percent: float = 0.0
    pods: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaRules:
    """One direction of `behavior`, with `selectPolicy: Max`."""

    policies: tuple[HpaPolicy, ...]
    stabilization_s: float
    tolerance: float = TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaBehavior:
    up: HpaRules
    down: HpaRules


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaSpec:
    metrics: tuple[HpaMetric, ...]
    least: int  # at least 1
    most: int
    behavior: HpaBehavior | None = None
    stabilization_s: float = STABILISATION_S  # the controller's flag, which counts without `behavior`

    @property
    def tolerances(self) -> tuple[float, float]:
        """Down and up."""
        if self.behavior is None:
            return TOLERANCE, TOLERANCE
        return self.behavior.down.tolerance, self.behavior.up.tolerance


def of_total(target: float, *, least: int, most: int, stabilization_s: float = STABILISATION_S) -> HpaSpec:
    """One total of which each replica should have `target`, and all else as it is by default."""
    metrics = (HpaMetric(TargetKind.TOTAL, target),)
    return HpaSpec(metrics=metrics, least=least, most=most, stabilization_s=stabilization_s)


@dataclass(frozen=True, slots=True)
class HpaSight:
    """What the controller sees at one of its beats; a value of None is a metric that is missing."""

    replicas: int  # asked for
    values: Sequence[float | None]
    ready: int | None = None  # of them; None: all
    there: int | None = None  # pods that exist, a rollout's surplus included; None: as many as asked for


@dataclass(slots=True)
class Hpa:
    """One object, with its memory of what it wanted and did lately."""

    spec: HpaSpec
    least: int = field(init=False)  # may be written at any time, as a floor does
    _wanted: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])  # instant, replicas
    _changes: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])  # instant, more or fewer

    def __post_init__(self) -> None:
        self.least = self.spec.least

    def sync(self, now: float, seen: HpaSight) -> int:
        """The replicas that there should be."""
        replicas = seen.replicas
        if not self._wanted:
            self._wanted.append((now, replicas))
        if replicas == 0:
            return 0
        if replicas > self.spec.most:
            found = self.spec.most
        elif replicas < self.least:
            found = self.least
        else:
            wanted = proposal(self.spec, seen)
            if wanted is None:
                return replicas
            found = self._normalised(now, replicas, wanted)
        if found != replicas and self.spec.behavior is not None:
            self._changes.append((now, found - replicas))
        return found

    def _normalised(self, now: float, replicas: int, wanted: int) -> int:
        behavior = self.spec.behavior
        if behavior is None:
            highest = max([wanted, *self._since(now - self.spec.stabilization_s)])
            self._remember(now, wanted, self.spec.stabilization_s)
            limit = min(max(2 * replicas, GROWS_TO_AT_LEAST), self.spec.most)
            return max(self.least, min(highest, limit))
        up, down = behavior.up, behavior.down
        lowest = min([wanted, *self._since(now - up.stabilization_s)])
        highest = max([wanted, *self._since(now - down.stabilization_s)])
        self._remember(now, wanted, max(up.stabilization_s, down.stabilization_s))
        calm = min(max(replicas, lowest), highest)
        if calm > replicas:
            return max(replicas, min(calm, self.spec.most, self._highest(now, replicas, up.policies)))
        if calm < replicas:
            return min(replicas, max(calm, self.least, self._lowest(now, replicas, down.policies)))
        return replicas

    def _since(self, cutoff: float) -> Iterator[int]:
        """What was wanted after an instant, the latest first."""
        for at, wanted in reversed(self._wanted):
            if at <= cutoff:
                return
            yield wanted

    def _remember(self, now: float, wanted: int, longest_s: float) -> None:
        while self._wanted and self._wanted[0][0] <= now - longest_s:
            self._wanted.popleft()
        self._wanted.append((now, wanted))

    def _highest(self, now: float, replicas: int, policies: Iterable[HpaPolicy]) -> int:
        """The larger change of all policies. What a percentage adds is rounded up, or it would never add one."""
        return max(
            math.ceil(before * (1 + policy.percent / 100)) if policy.percent else before + policy.pods
            for policy in policies
            for before in [replicas - self._changed(now - policy.period_s)]
        )

    def _lowest(self, now: float, replicas: int, policies: Iterable[HpaPolicy]) -> int:
        return min(
            int(before * (1 - policy.percent / 100)) if policy.percent else before - policy.pods
            for policy in policies
            for before in [replicas - self._changed(now - policy.period_s)]
        )

    def _changed(self, cutoff: float) -> int:
        """Replicas that came less those that went after an instant; by whomever else does not count."""
        total = 0
        for at, change in reversed(self._changes):
            if at <= cutoff:
                break
            total += change
        return total


def proposal(spec: HpaSpec, seen: HpaSight) -> int | None:
    """What the metrics ask for together; None: nothing may change, for a metric is missing."""
    pairs = list(zip(spec.metrics, seen.values, strict=True))
    asked = [_asked(metric, value, seen, spec.tolerances) for metric, value in pairs if value is not None]
    if not asked or (len(asked) < len(pairs) and max(asked) < seen.replicas):
        return None
    return max(asked)


def _asked(metric: HpaMetric, value: float, seen: HpaSight, tolerances: tuple[float, float]) -> int:
    replicas = seen.replicas
    there = replicas if seen.there is None else seen.there
    ready = there if seen.ready is None else seen.ready
    match metric.kind:
        case TargetKind.TOTAL:
            near = there > 0 and _within(value / (metric.target * there), tolerances)
            return there if near else math.ceil(value / metric.target)
        case TargetKind.RATIO:
            ratio = value / metric.target
            return replicas if _within(ratio, tolerances) else math.ceil(ratio * ready)
        case TargetKind.USE:
            ratio = int(value) / metric.target
            if ready == there or ratio <= 1:
                return replicas if _within(ratio, tolerances) else math.ceil(ratio * ready)
            # Pods that are not ready use nothing yet; if that turns the direction around, nothing happens.
            with_them = int(value * ready / there) / metric.target
            if with_them < 1 or _within(with_them, tolerances):
                return replicas
            return max(replicas, math.ceil(with_them * there))


def _within(ratio: float, tolerances: tuple[float, float]) -> bool:
    down, up = tolerances
    return 1 - down <= ratio <= 1 + up
