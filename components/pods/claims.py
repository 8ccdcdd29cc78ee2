"""The disks that a StatefulSet claims for each pod. Pure, except for their StorageClasses: settings in, fields out.

They are kept when the set or a pod goes, since what is on them is the state; the page on a stack's last day says how to
remove them. A destroy of the whole stack is another thing: the namespace goes, and its claims with it. On EKS a disk
stays even then, by the class of its volume (`components.disks`); a class that the file names, or the default one of a
cluster that was there already, decides for itself.

A disk stays in the zone where its first pod came to be, and so does that pod. No further nodes need be kept for that:
each zone has node groups of its own with room for at least one node, and the autoscaler sees in the volume's own terms
which of them to grow (the driver names zones by Kubernetes' own label since 1.33).

A claim cannot be changed in place: Kubernetes takes another size or class only of a new StatefulSet.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict

import pulumi

from components.disks import Disks, kept_class
from ebbtide.settings.sections.pods.volumes import Volume
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.units.quantities import memory_quantity

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import StatefulSetPersistentVolumeClaimRetentionPolicyArgsDict
    from pulumi_kubernetes.core.v1 import PersistentVolumeClaimArgsDict, PersistentVolumeClaimSpecArgsDict

_KEPT = "Retain"


class Claims(TypedDict, total=False):
    """Fields of a StatefulSet's spec."""

    volume_claim_templates: "list[PersistentVolumeClaimArgsDict]"
    persistent_volume_claim_retention_policy: "StatefulSetPersistentVolumeClaimRetentionPolicyArgsDict"


def own_disks(customer: str, workload: str, settings: WorkloadSettings) -> Iterator[tuple[Disks, Volume]]:
    """The volumes whose disks have a class of Ebbtide's own, where the cluster has the driver of EBS."""
    for name, volume in settings.volumes.items():
        if volume.per_pod is not None and volume.class_ is None:
            yield Disks(customer=customer, workload=workload, volume=name), volume


def claims(settings: WorkloadSettings, own: Mapping[str, Disks]) -> Claims:
    """`own`: the disks with a class of Ebbtide's own, by volume."""
    templates = [
        _claim(name, volume.per_pod, own[name].class_name if name in own else volume.class_)
        for name, volume in settings.volumes.items()
        if volume.per_pod is not None
    ]
    if not templates:
        return {}
    return {
        "volume_claim_templates": templates,
        "persistent_volume_claim_retention_policy": {"when_deleted": _KEPT, "when_scaled": _KEPT},
    }


def classes(own: Mapping[str, Disks], *, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """They must be there before the first claim, and for as long as claims are made."""
    return [
        kept_class(
            f"{disks.workload}.{disks.volume}-class",
            disks.class_name,
            disks.customer,
            tags=disks.tags,
            options=pulumi.ResourceOptions(parent=parent),
        )
        for disks in own.values()
    ]


def _claim(name: str, mebibytes: int, storage_class: str | None) -> "PersistentVolumeClaimArgsDict":
    spec: PersistentVolumeClaimSpecArgsDict = {
        "access_modes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": memory_quantity(mebibytes)}},
    }
    if storage_class is not None:
        spec["storage_class_name"] = storage_class
    return {"metadata": {"name": name}, "spec": spec}
