"""The section of workloads: what runs always."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from ebbtide.settings.checked import Check, Settings
from ebbtide.settings.types import Count, Image, Mebibytes, Millicores, Positive, acted_on
from ebbtide.settings.wanted import wanted
from ebbtide.vocabulary.labels import Category, ReplicasOwner


class WorkloadKind(StrEnum):
    DEPLOYMENT = "deployment"
    STATEFUL_SET = "stateful-set"


def _owner_suits_category(category: Category, owner: ReplicasOwner) -> None:
    if category is Category.FIXED and owner is ReplicasOwner.HPA:
        what = "pulumi, since an autoscaler removes pods and a fixed one is never removed"
        raise wanted(what, example="pulumi", at="replicasOwner")


class WorkloadSettings(Settings):
    """A service that stays: not a queue worker."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("category", "replicas_owner"), _owner_suits_category),)

    category: Annotated[
        Category,
        *acted_on("fixed", "flexible", planned={"worker": "queue workers belong under ebbtide:workers"}),
    ] = Field(description="fixed is never moved, flexible only outside business hours", examples=["flexible"])
    image: Image = Field(description="container image", examples=["registry.example.com/ml/api:1.4.2"])
    kind: WorkloadKind = Field(default=WorkloadKind.DEPLOYMENT, description="what runs it", examples=["deployment"])
    replicas: Positive = Field(default=1, description="pods", examples=["3"])
    replicas_owner: Annotated[
        ReplicasOwner,
        *acted_on("pulumi", "hpa", planned={"controller": "the controller sizes worker pools only, so far"}),
    ] = Field(
        default=ReplicasOwner.PULUMI,
        description="who writes the number of replicas; hpa: your own autoscaler, and `replicas` is its start",
        examples=["pulumi"],
    )
    cpu: Millicores = Field(description="CPU request per pod, in cores or millicores", examples=["2", "500m"])
    memory: Mebibytes = Field(description="memory request and limit per pod", examples=["8Gi"])
    gpu: Count = Field(default=0, description="GPUs per pod", examples=["1"])
