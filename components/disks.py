"""The StorageClass of disks that outlive their claims, and the tag that identifies the disks of one volume.

A destroy deletes the namespaces, and with them the claims; the class of a disk says whether it goes too. The cluster's
default class deletes it, these classes keep it: data is somebody's work.

**A class for each volume**, since a class is how the driver of EBS learns a tag. Data Lifecycle Manager takes snapshots
of all disks that have *any* of a policy's tags, so the two tags that the driver sets of its own accord, a claim's name
and its namespace, would also find the disks of other customers in the account. One tag names customer, workload and
volume. The class has it whether or not snapshots are taken: what a disk was made with cannot be changed, and so
snapshots of a running service can begin and end at any time.
Sources: terraform-provider-aws, `dlm_lifecycle_policy`, `target_tags`; aws-ebs-csi-driver, `docs/tagging.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.storage.v1 import StorageClass

from ebbtide.provisioning_labels import CUSTOMER, VOLUME


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """Those of one volume of a workload: one for each of its pods. No part of a name holds a dot."""

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
    """As the cluster's default class, but for what happens to the disk in the end; `tags` are for its disks."""
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
