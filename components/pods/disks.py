"""The disks that a StatefulSet claims for each pod, and the StorageClasses of disks that outlive their claims.

Disks are kept when the StatefulSet or a pod is deleted, since they contain the state; the page on a stack's last day
shows how to remove them. A destroy of the stack deletes the namespaces, and with them the claims. On EKS the disks stay
even then: these classes retain them, while the cluster's default class would delete them. A class that the stack file
names, and the default class of an existing cluster, have their own reclaim policies.

A disk stays in the zone where its first pod started, and the pod must stay there too. This needs no extra nodes: each
zone has node groups that may have at least one node, and the autoscaler reads from the volume which group to grow (the
driver uses Kubernetes' zone label since 1.33). A claim cannot be changed in place: Kubernetes accepts another size or
class only for a new StatefulSet.

**Each volume has a class**, since the EBS driver takes a disk's tags from its class. Data Lifecycle Manager takes
snapshots of all disks that have *any* of a policy's tags, so the driver's default tags, the claim's name and namespace,
would also match the disks of other customers in the account. One tag names customer, workload and volume. The class has
this tag whether or not snapshots are taken: a disk's tags cannot be changed later, so snapshots of a running service
can begin and end at any time.
Sources: terraform-provider-aws, `dlm_lifecycle_policy`, `target_tags`; aws-ebs-csi-driver, `docs/tagging.md`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import pulumi
from pulumi_kubernetes.storage.v1 import StorageClass

from ebbtide.provisioning_labels import CUSTOMER, VOLUME
from ebbtide.settings.sections.pods.volumes import Volume
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.text.quantities import memory_quantity

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import StatefulSetPersistentVolumeClaimRetentionPolicyArgsDict
    from pulumi_kubernetes.core.v1 import PersistentVolumeClaimArgsDict, PersistentVolumeClaimSpecArgsDict


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """The disks of one volume of a workload, one for each pod. No part of the name contains a dot."""

    customer: str
    workload: str
    volume: str

    @property
    def class_name(self) -> str:
        return f"ebbtide.{self.workload}.{self.volume}"

    @property
    def tags(self) -> Mapping[str, str]:
        return {VOLUME: f"{self.customer}.{self.workload}.{self.volume}"}


def kept_class(
    resource_name: str,
    name: str,
    customer: str,
    *,
    tags: Mapping[str, str] | None = None,
    options: pulumi.ResourceOptions,
) -> StorageClass:
    """Create a class like the cluster's default class, except that it retains disks. The disks get `tags`."""
    specified = {f"tagSpecification_{n}": f"{key}={value}" for n, (key, value) in enumerate((tags or {}).items(), 1)}
    return StorageClass(
        resource_name,
        metadata={"name": name, "labels": {CUSTOMER: customer}},
        provisioner="ebs.csi.aws.com",
        parameters={"type": "gp3", "encrypted": "true", **specified},
        volume_binding_mode="WaitForFirstConsumer",
        allow_volume_expansion=True,
        reclaim_policy="Retain",
        opts=options,
    )


_KEPT = "Retain"


class Claims(TypedDict, total=False):
    """Fields of a StatefulSet's spec."""

    volume_claim_templates: "list[PersistentVolumeClaimArgsDict]"
    persistent_volume_claim_retention_policy: "StatefulSetPersistentVolumeClaimRetentionPolicyArgsDict"


def own_disks(customer: str, workload: str, settings: WorkloadSettings) -> Iterator[tuple[Disks, Volume]]:
    """Return the volumes whose disks have a class of Ebbtide, for clusters with the EBS driver."""
    for name, volume in settings.volumes.items():
        if volume.per_pod is not None and volume.class_ is None:
            yield Disks(customer=customer, workload=workload, volume=name), volume


def claims(settings: WorkloadSettings, disks: Mapping[str, Disks]) -> Claims:
    """Return the claims of a StatefulSet. `disks`: the disks with a class of Ebbtide, by volume."""
    templates = [
        _claim(name, volume.per_pod, disks[name].class_name if name in disks else volume.class_)
        for name, volume in settings.volumes.items()
        if volume.per_pod is not None
    ]
    if not templates:
        return {}
    return {
        "volume_claim_templates": templates,
        "persistent_volume_claim_retention_policy": {"when_deleted": _KEPT, "when_scaled": _KEPT},
    }


def classes(disks_by_volume: Mapping[str, Disks], *, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """Create the classes, which must exist while claims are created."""
    return [
        kept_class(
            f"{disks.workload}.{disks.volume}-class",
            disks.class_name,
            disks.customer,
            tags=disks.tags,
            options=pulumi.ResourceOptions(parent=parent),
        )
        for disks in disks_by_volume.values()
    ]


def _claim(name: str, mebibytes: int, storage_class: str | None) -> "PersistentVolumeClaimArgsDict":
    spec: PersistentVolumeClaimSpecArgsDict = {
        "access_modes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": memory_quantity(mebibytes)}},
    }
    if storage_class is not None:
        spec["storage_class_name"] = storage_class
    return {"metadata": {"name": name}, "spec": spec}
