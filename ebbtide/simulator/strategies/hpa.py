"""The HorizontalPodAutoscaler's arithmetic for one external metric with an average target, with its defaults. Pure.

Replicas wanted are the metric divided by the target, rounded up, unless that is within a tenth of what there is. In one
go it at most doubles, or grows to 4. It falls to the highest number it wanted within the stabilization
window, five minutes by default. It is off
while the replicas are 0, and never asks for less than 1.
Sources: kubernetes/kubernetes, pkg/controller/podautoscaler: horizontal.go (normalisation, stabilisation: what KEDA's
object gets, since it sets no behaviour) and replica_calculator.go; kube-controller-manager's flags
--horizontal-pod-autoscaler-sync-period, -tolerance and -downscale-stabilization.
"""

import math
from collections import deque
from dataclasses import dataclass, field

SYNC_S = 15.0
TOLERANCE = 0.1
STABILISATION_S = 300.0
GROWS_TO_AT_LEAST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaSpec:
    """`target` is what each replica should have of the metric."""

    target: float
    least: int  # at least 1
    most: int
    stabilization_s: float = STABILISATION_S  # `behavior.scaleDown.stabilizationWindowSeconds`


@dataclass(slots=True)
class Hpa:
    """One object with its memory of what it wanted lately."""

    spec: HpaSpec
    _wanted: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])  # instant, replicas

    def sync(self, now: float, replicas: int, metric: float) -> int:
        """The replicas that there should be."""
        if replicas == 0:
            return 0
        if replicas > self.spec.most:
            return self.spec.most
        if replicas < self.spec.least:
            return self.spec.least
        if not self._wanted:
            self._wanted.append((now, replicas))
        calm = self._stabilised(now, self._by_metric(replicas, metric))
        limit = min(max(2 * replicas, GROWS_TO_AT_LEAST), self.spec.most)
        return max(self.spec.least, min(calm, limit))

    def _by_metric(self, replicas: int, metric: float) -> int:
        ratio = metric / (self.spec.target * replicas)
        return replicas if abs(1 - ratio) <= TOLERANCE else math.ceil(metric / self.spec.target)

    def _stabilised(self, now: float, wanted: int) -> int:
        while self._wanted and self._wanted[0][0] <= now - self.spec.stabilization_s:
            self._wanted.popleft()
        highest = max([wanted, *(earlier for _, earlier in self._wanted)])
        self._wanted.append((now, wanted))
        return highest
