"""One workload that runs always: its Deployment or StatefulSet, and the budget that says when it may be moved.

Moving a workload between fixed and flexible changes labels, placement and rollout, never a selector or a resource name:
nothing is replaced.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment, StatefulSet
from pulumi_kubernetes.core.v1 import Service

from components.budget import closed_budget
from components.egress import OPEN, Egress
from components.images import UPSTREAM, ImageSource
from components.ownership import REPLICAS, REPLICAS_OWNER, FieldOwner, OwnedField, OwnershipTable, hand_over
from components.pod_rules import (
    PodIdentity,
    affinity,
    container_security,
    home,
    pod_security,
    resources,
    spread,
    tolerations,
)
from ebbtide.settings.workloads import WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import Category, NodeKind, ReplicasOwner

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import DeploymentStrategyArgsDict
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict, PodTemplateSpecArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation: `pulumi up` does not wait for this object to become ready."""

# What tells the pods of one rollout from those of the one before.
_REVISION_LABEL = {
    WorkloadKind.DEPLOYMENT: "pod-template-hash",
    WorkloadKind.STATEFUL_SET: "controller-revision-hash",
}
_FIELD_OWNER = {ReplicasOwner.CONTROLLER: FieldOwner.CONTROLLER, ReplicasOwner.HPA: FieldOwner.HPA}


@dataclass(frozen=True, kw_only=True)
class WorkloadArgs:
    name: str
    namespace: pulumi.Input[str]
    settings: WorkloadSettings
    customer: str
    node_kind: NodeKind
    ownership: OwnershipTable | None = None
    images: ImageSource = UPSTREAM
    egress: Egress = OPEN

    @property
    def identity(self) -> PodIdentity:
        return PodIdentity(name=self.name, category=self.settings.category, customer=self.customer)


class Workload(pulumi.ComponentResource):
    def __init__(self, name: str, args: WorkloadArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Workload", name, None, opts)
        closed_budget(f"{name}-budget", args.identity, args.namespace, parent=self, table=args.ownership)
        if args.settings.kind is WorkloadKind.STATEFUL_SET:
            self._stateful_set(name, args)
        else:
            self._deployment(name, args)
        self.register_outputs({})

    def _deployment(self, name: str, args: WorkloadArgs) -> None:
        Deployment(
            f"{name}-deployment",
            metadata=_metadata(args),
            spec={
                "replicas": args.settings.replicas,
                "selector": {"match_labels": args.identity.selector},
                "strategy": _strategy(args.settings.category),
                "revision_history_limit": 3,
                "template": _template(args),
            },
            opts=_replicas_options(args, "Deployment", parent=self),
        )

    def _stateful_set(self, name: str, args: WorkloadArgs) -> None:
        identity = args.identity
        service = Service(  # gives each pod its name; headless, so that nothing waits for its endpoints
            f"{name}-service",
            metadata={"name": args.name, "namespace": args.namespace, "labels": identity.labels},
            spec={"cluster_ip": "None", "selector": identity.selector},
            opts=pulumi.ResourceOptions(parent=self),
        )
        StatefulSet(
            f"{name}-stateful-set",
            metadata=_metadata(args),
            spec={
                "replicas": args.settings.replicas,
                "service_name": args.name,
                "selector": {"match_labels": identity.selector},
                "revision_history_limit": 3,
                "template": _template(args),
            },
            opts=pulumi.ResourceOptions.merge(
                _replicas_options(args, "StatefulSet", parent=self), pulumi.ResourceOptions(depends_on=[service])
            ),
        )


def _replicas_options(args: WorkloadArgs, kind: str, *, parent: pulumi.Resource) -> pulumi.ResourceOptions:
    owner = _FIELD_OWNER.get(args.settings.replicas_owner)
    if owner is None:
        return pulumi.ResourceOptions(parent=parent)
    field = OwnedField(
        kind=kind,
        namespace=args.namespace,
        name=args.name,
        field=REPLICAS,
        owner=owner,
        initial=args.settings.replicas,
    )
    return hand_over(field, parent=parent, table=args.ownership)


def _metadata(args: WorkloadArgs) -> "ObjectMetaArgsDict":
    annotations: dict[str, str] = {}
    if args.settings.gpu or args.settings.replicas == 0:
        annotations[SKIP_AWAIT] = "true"  # its node has yet to be bought, or it has no pods to wait for
    if args.settings.replicas_owner is not ReplicasOwner.PULUMI:
        annotations[REPLICAS_OWNER] = args.settings.replicas_owner.value
    metadata: ObjectMetaArgsDict = {"name": args.name, "namespace": args.namespace, "labels": args.identity.labels}
    return {**metadata, "annotations": annotations} if annotations else metadata


def _strategy(category: Category) -> "DeploymentStrategyArgsDict":
    """Flexible nodes can be bought for one pod more; fixed nodes are few and full, so there the old pod goes first.

    That also keeps an orchestrator from running twice over.
    """
    surge, unavailable = (0, 1) if category is Category.FIXED else (1, 0)
    return {"type": "RollingUpdate", "rolling_update": {"max_surge": surge, "max_unavailable": unavailable}}


def _template(args: WorkloadArgs) -> "PodTemplateSpecArgsDict":
    settings, identity = args.settings, args.identity
    pod: PodSpecArgsDict = {
        "affinity": affinity(settings.category),
        "topology_spread_constraints": spread(identity, revision_label=_REVISION_LABEL[settings.kind]),
        **home(args.node_kind),
        "tolerations": tolerations(settings.gpu),
        "automount_service_account_token": False,
        "security_context": pod_security(),
        "containers": [
            {
                "name": args.name,
                "image": settings.image,
                "resources": resources(cpu=settings.cpu, memory=settings.memory, gpu=settings.gpu),
                "security_context": container_security(),
            }
        ],
    }
    return {"metadata": {"labels": identity.labels}, "spec": args.images.pulled(args.egress.through(pod))}
