"""The times of fewer pods, or none: Ray clusters and workloads when they are idle, workloads also by the clock."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field

from ebbtide.provisioning_labels import ReplicasOwner
from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.business_hours import NightAwake
from ebbtide.settings.sections.checked import Check, Settings, each_once
from ebbtide.settings.sections.grammar import choice
from ebbtide.settings.sections.serving.access import SecretKey
from ebbtide.settings.sections.types import Count, PositiveDuration
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.workloads import SleepWhen, Wake

_NO_QUEUE = "queues wake worker pools, which scale to zero, and Ray clusters"


def _opening_wakes(when: SleepWhen, wake: Sequence[Wake]) -> None:
    if when is not SleepWhen.NEVER and Wake.BUSINESS_HOURS not in wake:
        expected = "businessHours among the reasons: without it the workload would sleep by day, too"
        raise wanted("sleep.not-woken", expected, found=", ".join(wake) or "none", example="[businessHours]", at="wake")


class SleepTimes(Settings):
    """Sleep outside business hours, by the clock or when idle: fewer pods, or none. Claims stay."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("when", "wake"), _opening_wakes),)

    when: Annotated[SleepWhen, *choice(*SleepWhen, planned={})] = Field(
        description="outsideBusinessHours: from the end of business hours until shortly before they begin; idle: "
        "within this time, once it is idle; never: it is woken and sleeps no more, whatever the other keys are, the "
        "first of two steps to remove `sleep`",
        examples=["outsideBusinessHours"],
    )
    after: PositiveDuration | None = Field(
        default=None,
        description="time after the end of business hours at which it sleeps, default: none; with idle: time for "
        "which it must have been idle, default: 2h",
        examples=["1h"],
    )
    wake: Annotated[
        tuple[Annotated[Wake, *choice("businessHours", "manual", planned={"queue": _NO_QUEUE})], ...],
        each_once("reason", "[businessHours]"),
    ] = Field(
        default=(Wake.BUSINESS_HOURS, Wake.MANUAL),
        description="wake-up: the opening, an operator",
        examples=["[businessHours, manual]"],
    )
    replicas: Count = Field(default=0, description="number of pods while it sleeps", examples=["0"])
    overnight: tuple[NightAwake, ...] = Field(
        default=(),
        description="times of each day at which it is awake, also on holidays",
        examples=['[{ at: "02:00", for: 2h }]'],
    )

    @property
    def sleeps(self) -> bool:
        return self.when is not SleepWhen.NEVER

    @property
    def gone_at_night(self) -> bool:
        """True if it has no pod while budgets are open."""
        return self.when is SleepWhen.OUTSIDE_HOURS and not (self.after or self.replicas or self.overnight)

    @property
    def delay(self) -> timedelta:
        """Return the time from the end of business hours to sleep."""
        return self.after or timedelta() if self.when is SleepWhen.OUTSIDE_HOURS else timedelta()

    @property
    def idle_for(self) -> timedelta | None:
        """Return the time for which it must have been idle; None if that does not count."""
        return self.after or timedelta(hours=2) if self.when is SleepWhen.IDLE else None


class WorkloadSleep(SleepTimes):
    """Sleep of a workload that the stack creates."""

    hub: SecretKey | None = Field(
        default=None,
        description="with idle, for a JupyterHub on the first port by name: its API token in a Secret, with the scopes "
        "list:users and read:servers; it is awake while a user has a server",
        examples=["{ secret: hub, key: sleepToken }"],
    )


SleepKey: TypeAlias = Annotated[
    WorkloadSleep | None,
    Field(
        description="when it has fewer pods, or none, outside business hours; default: never",
        examples=["{ when: outsideBusinessHours }"],
    ),
]


def fewer_pods(sleep: SleepTimes | None, awake: int) -> None:
    """Require fewer pods than while awake."""
    if sleep is not None and sleep.sleeps and sleep.replicas >= awake:
        expected = f"fewer pods than the {awake} while it is awake"
        raise wanted(
            "sleep.no-fewer", expected, found=str(sleep.replicas), example=str(awake - 1), at=("sleep", "replicas")
        )


def fixed_sleeps_by_the_clock(category: Category, sleep: SleepTimes | None) -> None:
    if sleep is not None and category is Category.FIXED and sleep.when is SleepWhen.IDLE:
        expected = "outsideBusinessHours for a fixed workload, whose users must know when it is away"
        hint = "it sleeps by the clock, with connected users too: set `after` for those who work late, and no hub"
        example = "outsideBusinessHours"
        raise wanted("sleep.fixed-idle", expected, found="idle", example=example, hint=hint, at=("sleep", "when"))


def idle_suits_pod(category: Category, sleep: WorkloadSleep | None, ports: Mapping[str, int]) -> None:
    fixed_sleeps_by_the_clock(category, sleep)
    if sleep is None:
        return
    if sleep.hub is not None and sleep.sleeps and not (sleep.when is SleepWhen.IDLE and ports):
        expected = "hub only with when: idle and with ports, the first of which by name serves the hub's API"
        actual = f"{sleep.when.value}, {len(ports)} ports"
        raise wanted("sleep.hub-alone", expected, found=actual, example="when: idle", at=("sleep", "hub"))


def sleeps_alone(sleep: WorkloadSleep | None, owner: ReplicasOwner) -> None:
    """Refuse a second writer of replicas."""
    if sleep is not None and sleep.sleeps and owner is ReplicasOwner.HPA:
        expected = "no sleep with replicasOwner: hpa: two writers of replicas would undo each other's changes"
        raise wanted("sleep.second-owner", expected, found="both", example="replicasOwner: pulumi", at="sleep")


SLEEP_CHECKS = (
    Check(("category", "sleep", "ports"), idle_suits_pod),
    Check(("sleep", "replicas"), fewer_pods),
    Check(("sleep", "replicas_owner"), sleeps_alone),
)
