"""The workload controller's config document, and the values of annotations on its objects.

The document lists the objects; an object's desired state is in its annotations, so that both are created and deleted
together.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from typing import Any, cast

from ebbtide.vocabulary.controller_config import BudgetPolicy
from ebbtide.vocabulary.documents import OMIT_DEFAULT, SETTING, Document, UnreadableConfig
from ebbtide.vocabulary.labels import SLEEP, WORKLOAD, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow


class SleepWhen(StrEnum):
    NEVER = "never"
    IDLE = "idle"
    OUTSIDE_HOURS = "outsideBusinessHours"


class Wake(StrEnum):
    BUSINESS_HOURS = "businessHours"
    QUEUE = "queue"  # a pool of drivers requests workers
    MANUAL = "manual"


class Purpose(StrEnum):
    REST = "rest"
    SPEC = "spec"  # so that a spec can be written that would otherwise interrupt the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Conditions for sleep: a workload sleeps after it was idle for `after`, and is awake while one of `wake` holds."""

    when: SleepWhen = SleepWhen.NEVER
    after: timedelta = timedelta(hours=2)
    wake: frozenset[Wake] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RayPolicy:
    """One Ray cluster. `head` is the URL of its dashboard; `pools` are Deployments of workers that drive it."""

    name: str
    namespace: str
    head: str
    token_file: str | None = None
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvent:
    """At least `pods` from local wall time `at` (minutes) on `day`, for `lasting`: for example, a product launch."""

    day: date
    at: int
    lasting: timedelta = field(metadata={SETTING: "for_"})
    pods: int = field(metadata={SETTING: "min"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNight:
    """At least `pods` from local wall time `at` (minutes), for `lasting`, every day, closed or not."""

    at: int = field(metadata={SETTING: "minutes"})
    lasting: timedelta = field(metadata={SETTING: "for_"})  # at most a day
    pods: int = field(metadata={SETTING: "min"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorPolicy:
    """One autoscaler whose minimum follows the calendar between `least` and `most`."""

    name: str  # of the autoscaler, and of the pods that it scales
    namespace: str
    keda: bool  # True: KEDA's ScaledObject; False: a HorizontalPodAutoscaler
    least: int = field(metadata={SETTING: "min"})
    most: int = field(metadata={SETTING: "max"})
    lead: timedelta  # time to start a node and a pod: a floor begins this long before it is needed
    open: int | None = None  # pods during business hours
    events: tuple[PlannedEvent, ...] = ()
    overnight: tuple[PlannedNight, ...] = ()


def subject_of(kind: str, namespace: str, name: str) -> str:
    """Return the name of a Deployment or StatefulSet in metrics and notes, such as "deployment ebbtide/api"."""
    return f"{kind.lower()} {namespace}/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepPolicy:
    """One Deployment or StatefulSet with `replicas` pods while it is awake, and `asleep` pods while it sleeps.

    It is awake from `lead` before business hours until `after` their end, and during each planned night. With
    `idle_after` it is also awake until it has been idle for this time. With `never` it is always awake: while the
    workload controller owns the number of pods, it raises the number, and otherwise it leaves the number alone.

    An adopted object belongs to a chart or a tool of a team: see `controllers.workloads.sleep.calendar`. If an
    admission policy keeps its number (`kept`), that owner cannot change it.
    """

    name: str  # in the stack file, and of the object unless `object_name` differs
    namespace: str
    kind: str
    replicas: int
    asleep: int
    lead: timedelta  # time to start a node and a pod
    after: timedelta = field(default=timedelta(), metadata={SETTING: "delay"})
    manual: bool = True  # an operator may wake it
    overnight: tuple[PlannedNight, ...] = ()
    idle_after: timedelta | None = field(default=None, metadata={**OMIT_DEFAULT, SETTING: "idle_for"})
    hub: str = field(default="", metadata=OMIT_DEFAULT)  # the hub's URL, if the workload is a JupyterHub
    hub_token_file: str | None = field(default=None, metadata=OMIT_DEFAULT)
    never: bool = field(default=False, metadata=OMIT_DEFAULT)
    object_name: str | None = field(default=None, metadata=OMIT_DEFAULT)
    adopted: bool = field(default=False, metadata=OMIT_DEFAULT)
    kept: bool = field(default=False, metadata=OMIT_DEFAULT)
    selector: str | None = field(default=None, metadata=OMIT_DEFAULT)  # of adopted pods, as Kubernetes writes it

    @property
    def object(self) -> str:
        """Return the name of the Deployment or StatefulSet."""
        return self.object_name or self.name

    @property
    def pods_selector(self) -> str:
        """Return the label selector of its pods."""
        return self.selector or f"{WORKLOAD}={self.name}"

    @property
    def path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/{self.kind.lower()}s/{self.object}"

    @property
    def subject(self) -> str:
        return subject_of(self.kind, self.namespace, self.object)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolPolicy:
    """One NodePool of Karpenter, in which `drains` nodes may be disrupted at a time while the window is open."""

    name: str
    drains: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadsConfig(Document):
    namespace: str  # of the process and its Lease
    lease: str = WORKLOADS
    hours: BusinessHours
    ray: tuple[RayPolicy, ...] = ()
    pool_namespace: str = "ebbtide-workers"  # of the Deployments in `RayPolicy.pools`
    floors: tuple[FloorPolicy, ...] = ()
    sleepers: tuple[SleepPolicy, ...] = field(default=(), metadata=OMIT_DEFAULT)
    adopted_sleepers: tuple[SleepPolicy, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """Under a key of their own: an older controller would lower objects without a look at their autoscalers."""
    prometheus: str = field(default="", metadata=OMIT_DEFAULT)
    """URL of the Prometheus that shows whether sleepers are idle."""
    node_pools: tuple[NodePoolPolicy, ...] = field(default=(), metadata=OMIT_DEFAULT)
    drain_guard: timedelta = field(default=timedelta(), metadata=OMIT_DEFAULT)
    """Time before opening at which NodePools close, long enough for drains in progress; pods' budgets close later."""
    budgets: tuple[BudgetPolicy, ...] = field(default=(), metadata=OMIT_DEFAULT)
    """The pods' budgets that open in the window. NodePools open after them."""

    @property
    def all_sleepers(self) -> tuple[SleepPolicy, ...]:
        return (*self.sleepers, *self.adopted_sleepers)

    @property
    def drain_window(self) -> DisruptionWindow:
        """Return the time in which NodePools are open."""
        return DisruptionWindow(hours=self.hours, closing_guard=self.drain_guard)

    def check(self) -> None:
        for key, names in (
            ("ray", [f"{policy.namespace}/{policy.name}" for policy in self.ray]),
            ("floors", [f"{policy.namespace}/{policy.name}" for policy in self.floors]),
            ("sleepers", [policy.subject for policy in self.all_sleepers]),
        ):
            if repeated := sorted({name for name in names if names.count(name) > 1}):
                raise UnreadableConfig(f"{key}: named twice: {repeated}")
        if same := [policy.name for policy in self.all_sleepers if policy.asleep >= policy.replicas]:
            raise UnreadableConfig(f"sleepers: asleep must be below replicas: {same}")
        if unsafe := [pool.name for pool in self.node_pools if pool.drains < 1]:
            raise UnreadableConfig(f"node_pools: drains must be at least 1: {unsafe}")


def dump_sleep(sleep: Sleep) -> str:
    """Return the annotation's value."""
    wake = sorted(sleep.wake)
    return json.dumps({"when": sleep.when, "afterSeconds": int(sleep.after.total_seconds()), "wake": wake})


def sleep_of(annotations: Mapping[str, str]) -> Sleep:
    """Return the `Sleep` of an object's annotations, by default never. Raises ValueError with value and example."""
    if SLEEP not in annotations:
        return Sleep()
    text = annotations[SLEEP]
    try:
        fields = cast("dict[str, Any]", json.loads(text))
        after, wake = fields.get("afterSeconds", 7200), fields.get("wake", [])
        if (
            isinstance(after, bool)
            or not isinstance(after, int | float)
            or not 0 <= after < timedelta.max.total_seconds()
        ):
            raise TypeError(f"afterSeconds {after!r}")
        return Sleep(when=SleepWhen(fields["when"]), after=timedelta(seconds=after), wake=frozenset(map(Wake, wake)))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        example = '{"when": "idle", "afterSeconds": 7200, "wake": ["queue"]}'
        raise ValueError(f"{SLEEP} is {text[:200]!r} ({error}): wanted for example {example}") from None
