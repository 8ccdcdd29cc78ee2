"""One worker pool: a Deployment whose replicas the controller owns, and a budget.

Decisions:

- **No readiness probe.** A ReplicaSet first removes pods that are not ready, whatever their deletion cost, so a probe
  that fails for a moment would remove a busy worker.
- **Rollouts stop workers gently.** An old pod gets SIGTERM, finishes its job within the grace period and accepts no
  other. Until then it holds its node, so a rollout replaces a quarter of the pool at a time and never adds pods first;
  `Recreate` would leave the queue without workers until the longest job has ended.
- **No `safe-to-evict` annotation.** The budget already stops the cluster autoscaler and, unlike the annotation, all
  other drains too; it is one object, which an operator can open for maintenance without restarting the pods. Workers on
  spot nodes whose jobs must be saved are the exception: their budget is open, for the drain before AWS takes a node.
- **A fallback** is a second node group for pods that get no spot node. A node selector has one value, so a required
  node affinity names both groups. The trap: the spread over `ebbtide.dev/node-group`, which has no effect in one group,
  would share the workers between the two.
- **One process namespace per pod.** The kernel drops a SIGTERM that reaches PID 1 before its handler exists, and a pod
  stopped during its imports would hold its node for the entire grace period. In a shared namespace the worker is not
  PID 1, and still receives the signal itself, since no shell is in between.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, cast

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment

from components.context import StackContext
from components.ownership import REPLICAS, REPLICAS_OWNER, FieldOwner, OwnedField, hand_over
from components.pods.account import account_fields, own_account
from components.pods.budget import closed_budget, open_budget
from components.pods.container import Volumes, file_maps, main_container, pod_template, pod_volumes, service
from components.pods.fragment import merged
from components.pods.ray_driver import DrivenCluster
from components.pods.redis_access import PASSWORD_ENV, PASSWORD_KEY, PUBLIC, RedisAuthority, from_secret, url_key
from components.pods.rules import (
    OS,
    NodeRequirement,
    PodIdentity,
    affinity,
    first_choice,
    nodes_of_architecture,
    nodes_of_group,
    pod_security,
    priority,
    required,
    spread,
    tolerations,
)
from components.pods.workload import SKIP_AWAIT, after
from ebbtide.provisioning_labels import SAFE_TO_EVICT, ReplicasOwner
from ebbtide.settings.sections.brokers import BrokerSettings
from ebbtide.settings.sections.checkpoints import CHECKPOINTS_ENV, CHECKPOINTS_PATH, CHECKPOINTS_VOLUME
from ebbtide.settings.sections.pods.env import EnvVariable
from ebbtide.settings.sections.workers import (
    BROKER_ENV,
    BROKER_PASSWORD_ENV,
    CONSUMER_TIMEOUT_ENV,
    LONGEST_JOB_ENV,
    REDIS_ENV,
    REPORTS_ENV,
    WORKER_CONTAINER,
    SourceKind,
    WorkerSettings,
    grace_seconds,
    sqs_variables,
)
from ebbtide.settings.worker_command import worker_command
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulumi_kubernetes.core.v1 import (
        AffinityArgsDict,
        ContainerArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
        TopologySpreadConstraintArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )


@dataclass(frozen=True, kw_only=True)
class WorkerPoolArgs:
    stack: StackContext
    name: str
    settings: WorkerSettings
    redis: RedisEndpoint
    redis_authority: RedisAuthority = PUBLIC
    broker: BrokerSettings | None = None  # holds the pool's queues; the pods then only report to Redis
    region: str = ""  # of the queues in SQS
    drives: DrivenCluster | None = None  # the Ray cluster that the pool's jobs use
    stopped_together: bool = False  # when a node is lost: see `StackSettings.stopped_together`
    nodes: NodeRequirement | None = None  # in addition to the node selector: GPU memory, or the groups of a fallback


class WorkerPool(pulumi.ComponentResource):
    def __init__(self, name: str, args: WorkerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:WorkerPool", name, None, opts)
        namespace = args.stack.worker_namespace
        identity = PodIdentity(name=args.name, category=Category.WORKER, customer=args.stack.customer)
        saves = args.settings.checkpoints is not None
        if args.stopped_together:
            open_budget(f"{name}.spot-budget", identity, namespace, parent=self)  # no name contains a dot
        else:
            closed_budget(f"{name}-budget", identity, namespace, parent=self, table=args.stack.ownership, opens=saves)
        before = [
            *file_maps(args.settings, identity, namespace, parent=self),
            *own_account(f"{name}-account", identity, args.settings, namespace, parent=self),
        ]
        if args.settings.ports:
            waits = {SKIP_AWAIT: "true"}  # workers start only when jobs wait
            service(f"{name}-service", args.settings, identity, namespace, annotations=waits, parent=self)
        replicas = OwnedField(
            kind="Deployment",
            namespace=namespace,
            name=args.name,
            field=REPLICAS,
            owner=FieldOwner.CONTROLLER,
            initial=args.settings.min,
        )
        Deployment(
            f"{name}-deployment",
            metadata={
                "name": args.name,
                "namespace": namespace,
                "labels": identity.labels,
                "annotations": {
                    SKIP_AWAIT: "true",  # nodes start only when jobs wait
                    REPLICAS_OWNER: ReplicasOwner.CONTROLLER.value,
                },
            },
            spec={
                "replicas": args.settings.min,
                "selector": {"match_labels": identity.selector},
                "strategy": {"type": "RollingUpdate", "rolling_update": {"max_surge": 0, "max_unavailable": "25%"}},
                "revision_history_limit": 3,
                "template": _template(args, identity),
            },
            opts=after(hand_over(replicas, parent=self, table=args.stack.ownership), before),
        )
        self.register_outputs({})


def _with_broker(settings: WorkerSettings, broker: BrokerSettings, region: str) -> WorkerSettings:
    """Return the settings with the broker's variables before those of the stack file.

    Kubernetes substitutes the password in the address.
    """
    spans = {CONSUMER_TIMEOUT_ENV: broker.consumer_timeout, LONGEST_JOB_ENV: settings.longest_job}
    values = {name: str(int(span.total_seconds())) for name, span in spans.items() if span is not None}
    values |= sqs_variables(settings.source.kind, region) if broker.on_sqs else {}
    env = {name: EnvVariable(value=value) for name, value in values.items()}
    if (login := broker.workers) is not None:
        address = broker.address(login.user, f"$({BROKER_PASSWORD_ENV})")
        env[BROKER_PASSWORD_ENV] = EnvVariable(secret=login.secret, key=PASSWORD_KEY)
        env[BROKER_ENV[settings.source.kind]] = EnvVariable(value=address)
    return settings.model_copy(update={"env": {**env, **settings.env}})


def _environment(args: WorkerPoolArgs) -> "list[EnvVarArgsDict]":
    redis, kind, saves = args.redis, args.settings.source.kind, args.settings.checkpoints
    checkpoints: list[EnvVarArgsDict] = (
        [] if saves is None else [{"name": CHECKPOINTS_ENV, "value": saves.variable(args.stack.customer, args.name)}]
    )
    return [
        from_secret(
            REPORTS_ENV if args.broker else REDIS_ENV[kind], url_key(redis, python=kind is not SourceKind.LIST)
        ),
        {"name": "REDIS_HOST", "value": redis.host if args.stack.cache_host is None else args.stack.cache_host},
        {"name": "REDIS_PORT", "value": str(redis.port)},
        {"name": "REDIS_DB", "value": str(redis.db)},
        from_secret(redis.password_env or PASSWORD_ENV, PASSWORD_KEY),
        *checkpoints,
        *([] if args.drives is None else args.drives.variables(args.settings.image)),
    ]


def _with_claim(
    container: "ContainerArgsDict", volumes: Volumes, settings: WorkerSettings
) -> "tuple[ContainerArgsDict, Volumes]":
    """Mount the claim for checkpoints, unless they are in a bucket."""
    claim = None if settings.checkpoints is None else settings.checkpoints.claim
    if claim is None:
        return container, volumes
    volume: VolumeArgsDict = {"name": CHECKPOINTS_VOLUME, "persistent_volume_claim": {"claim_name": claim}}
    mounts = cast("Sequence[VolumeMountArgsDict]", container.get("volume_mounts") or ())
    mount: VolumeMountArgsDict = {"name": CHECKPOINTS_VOLUME, "mount_path": CHECKPOINTS_PATH}
    return {**container, "volume_mounts": [*mounts, mount]}, {"volumes": [*volumes.get("volumes", ()), volume]}


class _Placement(TypedDict):
    """Fields of a pod's spec."""

    affinity: "AffinityArgsDict"
    topology_spread_constraints: "list[TopologySpreadConstraintArgsDict]"
    node_selector: dict[str, str]


def _placement(settings: WorkerSettings, identity: PodIdentity) -> _Placement:
    """Select the pool's node group. With a fallback, `WorkerPoolArgs.nodes` requires one of the two groups."""
    if settings.fallback:
        return {
            "affinity": {**affinity(Category.WORKER), **first_choice(settings.node_group)},
            "topology_spread_constraints": spread(identity, revision_label="", same=OS),
            "node_selector": nodes_of_architecture(settings.arch),
        }
    return {
        "affinity": affinity(Category.WORKER),
        "topology_spread_constraints": spread(identity, revision_label=""),
        "node_selector": nodes_of_group(settings.node_group, settings.arch),
    }


def _template(args: WorkerPoolArgs, identity: PodIdentity) -> "PodTemplateSpecArgsDict":
    settings = args.settings if args.drives is None else args.drives.with_room(args.settings)
    settings = settings if args.broker is None else _with_broker(settings, args.broker, args.region)
    container = main_container(settings, WORKER_CONTAINER, command=worker_command(settings), env=_environment(args))
    container, volumes = _with_claim(container, pod_volumes(settings, args.name), settings)
    if args.drives is not None:
        container, volumes = args.drives.reached_by(container, volumes)
    pod: PodSpecArgsDict = {
        **_placement(settings, identity),
        **priority(settings.priority),
        "tolerations": tolerations(settings.gpu),
        "termination_grace_period_seconds": grace_seconds(settings),
        "share_process_namespace": True,
        **account_fields(args.name, settings),
        "security_context": pod_security(settings.user),
        "containers": [container],
        **volumes,
    }
    placed = required(merged(pod, settings.pod, main=WORKER_CONTAINER), args.nodes)
    connected = args.redis_authority.trusted_by(placed)
    if args.stopped_together:
        annotations = {**settings.annotations, SAFE_TO_EVICT: "false"}
        settings = settings.model_copy(update={"annotations": annotations})
    return pod_template(
        settings, identity, args.stack.images.pulled(args.stack.egress.through(connected)), args.stack.secrets
    )
