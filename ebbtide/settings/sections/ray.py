"""The section of Ray clusters: a fixed head, and groups of workers that scale with Ray's own demand.

Heads and groups are pods with the common keys, except those that KubeRay's operator writes: command, ports and probes.
The image belongs to the cluster, since head and workers must run the same Ray.

**Drivers** are the workers of a queue pool (`workers.X.ray`), so the queue's depth bounds them; Ray's demand adds the
pods. A group has no fixed number, only a minimum and a maximum.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, Strict

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import MIN_WITHIN_MAX, Check, Settings, each_once
from ebbtide.settings.sections.grammar import choice, text_schema
from ebbtide.settings.sections.owned import Owned
from ebbtide.settings.sections.pods.group import NODE_GROUP, GroupPodSettings
from ebbtide.settings.sections.pods.pod import Gpu, PodSettings
from ebbtide.settings.sections.pods.probes import Probes
from ebbtide.settings.sections.pods.volumes import no_claims
from ebbtide.settings.sections.types import Count, Image, Mebibytes, Positive, PositiveDuration, ShortName
from ebbtide.text.durations import format_duration
from ebbtide.vocabulary.workloads import SleepWhen, Wake

STOP_MARGIN = timedelta(minutes=2)
"""Time after the longest task: to hand over objects, notify the head and exit."""

KNOWN_VERSIONS = ("2.60",)
"""Minor versions of Ray that were tested with the pinned operator: autoscaler v2, tokens, and a drain at SIGTERM, which
Ray has from 2.60 on (ray-project/ray, pull request 64454).
"""

NAMESPACE_PREFIX = "ebbtide-ray-"

ALL_ELSE = timedelta(minutes=10)
"""Time of a deletion after the last pod: the same as Pulumi allows for any object of the cluster."""

RAY_OPERATOR = "kuberay-operator"
"""Workload of KubeRay's operator, in the controller's namespace."""

RAY_ENV = "EBBTIDE_RAY"
"""Variable that names a pool's Ray cluster for the jobs' library, as JSON."""
RAY_TOKEN_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")
"""Variables that Ray itself reads."""

RECONNECT = ("RAY_gcs_rpc_server_reconnect_timeout_s", "600")
"""Seconds for which a raylet waits for a head before it exits. KubeRay sets it in Ray's pods if the head's state
outlives the head; Ray's default, a minute, ends before a new head is ready.
"""

TOKEN_KEY = "auth_token"
"""Key in the Secret of a cluster's token, as KubeRay expects it."""

HOME = "/tmp"
"""Home of Ray's processes: a volume, since an image's home may belong to another user."""

HEAD = "head"
RAY_CONTAINER = "ray"
"""Name of the container of head and workers."""

AUTOSCALER_CPU, AUTOSCALER_MEMORY = 200, 512
"""Millicores and MiB of the autoscaler's container in the head's pod."""

_VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+$"
_TAG = re.compile(r":v?([0-9]+\.[0-9]+\.[0-9]+)(?![0-9])[^/@]*(?:@|$)")
_OPERATOR_WRITES = "KubeRay's operator writes it, from Ray's own settings"


def _version(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(_VERSION, value) is None:
        hint = "quote it" if isinstance(value, int | float) else ""
        raise wanted("ray.version-form", "Ray's version, in three numbers", example='"2.60.0"', hint=hint)
    if value.rpartition(".")[0] not in KNOWN_VERSIONS:
        expected = f"a version of Ray that Ebbtide was tested with: {', '.join(KNOWN_VERSIONS)}"
        hint = "before 2.60 a stopping worker kills its tasks"
        raise wanted("ray.version-unknown", expected, found=value, example=f'"{KNOWN_VERSIONS[-1]}.0"', hint=hint)
    return value


RayVersion: TypeAlias = Annotated[str, BeforeValidator(_version), text_schema(_VERSION)]


def _no_gpu(gpu: Gpu) -> None:
    if gpu.count:
        raise wanted("ray.head-gpu", "no GPU for the head: it runs no tasks", found=str(gpu.count), at="gpu")


def _whole_cores(cpu: int) -> None:
    if cpu % 1000:
        expected = "whole cores, since Ray usually assigns one core to a task"
        raise wanted("ray.cores", expected, found=f"{cpu}m", example=str(max(1, cpu // 1000)), at="cpu")


def _image_of_version(version: str, image: str) -> None:
    tagged = _TAG.search(image)
    if tagged and tagged[1] != version:
        expected = f"an image of Ray {version}, the value of version"
        raise wanted("ray.image-version", expected, found=image, example=image.replace(tagged[1], version), at="image")


_LEFT_OUT: Mapping[str, str] = {
    "image": "head and workers run the same Ray: the image is the cluster's, one level up",
    **dict.fromkeys(("command", "args", "ports", "probes"), _OPERATOR_WRITES),
    "priority": "Ray's tasks have no priorities, so its pods have none",
}


def _refused_key(key: str) -> Check:
    """Refuse a key that other pods have."""

    def check(value: object) -> None:
        if value not in ("", (), {}, None, Probes()):
            raise wanted("ray.not-its-own", "the key left out", hint=_LEFT_OUT[key], at=key)

    return Check((key,), check)


_OF_RAY_PODS = (*PodSettings.checks, *map(_refused_key, _LEFT_OUT))


class RayPod(PodSettings):
    """Keys that head and groups share. The image is filled in from the cluster's."""

    instead_of: ClassVar[dict[str, str]] = {
        "replicas": "Ray's autoscaler writes it; a group has min and max",
        "category": "the head is fixed and groups are workers, always",
    }

    image: Image = Field(default="", exclude=True, description="the image; default: the cluster's")
    spill: Mebibytes = Field(
        default=20 * 1024,
        description="space on the node's disk for objects that do not fit into shared memory",
        examples=["20Gi"],
    )


class FaultTolerance(StrEnum):
    NONE = "none"
    REDIS = "redis"


_OF_REDIS = ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME")


def _redis_is_configured_once(fault_tolerance: FaultTolerance, env: Mapping[str, object]) -> None:
    """KubeRay creates no pod for a head with both."""
    for name in _OF_REDIS if fault_tolerance is FaultTolerance.REDIS else ():
        if name in env:
            expected = "no such variable, since faultTolerance configures the head for the stack's Redis"
            raise wanted("ray.head-redis", expected, found="the variable", at=f"env.{name}")


class RayHead(RayPod):
    """The head: one fixed pod without tasks."""

    checks: ClassVar[tuple[Check, ...]] = (
        *_OF_RAY_PODS,
        Check(("gpu",), _no_gpu),
        Check(("fault_tolerance", "env"), _redis_is_configured_once),
    )
    instead_of: ClassVar[dict[str, str]] = {
        **RayPod.instead_of,
        "nodeGroup": "the head is fixed: its nodes are those of the fixed group",
    }

    fault_tolerance: Annotated[FaultTolerance, *choice(*FaultTolerance, planned={})] = Field(
        default=FaultTolerance.NONE,
        description="redis: the head keeps its state in the stack's Redis, so tasks continue while a new head starts",
        examples=["redis"],
    )


class RayGroup(RayPod, GroupPodSettings):
    """Ray workers of one size."""

    checks: ClassVar[tuple[Check, ...]] = (
        *_OF_RAY_PODS,
        MIN_WITHIN_MAX,
        Check(("cpu",), _whole_cores),
        Check(("volumes",), no_claims),
    )
    not_on_fixed: ClassVar[str] = "Ray's workers come and go"

    min: Count = Field(
        default=0, description="minimum number of workers; above 0 their nodes stay up overnight", examples=["0"]
    )
    max: Positive = Field(description="maximum number of workers", examples=["20"])
    idle_after: PositiveDuration = Field(
        default=timedelta(minutes=2),
        alias="idleAfter",
        description="time after which a worker without tasks, and without objects that others need, is removed",
        examples=["2m"],
    )
    node_group: str = Field(default="", description=NODE_GROUP, examples=["gpu"])
    spot: Annotated[bool, Strict()] = Field(
        default=False,
        description="its tasks may be repeated, so its pods may be evicted together, as spot nodes require",
        examples=["true"],
    )

    @property
    def least(self) -> int:
        return self.min

    @property
    def most(self) -> int:
        return self.max


class SleepSettings(Settings):
    """Suspension of the entire cluster, including the head, and its wake-up. An unknown state counts as awake."""

    when: Annotated[SleepWhen, *choice(*SleepWhen, planned={})] = Field(
        description="never, whatever the other keys are; idle: whenever it is idle; outsideBusinessHours: when it is "
        "idle outside business hours",
        examples=["outsideBusinessHours"],
    )
    after: PositiveDuration = Field(
        default=timedelta(hours=2), description="time for which it must have been idle", examples=["2h"]
    )
    wake: Annotated[tuple[Annotated[Wake, *choice(*Wake, planned={})], ...], each_once("reason", "[queue]")] = Field(
        default=(Wake.BUSINESS_HOURS, Wake.QUEUE, Wake.MANUAL),
        description="wake-up: the opening, a job in the queue of a driver pool, an operator",
        examples=["[businessHours, queue, manual]"],
    )


def _short_stop(longest_task: timedelta, groups: Mapping[str, RayGroup]) -> None:
    for name, group in groups.items():
        if group.spot and longest_task > timedelta(minutes=2) - timedelta(seconds=20):
            expected = "at most 100s on spot nodes, which stop two minutes after their notice"
            hint = "an interrupted task runs again elsewhere; set spot only for tasks that tolerate it"
            actual = f"{format_duration(longest_task)} with groups.{name}.spot"
            raise wanted("ray.spot-too-long", expected, found=actual, example="90s", hint=hint, at="longestTask")


class RaySettings(Owned):
    """One Ray cluster."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("version", "image"), _image_of_version),
        Check(("longest_task", "groups"), _short_stop),
    )
    instead_of: ClassVar[dict[str, str]] = {
        "autoscaler": "Ray's own, version 2, always: version 1 does not know which worker is idle",
        "loginShell": "a login shell does not forward SIGTERM to the worker, so tasks would be lost",
        "workers": "the key is groups",
        "suspend": "the key is sleep, with when and wake",
    }

    version: RayVersion = Field(description="version of Ray in the image", examples=['"2.60.0"'])
    image: Image = Field(description="image of head and workers", examples=["registry.example.com/ml/ray:2.60.0"])
    head: RayHead = Field(description="pod of the head", examples=["{ cpu: 2, memory: 8Gi }"])
    groups: Annotated[dict[ShortName, RayGroup], Field(min_length=1)] = Field(
        description="worker groups by name",
        examples=["{ cpu: { max: 20, cpu: 15, memory: 55Gi } }"],
    )
    longest_task: PositiveDuration = Field(
        description="longest run time of a task: a stopping worker finishes its tasks within this time",
        examples=["30m"],
    )
    sleep: SleepSettings = Field(
        default=SleepSettings(when=SleepWhen.NEVER),
        description="when the entire cluster is suspended, including the head",
        examples=["{ when: outsideBusinessHours, after: 2h }"],
    )

    def pods(self, name: str) -> Mapping[str, PodSettings]:
        """Return head and groups by the name of their pods."""
        return {head_name(name): self.head, **{group_name(name, key): group for key, group in self.groups.items()}}

    @property
    def remembers(self) -> bool:
        """True if the head's state is in Redis."""
        return self.head.fault_tolerance is FaultTolerance.REDIS

    @property
    def grace(self) -> timedelta:
        """Return the time for a worker to end its tasks."""
        return self.longest_task + STOP_MARGIN

    @property
    def deleted_within(self) -> timedelta:
        """Return the time until a deletion is complete."""
        return self.grace + ALL_ELSE


def namespace_of_ray(name: str) -> str:
    return NAMESPACE_PREFIX + name


def token_secret(cluster: str) -> str:
    """Return the Secret's name, which is the same in each namespace."""
    return f"{cluster}-ray-token"


def head_name(cluster: str) -> str:
    return f"{cluster}-{HEAD}"


def group_name(cluster: str, group: str) -> str:
    return f"{cluster}-{group}"


def with_image(settings: RaySettings) -> RaySettings:
    """Return the cluster with its image set for each of its pods."""
    image = {"image": settings.image}
    return settings.model_copy(
        update={
            "head": settings.head.model_copy(update=image),
            "groups": {name: group.model_copy(update=image) for name, group in settings.groups.items()},
        }
    )
