"""The section of workloads: pods that always run."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field

from ebbtide.provisioning_labels import ReplicasOwner
from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.entrance import ENTRANCE_CHECKS, Expose, Ingress
from ebbtide.settings.sections.grammar import choice
from ebbtide.settings.sections.pods.kubernetes import KubernetesRights
from ebbtide.settings.sections.pods.pod import INGRESS, ScrapedPodSettings, one_account
from ebbtide.settings.sections.pods.volumes import Volume, one_node_for_one_pod
from ebbtide.settings.sections.sleep import SLEEP_CHECKS, SleepKey
from ebbtide.settings.sections.types import Mebibytes, Millicores, Positive
from ebbtide.text.quantities import cpu_quantity, memory_quantity
from ebbtide.vocabulary.labels import Category


class WorkloadKind(StrEnum):
    DEPLOYMENT = "deployment"
    STATEFUL_SET = "stateful-set"


class Vertical(StrEnum):
    """Mode of the Vertical Pod Autoscaler: off, requests of new pods, or also of running ones."""

    OFF = "off"
    INITIAL = "initial"
    IN_PLACE = "inPlace"


def _vertical_suits_category(category: Category, vertical: Vertical) -> None:
    if category is Category.FIXED and vertical is not Vertical.OFF:
        expected = "off for a fixed workload: a resize moves the pod if its node has no room"
        raise wanted("vertical.fixed", expected, found=vertical.value, example='"off"', at="vertical")


def _one_autoscaler(owner: ReplicasOwner, vertical: Vertical) -> None:
    if owner is ReplicasOwner.HPA and vertical is not Vertical.OFF:
        expected = "off with replicasOwner: hpa, which may scale by CPU or memory: they would undo each other's changes"
        raise wanted("vertical.scaled", expected, found=vertical.value, example='"off"', at="vertical")


class VerticalFloor(Settings):
    """Minimum of the Vertical Pod Autoscaler. Limits follow requests, so it is also the minimum of the memory limit."""

    cpu: Millicores | None = Field(default=None, description="CPU; default: none", examples=["250m"])
    memory: Mebibytes | None = Field(default=None, description="memory; default: none", examples=["2Gi"])

    @property
    def quantities(self) -> Mapping[str, str]:
        """Return the quantities that are set."""
        cpu = {} if self.cpu is None else {"cpu": cpu_quantity(self.cpu)}
        return cpu if self.memory is None else {**cpu, "memory": memory_quantity(self.memory)}


def _floor_has_something_to_hold(category: Category, vertical: Vertical, least: VerticalFloor | None) -> None:
    if least is not None and category is Category.FIXED:
        expected = "no verticalMin on a fixed workload, whose requests only the file sets"
        raise wanted("vertical.fixed", expected, found="the key", example="category: flexible", at="verticalMin")
    if least is not None and vertical is Vertical.OFF:
        expected = "vertical: initial or inPlace with verticalMin, which is the minimum that it sets"
        raise wanted("vertical.floor-alone", expected, found="off", example="vertical: inPlace", at="verticalMin")


def _floor_within_request(least: VerticalFloor | None, cpu: int, memory: int) -> None:
    """The floor is at most the request, since the request decides on which node the pod fits."""
    if least is None:
        return
    for key, floor, request, unit in (("cpu", least.cpu, cpu, "m"), ("memory", least.memory, memory, "Mi")):
        if floor is not None and floor > request:
            expected = f"at most the request, which is {request}{unit}"
            actual, example = f"{floor}{unit}", f"{request}{unit}"
            raise wanted(
                "vertical.floor-above-request", expected, found=actual, example=example, at=("verticalMin", key)
            )


VerticalText: TypeAlias = Annotated[Vertical, *choice(*Vertical, planned={})]

VERTICAL_CHECKS = (
    Check(("category", "vertical"), _vertical_suits_category),
    Check(("category", "vertical", "vertical_min"), _floor_has_something_to_hold),
    Check(("vertical_min", "cpu", "memory"), _floor_within_request),
)
VERTICAL_MIN = "minimum that vertical sets for each pod, so that a lowered memory limit kills none; default: none"


def _owner_suits_category(category: Category, owner: ReplicasOwner) -> None:
    if category is Category.FIXED and owner is ReplicasOwner.HPA:
        expected = "pulumi, since an autoscaler removes pods and a fixed one is never removed"
        raise wanted("replicas-owner.fixed", expected, example="pulumi", at="replicasOwner")


def _claims_suit_kind(kind: WorkloadKind, volumes: Mapping[str, Volume]) -> None:
    for name, volume in volumes.items():
        if volume.per_pod is not None and kind is not WorkloadKind.STATEFUL_SET:
            expected = "perPod only with kind: stateful-set, whose pods keep their names and disks"
            raise wanted(
                "volume.per-pod-kind",
                expected,
                found=f"kind: {kind.value}",
                example="kind: stateful-set",
                at=("volumes", name, "perPod"),
            )


def _claims_suit_pods(volumes: Mapping[str, Volume], replicas: int, owner: ReplicasOwner) -> None:
    if owner is ReplicasOwner.HPA:
        one_node_for_one_pod(volumes, pods="replicasOwner: hpa")
    elif replicas > 1:
        one_node_for_one_pod(volumes, pods=f"replicas: {replicas}")


def _priority_suits_category(category: Category, priority: int | None) -> None:
    if category is Category.FIXED and priority is not None:
        expected = "no priority for a fixed workload, which has the priority of the cluster's critical pods"
        raise wanted("priority.fixed", expected, found=str(priority), example="category: flexible", at="priority")


def _starters_are_fixed(category: Category, kubernetes: KubernetesRights | None) -> None:
    if kubernetes is not None and category is not Category.FIXED:
        expected = "fixed, for a workload with rights at the API server: a workload that starts pods holds their state"
        hint = "and the controller opens budgets only in the namespace ebbtide"
        raise wanted("kubernetes.not-fixed", expected, found=category, example="fixed", hint=hint, at="category")


class WorkloadSettings(ScrapedPodSettings):
    """A long-running workload."""

    checks: ClassVar[tuple[Check, ...]] = (
        *ScrapedPodSettings.checks,
        Check(("category", "replicas_owner"), _owner_suits_category),
        Check(("kind", "volumes"), _claims_suit_kind),
        Check(("volumes", "replicas", "replicas_owner"), _claims_suit_pods),
        Check(("category", "priority"), _priority_suits_category),
        Check(("category", "kubernetes"), _starters_are_fixed),
        one_account("kubernetes"),
        *ENTRANCE_CHECKS,
        *VERTICAL_CHECKS,
        Check(("replicas_owner", "vertical"), _one_autoscaler),
        *SLEEP_CHECKS,
    )

    category: Annotated[
        Category,
        *choice("fixed", "flexible", planned={"worker": "queue workers belong under ebbtide:workers"}),
    ] = Field(
        description="fixed pods are never evicted, flexible pods only outside business hours", examples=["flexible"]
    )
    kind: WorkloadKind = Field(default=WorkloadKind.DEPLOYMENT, description="kind of object", examples=["deployment"])
    replicas: Positive = Field(default=1, description="number of pods", examples=["3"])
    replicas_owner: Annotated[
        ReplicasOwner,
        *choice("pulumi", "hpa", planned={"controller": "it follows from sleep, and worker pools always have it"}),
    ] = Field(
        default=ReplicasOwner.PULUMI,
        description="owner of the number of replicas; hpa: your own autoscaler, which starts at `replicas`",
        examples=["pulumi"],
    )
    sleep: SleepKey = None
    kubernetes: KubernetesRights | None = Field(
        default=None,
        description="Kubernetes permissions of a workload that starts pods, limited to its own namespace; "
        "default: none, and no token",
        examples=['{ rules: [{ groups: [""], resources: [pods], verbs: [get, list, watch, create, delete] }] }'],
    )
    vertical: VerticalText = Field(
        default=Vertical.OFF,
        description="requests set by the Vertical Pod Autoscaler: off; initial: for new pods; inPlace: also "
        "for running pods",
        examples=["initial"],
    )
    vertical_min: VerticalFloor | None = Field(
        default=None, description=VERTICAL_MIN, examples=["{ cpu: 250m, memory: 2Gi }"]
    )
    ingress: Ingress | None = Field(
        default=None,
        description="host and path at an ingress controller of the cluster",
        examples=["{ host: api.example.com, tls: api-tls, class: nginx }"],
    )
    expose: Expose | None = Field(
        default=None,
        description="a network load balancer, on EKS; internal unless `public`",
        examples=["{ port: http }"],
    )

    @property
    def has_disks(self) -> bool:
        """True if each pod has its own disk, which binds it to a zone."""
        return any(volume.per_pod is not None for volume in self.volumes.values())

    @property
    def sleeps(self) -> bool:
        return self.sleep is not None and self.sleep.sleeps

    @property
    def gone_at_night(self) -> bool:
        """True if it has no pod while budgets are open."""
        return self.sleep is not None and self.sleep.gone_at_night

    @property
    def replicas_writer(self) -> ReplicasOwner:
        """Return the writer of its replicas: the workload controller, if it sleeps.

        With `when: never` it is the declared owner: a workload that never slept keeps this writer, and a file without
        the number would reset it to 1.
        """
        return ReplicasOwner.CONTROLLER if self.sleeps else self.replicas_owner

    @property
    def opens(self) -> bool:
        """True if its budget opens outside business hours."""
        return self.category is Category.FLEXIBLE

    @property
    def on_spot(self) -> bool:
        """True if its pods run on nodes that AWS may reclaim, so that all pods of a node may be evicted at once."""
        return False

    @property
    def least(self) -> int:
        """Return its maximum: its nodes have room for all pods at any time."""
        return self.most

    @property
    def most(self) -> int:
        """Return its maximum number of pods, as far as the file has it."""
        return self.replicas

    @property
    def is_alone(self) -> bool:
        """True if at most one pod ever runs."""
        return self.replicas == 1 and self.replicas_owner is ReplicasOwner.PULUMI

    @property
    def starts_pods(self) -> bool:
        return self.kubernetes is not None

    def secret_references(self) -> Iterator[tuple[tuple[str | int, ...], str, str | None]]:
        yield from super().secret_references()
        if self.sleep is not None and self.sleep.hub is not None:
            yield ("sleep", "hub", "key"), self.sleep.hub.secret, self.sleep.hub.key
        if self.ingress is not None and self.ingress.tls is not None:
            for key in ("tls.crt", "tls.key"):
                yield (INGRESS, "tls"), self.ingress.tls, key
