"""Snapshots of the disks of stateful services, by Amazon Data Lifecycle Manager.

Each volume has a policy, which finds the disks by the tag of their class (`components.pods.disks`). One role serves all
policies of the stack. A destroy deletes the policies and keeps the snapshots, which then stay until somebody deletes
them.

Three traps. Snapshots of a renamed schedule are never deleted, so its name contains neither interval nor number. A
description may contain only letters, digits, spaces, hyphens and underscores. A tag that is both copied from the disk
and added is a duplicate: the disks already have the cost tags and a name, so the policy adds none.
Sources: the EBS User Guide, "View, modify, and delete lifecycle policies"; the DLM API, `CreateLifecyclePolicy`; the
EC2 API, `CreateSnapshot`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws.dlm import LifecyclePolicy

from components.aws.iam import granted_role, service_trust
from components.context import StackContext
from components.pods.disks import Disks
from ebbtide.settings.sections.pods.volumes import Snapshots

_SCHEDULE = "snapshots"
_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsOfDisks:
    disks: Disks
    policy: Snapshots


@dataclass(frozen=True, kw_only=True)
class DiskSnapshotsArgs:
    stack: StackContext
    volumes: Sequence[SnapshotsOfDisks]


class DiskSnapshots(pulumi.ComponentResource):
    def __init__(self, name: str, args: DiskSnapshotsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:DiskSnapshots", name, None, opts)
        granted = granted_role(
            name,
            trust=service_trust("dlm.amazonaws.com"),
            policies=["service-role/AWSDataLifecycleManagerServiceRole"],
            tags=args.stack.tags,
            parent=self,
        )
        for volume in args.volumes:
            disks, policy = volume.disks, volume.policy
            LifecyclePolicy(
                f"{name}-{disks.workload}.{disks.volume}",
                description=f"Ebbtide {disks.customer} disks {disks.volume} of {disks.workload}",
                execution_role_arn=granted.role.arn,
                policy_details={
                    "policy_type": "EBS_SNAPSHOT_MANAGEMENT",
                    "resource_types": ["VOLUME"],
                    "target_tags": disks.tags,
                    "schedules": [
                        {
                            "name": _SCHEDULE,
                            "create_rule": {
                                "interval": int(policy.every.total_seconds()) // _HOUR,
                                "interval_unit": "HOURS",
                            },
                            "retain_rule": {"count": policy.keep},
                            "copy_tags": True,
                        }
                    ],
                },
                state="ENABLED",
                tags={**args.stack.tags, **disks.tags, "Name": f"{disks.customer}-{disks.workload}-{disks.volume}"},
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*granted.grants]),
            )
        self.register_outputs({})
