"""The steps in which a service grows and shrinks, for its autoscaler and for the simulator.

**Up at once, down slowly.** The number of pods at most doubles, or grows by four, every 15 s, the interval at which
HPAs read on EKS. With latency, which is a ratio and not a total, growth waits for the pods of the step before: the
measurement is two minutes old, and until they are ready each reading would double the number again. It falls by a
quarter, after twice a pod's start time, in steps as long as the longest request.
"""

from dataclasses import dataclass
from datetime import timedelta

from ebbtide.settings.sections.serving.services import ServiceSettings, VariantSettings

SYNC = timedelta(seconds=15)
"""Interval of the HPA controller; cannot be changed on EKS."""

_EACH_LOOK = timedelta(seconds=10)
"""Shorter than `SYNC`, so that each reading may take a step. With the same length the controller sometimes counts the
step of the reading before: recordings missed 5 of 111 steps; with two thirds of it, 0 of 110.
"""

LATENCY_WINDOW = timedelta(minutes=2)
STAYS_AT_LEAST = timedelta(minutes=5)
"""Kubernetes' default delay before a number falls."""
_LONGEST_STAY = timedelta(hours=1)
_LONGEST_PERIOD = timedelta(minutes=30)
"""Maximum of the API. Source: Kubernetes, autoscaling/v2, HPAScalingRules."""

USUAL_TOLERANCE = 0.1
"""Kubernetes' default: the relative deviation from the target that changes nothing."""

_TOLERANCE_SINCE = (1, 35)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The larger of both applies within each period."""

    percent: int
    pods: int
    period: timedelta
    stabilization: timedelta  # a number takes effect once it has been requested for this long


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    up: Step
    down: Step
    up_tolerance: float  # less than the load of one pod is left uncovered, however many there are


def knows_tolerance(version: str) -> bool:
    """True if Kubernetes of this version, such as `1.35`, has a tolerance per HPA."""
    return tuple(map(int, version.split("."))) >= _TOLERANCE_SINCE


def steps_of(service: ServiceSettings, variant: VariantSettings) -> Steps:
    """Return the steps. The tolerance needs a cluster with a tolerance per HPA, from Kubernetes 1.35 on."""
    return Steps(
        up=Step(percent=100, pods=4, period=_up_period(variant), stabilization=timedelta(0)),
        down=Step(percent=25, pods=1, period=_down_period(service), stabilization=_stay(variant)),
        up_tolerance=min(USUAL_TOLERANCE, 1 / variant.scale.max),
    )


def _up_period(variant: VariantSettings) -> timedelta:
    if variant.scale.metrics.latency is None:
        return _EACH_LOOK
    return min(_LONGEST_PERIOD, variant.starts_within + LATENCY_WINDOW)


def _down_period(service: ServiceSettings) -> timedelta:
    return min(_LONGEST_PERIOD, max(timedelta(minutes=1), service.grace))


def _stay(variant: VariantSettings) -> timedelta:
    return min(_LONGEST_STAY, max(STAYS_AT_LEAST, 2 * variant.starts_within))
