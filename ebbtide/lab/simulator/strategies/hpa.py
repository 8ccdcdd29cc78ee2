"""The rules of the HorizontalPodAutoscaler, from metrics to a number of replicas. Pure: time is an argument.

Every 15 s, in the order of the controller of Kubernetes 1.35:

1. Off at 0 replicas. A number below `least` or above `most` is set to that limit at once, whatever the metrics are.
2. Each metric proposes a number, unless it is within its tolerance; the highest counts. **A missing metric never
   lowers**: if one is missing the others may raise, and if all are missing nothing changes.
3. Stabilization: up to the lowest proposal within the window for up, down to the highest within the window for down.
4. Steps: for each policy, the replicas of a period ago plus or minus its limit; `selectPolicy: Max` takes the larger
   change. Without `behavior` the number at most doubles, or grows to 4, and falls at once.

A total is compared with the existing pods, including those of a rollout's surge: within the tolerance all of them stay.
Percentages are truncated.

Not modelled: pods that send no metric (a metric from one query has no pods), and the first minutes of a pod's CPU,
which the controller ignores: here a pod counts once it is ready. `tests.fidelity.hpa` compares this with recordings.
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
    """The comparison of a metric with its target."""

    TOTAL = "AverageValue"  # a total of the service: each replica takes `target` of it
    RATIO = "Value"  # the factor by which the ready replicas are too few
    USE = "Utilization"  # the mean of the ready pods, percent of their requests


@dataclass(frozen=True, slots=True)
class HpaMetric:
    kind: TargetKind
    target: float


@dataclass(frozen=True, slots=True)
class HpaPolicy:
    """The largest change in a period: `percent` or `pods`; the other is 0."""

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


def hpa_of_total(target: float, *, least: int, most: int, stabilization_s: float = STABILISATION_S) -> HpaSpec:
    """One total with `target` for each replica, and defaults for the rest."""
    metrics = (HpaMetric(TargetKind.TOTAL, target),)
    return HpaSpec(metrics=metrics, least=least, most=most, stabilization_s=stabilization_s)


@dataclass(frozen=True, slots=True)
class HpaSight:
    """The controller's view at a sync. A value of None is a missing metric."""

    replicas: int  # requested
    values: Sequence[float | None]
    ready: int | None = None  # None: all
    existing: int | None = None  # pods, including those of a rollout's surge; None: the requested replicas


@dataclass(slots=True)
class Hpa:
    """One HorizontalPodAutoscaler, with its recent proposals and changes."""

    spec: HpaSpec
    least: int = field(init=False)  # may be written at any time, for example by a floor
    _proposals: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])  # instant, replicas
    _changes: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])  # instant, more or fewer

    def __post_init__(self) -> None:
        self.least = self.spec.least

    def sync(self, now: float, sight: HpaSight) -> int:
        """The number of replicas to request."""
        replicas = sight.replicas
        if not self._proposals:
            self._proposals.append((now, replicas))
        if replicas == 0:
            return 0
        if replicas > self.spec.most:
            target = self.spec.most
        elif replicas < self.least:
            target = self.least
        else:
            proposed = proposal(self.spec, sight)
            if proposed is None:
                return replicas
            target = self._normalised(now, replicas, proposed)
        if target != replicas and self.spec.behavior is not None:
            self._changes.append((now, target - replicas))
        return target

    def _normalised(self, now: float, replicas: int, proposed: int) -> int:
        behavior = self.spec.behavior
        if behavior is None:
            highest = max([proposed, *self._since(now - self.spec.stabilization_s)])
            self._remember(now, proposed, self.spec.stabilization_s)
            limit = min(max(2 * replicas, GROWS_TO_AT_LEAST), self.spec.most)
            return max(self.least, min(highest, limit))
        up, down = behavior.up, behavior.down
        lowest = min([proposed, *self._since(now - up.stabilization_s)])
        highest = max([proposed, *self._since(now - down.stabilization_s)])
        self._remember(now, proposed, max(up.stabilization_s, down.stabilization_s))
        stable = min(max(replicas, lowest), highest)
        if stable > replicas:
            return max(replicas, min(stable, self.spec.most, self._highest(now, replicas, up.policies)))
        if stable < replicas:
            return min(replicas, max(stable, self.least, self._lowest(now, replicas, down.policies)))
        return replicas

    def _since(self, cutoff: float) -> Iterator[int]:
        """Proposals after an instant, the latest first."""
        for at, proposed in reversed(self._proposals):
            if at <= cutoff:
                return
            yield proposed

    def _remember(self, now: float, proposed: int, longest_s: float) -> None:
        while self._proposals and self._proposals[0][0] <= now - longest_s:
            self._proposals.popleft()
        self._proposals.append((now, proposed))

    def _highest(self, now: float, replicas: int, policies: Iterable[HpaPolicy]) -> int:
        """The largest change of all policies. A percentage rounds up, or it would never add one."""
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
        """The net change that this autoscaler made after an instant."""
        total = 0
        for at, change in reversed(self._changes):
            if at <= cutoff:
                break
            total += change
        return total


def proposal(spec: HpaSpec, sight: HpaSight) -> int | None:
    """The proposal of all metrics; None if a metric is missing and the number must stay."""
    pairs = list(zip(spec.metrics, sight.values, strict=True))
    proposals = [_proposal_of(metric, value, sight, spec.tolerances) for metric, value in pairs if value is not None]
    if not proposals or (len(proposals) < len(pairs) and max(proposals) < sight.replicas):
        return None
    return max(proposals)


def _proposal_of(metric: HpaMetric, value: float, sight: HpaSight, tolerances: tuple[float, float]) -> int:
    replicas = sight.replicas
    existing = replicas if sight.existing is None else sight.existing
    ready = existing if sight.ready is None else sight.ready
    match metric.kind:
        case TargetKind.TOTAL:
            near = existing > 0 and _within(value / (metric.target * existing), tolerances)
            return existing if near else math.ceil(value / metric.target)
        case TargetKind.RATIO:
            ratio = value / metric.target
            return replicas if _within(ratio, tolerances) else math.ceil(ratio * ready)
        case TargetKind.USE:
            ratio = int(value) / metric.target
            if ready == existing or ratio <= 1:
                return replicas if _within(ratio, tolerances) else math.ceil(ratio * ready)
            # Pods that are not ready count as unused; if that reverses the direction, nothing changes.
            diluted = int(value * ready / existing) / metric.target
            if diluted < 1 or _within(diluted, tolerances):
                return replicas
            return max(replicas, math.ceil(diluted * existing))


def _within(ratio: float, tolerances: tuple[float, float]) -> bool:
    down, up = tolerances
    return 1 - down <= ratio <= 1 + up
