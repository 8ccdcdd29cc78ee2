"""The six strategies of a service's replay.

All but `fixed-replicas` are the HorizontalPodAutoscaler with its real rules. The calendar's floor is written to its
`minReplicas`; a forecast is one more metric, which rises in the usual steps.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from ebbtide.lab.simulator.services.floors import Floor, ForecastTrigger
from ebbtide.lab.simulator.services.run import ServiceSight
from ebbtide.lab.simulator.services.served import ServiceModel
from ebbtide.lab.simulator.strategies.hpa import Hpa, HpaMetric, HpaSight, HpaSpec, TargetKind
from ebbtide.lab.simulator.world.sleep import Asleep


class ServiceStrategy(StrEnum):
    HPA_ONLY = "hpa-only"  # the stack file without its floor
    CALENDAR_FLOOR = "calendar-floor"
    FORECAST_FLOOR = "forecast-floor"
    CONSTANT_HEADROOM = "constant-headroom"  # lower targets
    FIXED_REPLICAS = "fixed-replicas"  # enough for the busiest minute, always
    KEDA_DEFAULTS = "keda-defaults"  # no behavior, and a missing metric is 0


FORECAST = HpaMetric(TargetKind.TOTAL, 1)
"""The metric of a forecast: a number of pods."""


@dataclass(slots=True)
class Autoscaled:
    """Follows its metrics, but not below its floor. With `forecast` the last metric of `hpa` is `FORECAST`."""

    service: ServiceModel
    hpa: Hpa
    initial: int
    floor: Floor | None = None
    forecast: ForecastTrigger | None = None
    missing_is_zero: bool = False

    @property
    def least(self) -> int:
        """The floor, or the forecast if it is higher."""
        return max(self.hpa.least, 0 if self.forecast is None else self.forecast.pods)

    def first(self) -> int:
        return self.initial

    def decide(self, now: float, sight: ServiceSight) -> int:
        if self.floor is not None:
            self.hpa.least = self.service.within(self.floor(now, sight.sent))
        values = list(sight.values)
        if self.missing_is_zero:
            values = [0.0 if value is None else value for value in values]
        if self.forecast is not None:
            values.append(float(self.forecast(sight.sent)))
        return self.hpa.sync(sight.clock, HpaSight(sight.replicas, values, sight.ready))


@dataclass(frozen=True, slots=True)
class Fixed:
    pods: int
    asleep: tuple[Asleep, ...] = ()  # of the stack file: only a service that does not grow sleeps

    @property
    def least(self) -> int:
        return self.pods

    def first(self) -> int:
        return self.pods

    def decide(self, now: float, _sight: ServiceSight) -> int:
        return next((nap.pods for nap in self.asleep if nap.begin <= now < nap.end), self.pods)


def hpa_of(service: ServiceModel) -> HpaSpec:
    """The autoscaler as rendered for the service."""
    return HpaSpec(
        metrics=tuple(metric.target for metric in service.metrics),
        least=service.least,
        most=service.most,
        behavior=service.behavior,
    )


def with_forecast(service: ServiceModel) -> HpaSpec:
    spec = hpa_of(service)
    return replace(spec, metrics=(*spec.metrics, FORECAST))


def with_headroom(service: ServiceModel, share: float) -> HpaSpec:
    """The autoscaler with targets that leave `share` more capacity in each pod. Latency keeps its target."""
    spec = hpa_of(service)
    lower = tuple(
        metric.target if metric.key == "latency" else HpaMetric(metric.target.kind, metric.target.target / (1 + share))
        for metric in service.metrics
    )
    return replace(spec, metrics=lower)


def keda_defaults(service: ServiceModel) -> HpaSpec:
    """The autoscaler without `behavior`: KEDA sets none, so the controller's defaults apply."""
    return replace(hpa_of(service), behavior=None)
