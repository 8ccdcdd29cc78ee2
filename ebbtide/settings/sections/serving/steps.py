"""In what steps a service grows and shrinks: rendered into its autoscaler, and played by the simulator.

**Up at once, down slowly.** The number doubles every 15 s at most, or grows by four: HPAs read that often on EKS. With
latency, which is a ratio and not a total, it waits for the pods of the step before: what it measures is two minutes
old, and until they are ready each reading would double the number again. Down it goes by a quarter, after a time in
which a new pod could have come twice, and in steps in which the longest request ends.
"""

from dataclasses import dataclass
from datetime import timedelta

from ebbtide.settings.sections.serving.services import ServiceSettings, VariantSettings

SYNC = timedelta(seconds=15)
"""How often the HPA controller reads; on EKS it cannot be changed."""

_EACH_LOOK = timedelta(seconds=10)
"""Shorter than `SYNC`, so that each reading may take a step. With a period of its length the controller now and then
counts the step of the reading before: 5 of 111 steps were left out in recordings, 0 of 110 with two thirds of it."""

LATENCY_WINDOW = timedelta(minutes=2)
STAYS_AT_LEAST = timedelta(minutes=5)
"""Kubernetes' own time before a number goes down."""
_LONGEST_STAY = timedelta(hours=1)
_LONGEST_PERIOD = timedelta(minutes=30)
"""What the API takes. Source: Kubernetes, autoscaling/v2, HPAScalingRules."""

USUAL_TOLERANCE = 0.1
"""Kubernetes' own: a share of the target by which a metric may be off before anything is done."""

_TOLERANCE_SINCE = (1, 35)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The larger of both within each period."""

    percent: int
    pods: int
    period: timedelta
    stabilization: timedelta  # a number counts only once it has been asked for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    up: Step
    down: Step
    up_tolerance: float  # less than the load of one pod is left uncovered, however many there are


def knows_tolerance(version: str) -> bool:
    """Whether Kubernetes of this version, as `1.35`, has a tolerance for each HPA."""
    return tuple(map(int, version.split("."))) >= _TOLERANCE_SINCE


def steps_of(service: ServiceSettings, variant: VariantSettings) -> Steps:
    """The tolerance holds on clusters that know one for each HPA, as Kubernetes does from 1.35 on."""
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
