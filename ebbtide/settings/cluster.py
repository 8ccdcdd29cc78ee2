"""The section of the cluster itself."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from ebbtide.settings.checked import Settings
from ebbtide.settings.kubernetes_versions import KUBERNETES_VERSIONS, KubernetesVersion
from ebbtide.settings.lists import each_once, whole_list
from ebbtide.settings.types import Zone, acted_on
from ebbtide.settings.wanted import wanted


class ClusterKind(StrEnum):
    EKS = "eks"
    EXISTING = "existing"


def _two_at_least(zones: Sequence[object]) -> None:
    if len(zones) < 2:
        raise wanted("at least two zones, since EKS asks for two", example="[a, b]")


class ClusterSettings(Settings):
    """The cluster itself."""

    instead_of: ClassVar[dict[str, str]] = {"context": "an existing cluster is planned and not acted on yet"}

    kind: Annotated[
        ClusterKind, *acted_on("eks", planned={"existing": "an existing cluster is planned and not acted on yet"})
    ] = Field(default=ClusterKind.EKS, description="who makes the cluster", examples=["eks"])
    version: KubernetesVersion = Field(
        default=KUBERNETES_VERSIONS[-1],
        description="Kubernetes version; text, since 1.30 as a number is 1.3",
        examples=['"1.35"'],
    )
    zones: Annotated[tuple[Zone, ...], each_once("zone", "[a, b]"), whole_list(_two_at_least)] = Field(
        default=("a", "b"),
        description="letters of the availability zones; EKS wants two at least for its own network interfaces",
        examples=["[a, b]"],
    )
