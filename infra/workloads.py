"""The workloads of a stack, the namespaces of workloads that start pods, and the snapshots of disks."""

from collections.abc import Mapping, Sequence

import pulumi

from components.cluster.namespaces import OwnNamespace, OwnNamespaceArgs
from components.pods.disks import own_disks
from components.pods.redis_access import PUBLIC, redis_authority
from components.pods.rules import nodes_of_architecture, nodes_of_kind
from components.pods.workload import Workload, WorkloadArgs
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.packing import lasting_pods, room_for_next
from ebbtide.settings.capacity.placement import architecture, home_of
from ebbtide.settings.declared import namespace_of
from ebbtide.settings.sections.serving.services import ServedWorkload
from infra.site import Site

_KINDS_OF_STARTED = (NodeKind.FLEXIBLE, NodeKind.GPU)


def workload_namespaces(site: Site) -> Mapping[str, OwnNamespace]:
    """Create a namespace for each workload that starts pods."""
    return {
        name: OwnNamespace(
            f"own-{name}",
            OwnNamespaceArgs(
                stack=site.stack, workload=name, rights=workload.kubernetes, nodes=_nodes_of_started_pods(site)
            ),
            site.after(),
        )
        for name, workload in site.settings.workloads.items()
        if workload.kubernetes is not None
    }


def workloads(
    site: Site, namespaces: Mapping[str, OwnNamespace], options: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Create the workloads and the pods of services."""
    settings = site.settings
    pods = lasting_pods(settings)
    return [
        Workload(
            name,
            WorkloadArgs(
                stack=site.stack,
                name=name,
                namespace=namespaces[name].namespace.metadata.name if name in namespaces else site.stack.namespace,
                settings=workload,
                node_kind=home_of(workload),
                balancing=site.balancing,
                nodes=site.nodes_of(workload),
                redis_authority=(
                    redis_authority(settings.redis)
                    if isinstance(workload, ServedWorkload) and workload.keeps_sessions
                    else PUBLIC
                ),
                room_for_next=room_for_next(workload, settings, pods),
            ),
            site.with_role("workload", name, workload, namespace_of(name, workload), options),
        )
        for name, workload in settings.all_workloads.items()
    ]


def snapshots(site: Site) -> None:
    """Create the snapshot policies of disks. No resource depends on them: a policy finds disks by their tags."""
    settings = site.settings
    policies = [
        (disks, volume.snapshots)
        for name, workload in settings.all_workloads.items()
        for disks, volume in own_disks(settings.customer, name, workload)
        if volume.snapshots is not None
    ]
    if not policies or site.cluster.aws is None:
        return
    # Imported here, since a stack on an existing cluster runs without pulumi_aws.
    from components.aws.snapshots import DiskSnapshots, DiskSnapshotsArgs, SnapshotsOfDisks

    volumes = [SnapshotsOfDisks(disks=disks, policy=policy) for disks, policy in policies]
    args = DiskSnapshotsArgs(stack=site.stack, volumes=volumes)
    DiskSnapshots("snapshots", args, pulumi.ResourceOptions(providers=[site.cluster.aws]))


def _nodes_of_started_pods(site: Site) -> Sequence[Mapping[str, str]]:
    """Return the selectors that a started pod may have; none if the cluster has no labels for flexible nodes."""
    if site.on_eks:
        return [labels for kind in _KINDS_OF_STARTED for labels in _nodes_of_kind(site, kind)]
    sets = site.settings.cluster.node_selectors
    if NodeKind.FLEXIBLE.value not in sets:
        return []
    return [sets[kind.value] for kind in _KINDS_OF_STARTED if kind.value in sets]


def _nodes_of_kind(site: Site, kind: NodeKind) -> Sequence[Mapping[str, str]]:
    """Return one selector for each processor architecture, if the groups of this kind have several."""
    groups = [group for group in site.settings.node_groups.values() if group.kind is kind]
    architectures = sorted({architecture(group) for group in groups})
    if len(architectures) < 2:
        return [nodes_of_kind(kind)]
    return [nodes_of_kind(kind) | nodes_of_architecture(name) for name in architectures]
