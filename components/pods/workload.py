"""One long-running workload: a Deployment or StatefulSet, and its budget.

Moving a workload between fixed and flexible changes labels, placement and rollout, but never a selector or a resource
name, so nothing is replaced.

**On spot nodes** the budget is open for all pods, since all pods of an interrupted node have the same two minutes. An
annotation stops the autoscaler, which could otherwise drain these nodes by day. `pulumi up` waits for none of these
pods: only AWS knows whether spot nodes are available.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment, StatefulSet

from components.context import StackContext
from components.ownership import REPLICAS, REPLICAS_OWNER, FieldOwner, OwnedField, hand_over
from components.pods.account import account_fields, own_account
from components.pods.budget import closed_budget, open_budget
from components.pods.container import STOP_DELAY_SECONDS, file_maps, main_container, pod_template, pod_volumes, service
from components.pods.disks import Disks, claims, classes, own_disks
from components.pods.entrance import PLAIN, Balancing, entrances, grace, shared_service_urn, stop_delay
from components.pods.fragment import merged
from components.pods.redis_access import PUBLIC, RedisAuthority
from components.pods.rules import (
    OLD_POD_FIRST,
    NodeRequirement,
    PodIdentity,
    affinity,
    home,
    pod_security,
    priority,
    required,
    spread,
    tolerations,
)
from ebbtide.provisioning_labels import SAFE_TO_EVICT, NodeKind, ReplicasOwner
from ebbtide.settings.capacity.packing import one_at_a_time
from ebbtide.settings.capacity.pods import needs_external_objects
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.settings.sections.workloads import WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import DeploymentStrategyArgsDict
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict, PodTemplateSpecArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation of an object: `pulumi up` does not wait until the object is ready."""

# Labels whose values differ between rollouts.
_REVISION_LABEL = {
    WorkloadKind.DEPLOYMENT: "pod-template-hash",
    WorkloadKind.STATEFUL_SET: "controller-revision-hash",
}
_FIELD_OWNER = {ReplicasOwner.CONTROLLER: FieldOwner.WORKLOADS, ReplicasOwner.HPA: FieldOwner.HPA}


@dataclass(frozen=True, kw_only=True)
class WorkloadArgs:
    stack: StackContext
    name: str
    namespace: pulumi.Input[str]
    settings: WorkloadSettings
    node_kind: NodeKind
    nodes: NodeRequirement | None = None  # for the pods' GPUs, in addition to the node selector
    balancing: Balancing = PLAIN
    redis_authority: RedisAuthority = PUBLIC
    room_for_next: bool = True  # True if the nodes have capacity for one more pod during a rollout

    @property
    def identity(self) -> PodIdentity:
        return PodIdentity(name=self.name, category=self.settings.category, customer=self.stack.customer)


class Workload(pulumi.ComponentResource):
    def __init__(self, name: str, args: WorkloadArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Workload", name, None, opts)
        settings, table = args.settings, args.stack.ownership
        if settings.on_spot:
            open_budget(f"{name}.spot-budget", args.identity, args.namespace, parent=self)  # no name contains a dot
        else:
            opens = settings.opens
            closed_budget(f"{name}-budget", args.identity, args.namespace, parent=self, table=table, opens=opens)
        before = [
            *file_maps(settings, args.identity, args.namespace, parent=self),
            *own_account(
                f"{name}-account", args.identity, settings, args.namespace, parent=self, calls_api=settings.starts_pods
            ),
        ]
        stateful = settings.kind is WorkloadKind.STATEFUL_SET
        resources = self._stateful_set(name, args, before) if stateful else self._deployment(name, args, before)
        entrances(name, settings, args.identity, args.namespace, balancing=args.balancing, after=resources, parent=self)
        self.register_outputs({})

    def _deployment(self, name: str, args: WorkloadArgs, before: list[pulumi.Resource]) -> list[pulumi.Resource]:
        resources: list[pulumi.Resource] = []
        if args.settings.ports:
            waits = {SKIP_AWAIT: "true"} if _starts_later(args) else None
            former = [shared_service_urn(args.name)] if isinstance(args.settings, ServedWorkload) else []
            resources.append(
                service(
                    f"{name}-service",
                    args.settings,
                    args.identity,
                    args.namespace,
                    annotations=waits,
                    aliases=former,
                    parent=self,
                )
            )
        pods = Deployment(
            f"{name}-deployment",
            metadata=_metadata(args),
            spec={
                "replicas": args.settings.replicas,
                "selector": {"match_labels": args.identity.selector},
                "strategy": _strategy(args),
                "revision_history_limit": 3,
                "template": _template(args),
            },
            opts=after(_replicas_options(args, "Deployment", parent=self), before),
        )
        return [*resources, pods]

    def _stateful_set(self, name: str, args: WorkloadArgs, before: "list[pulumi.Resource]") -> "list[pulumi.Resource]":
        identity, disks = args.identity, _own_disks(args)
        names = service(  # gives each pod a DNS name; headless, so that `up` does not wait for endpoints
            f"{name}-service", args.settings, identity, args.namespace, headless=True, parent=self
        )
        pods = StatefulSet(
            f"{name}-stateful-set",
            metadata=_metadata(args),
            spec={
                "replicas": args.settings.replicas,
                "service_name": args.name,
                "selector": {"match_labels": identity.selector},
                "revision_history_limit": 3,
                "template": _template(args),
                **claims(args.settings, disks),
            },
            opts=after(
                _replicas_options(args, "StatefulSet", parent=self), [names, *classes(disks, parent=self), *before]
            ),
        )
        return [names, pods]


def _own_disks(args: WorkloadArgs) -> Mapping[str, Disks]:
    volumes = own_disks(args.stack.customer, args.name, args.settings) if args.stack.on_ebs else ()
    return {disks.volume: disks for disks, _ in volumes}


def after(opts: pulumi.ResourceOptions, before: "list[pulumi.Resource]") -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=before)) if before else opts


def _starts_later(args: WorkloadArgs) -> bool:
    """Return True if `up` must not wait for the pods: they need new nodes, or there are none (at 0 replicas or asleep),
    or they need objects that others create.

    Others can create objects in a namespace of the stack only after the first `up` has created the namespace.
    """
    settings = args.settings
    bought = bool(settings.gpu.count) or settings.on_spot
    return (
        bought or settings.replicas == 0 or settings.sleeps or needs_external_objects(settings, args.stack.secrets.keys)
    )


def _replicas_options(args: WorkloadArgs, kind: str, *, parent: pulumi.Resource) -> pulumi.ResourceOptions:
    owner = _FIELD_OWNER.get(args.settings.replicas_writer)
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
    return hand_over(field, parent=parent, table=args.stack.ownership)


def _metadata(args: WorkloadArgs) -> "ObjectMetaArgsDict":
    annotations: dict[str, str] = {}
    if _starts_later(args):
        annotations[SKIP_AWAIT] = "true"
    if args.settings.replicas_writer is not ReplicasOwner.PULUMI:
        annotations[REPLICAS_OWNER] = args.settings.replicas_writer.value
    metadata: ObjectMetaArgsDict = {"name": args.name, "namespace": args.namespace, "labels": args.identity.labels}
    return {**metadata, "annotations": annotations} if annotations else metadata


def _strategy(args: WorkloadArgs) -> "DeploymentStrategyArgsDict":
    """The new pod starts first if a node can be started for it. The old pod stops first on fixed nodes, which are few
    and full, and if the node group of a flexible workload is full.

    A Deployment does not count terminating pods, so even then both pods run until the old one has ended. Where this
    would mean two writers of one state, or a claim that a second node cannot mount, all old pods end first.
    """
    if one_at_a_time(args.settings):
        return {"type": "Recreate"}
    if args.settings.category is Category.FIXED or not args.room_for_next:
        return OLD_POD_FIRST
    return {"type": "RollingUpdate", "rolling_update": {"max_surge": 1, "max_unavailable": 0}}


def _template(args: WorkloadArgs) -> "PodTemplateSpecArgsDict":
    settings, identity = args.settings, args.identity
    container = main_container(settings, args.name, serves=True, stop_delay=stop_delay(settings, STOP_DELAY_SECONDS))
    pod: PodSpecArgsDict = {
        "affinity": affinity(settings.category),
        "topology_spread_constraints": spread(identity, revision_label=_REVISION_LABEL[settings.kind]),
        **home(args.node_kind, settings.arch),
        **priority(settings.priority),
        **grace(settings),
        "tolerations": tolerations(settings.gpu),
        **account_fields(args.name, settings, calls_api=settings.starts_pods),
        "security_context": pod_security(settings.user),
        "containers": [container],
        **pod_volumes(settings, args.name),
    }
    placed = args.redis_authority.trusted_by(required(merged(pod, settings.pod, main=args.name), args.nodes))
    if settings.on_spot:
        settings = settings.model_copy(update={"annotations": {**settings.annotations, SAFE_TO_EVICT: "false"}})
    return pod_template(
        settings, identity, args.stack.images.pulled(args.stack.egress.through(placed)), args.stack.secrets
    )
