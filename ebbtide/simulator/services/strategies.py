"""Six ways to have pods: what is compared when a service is replayed.

All but `fixed-replicas` are the HorizontalPodAutoscaler with its real rules. The calendar's floor is its `minReplicas`,
written; a forecast is one more metric, which rises in the usual steps.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from ebbtide.simulator.services.floors import Floor, ForecastTrigger
from ebbtide.simulator.services.run import ServiceSight
from ebbtide.simulator.services.served import SimulatedService
from ebbtide.simulator.strategies.hpa import Hpa, HpaMetric, HpaSight, HpaSpec, TargetKind


class ServiceStrategy(StrEnum):
    HPA_ONLY = "hpa-only"  # the stack file without its floor
    CALENDAR_FLOOR = "calendar-floor"
    FORECAST_FLOOR = "forecast-floor"
    CONSTANT_HEADROOM = "constant-headroom"  # lower targets
    FIXED_REPLICAS = "fixed-replicas"  # enough for the busiest minute, always
    KEDA_DEFAULTS = "keda-defaults"  # no behavior, and a missing metric is 0


FORECAST = HpaMetric(TargetKind.TOTAL, 1)
"""A number of pods."""


@dataclass(slots=True)
class Autoscaled:
    """Follows its metrics, and never below its floor. With `forecast` the last metric of `hpa` is `FORECAST`."""

    service: SimulatedService
    hpa: Hpa
    begins_with: int
    floor: Floor | None = None
    forecast: ForecastTrigger | None = None
    missing_is_zero: bool = False

    @property
    def least(self) -> int:
        """What stands before the load: the floor, or the forecast where it asks for more."""
        return max(self.hpa.least, 0 if self.forecast is None else self.forecast.pods)

    def first(self) -> int:
        return self.begins_with

    def decide(self, now: float, seen: ServiceSight) -> int:
        if self.floor is not None:
            self.hpa.least = self.service.within(self.floor(now, seen.sent))
        values = list(seen.values)
        if self.missing_is_zero:
            values = [0.0 if value is None else value for value in values]
        if self.forecast is not None:
            values.append(float(self.forecast(seen.sent)))
        return self.hpa.sync(seen.clock, HpaSight(seen.replicas, values, seen.ready))


@dataclass(frozen=True, slots=True)
class Fixed:
    pods: int

    @property
    def least(self) -> int:
        return self.pods

    def first(self) -> int:
        return self.pods

    def decide(self, _now: float, _seen: ServiceSight) -> int:
        return self.pods


def hpa_of(service: SimulatedService) -> HpaSpec:
    """As it is rendered."""
    return HpaSpec(
        metrics=tuple(metric.target for metric in service.metrics),
        least=service.least,
        most=service.most,
        behavior=service.behavior,
    )


def with_forecast(service: SimulatedService) -> HpaSpec:
    spec = hpa_of(service)
    return replace(spec, metrics=(*spec.metrics, FORECAST))


def with_headroom(service: SimulatedService, share: float) -> HpaSpec:
    """The same with targets that leave so much more room in each pod; latency is what it should be already."""
    spec = hpa_of(service)
    lower = tuple(
        metric.target if metric.key == "latency" else HpaMetric(metric.target.kind, metric.target.target / (1 + share))
        for metric in service.metrics
    )
    return replace(spec, metrics=lower)


def keda_defaults(service: SimulatedService) -> HpaSpec:
    """`behavior` is nobody's: KEDA sets none, and the controller's own rules hold."""
    return replace(hpa_of(service), behavior=None)
