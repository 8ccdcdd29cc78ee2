"""The bundled controller: its config document, its rights, and its pods.

The pod is stateless and may restart at any instant, yet its budget stays closed: while it is away no queue gets more
workers, and a fixed node is not worth that wait. Only the holder of the Lease acts, so two pods do no harm. A rollout
still takes the old pod first and adds none: fixed nodes are few and full, and a new pod without room would never
replace the old one. The Lease is created here, without a spec, so that the controller needs no right to create any.

**A change of the config is no restart.** The controller rereads the mounted document, which the kubelet swaps within
about a minute. The pod carries no checksum of it: a restart would close budgets that may be open, and start
every stabilization window anew.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.coordination.v1 import Lease
from pulumi_kubernetes.core.v1 import ConfigMap, ServiceAccount

from components.context import StackContext
from components.controller.admission import Admission, AdmissionArgs
from components.controller.closer import NAME as CLOSER
from components.controller.closer import Closer, CloserArgs
from components.controller.rights import system_rules, worker_rules
from components.granting import grant
from components.pods.budget import closed_budget
from components.pods.redis_access import PASSWORD_ENV, PASSWORD_KEY, PUBLIC, SECRET, RedisAuthority, from_secret
from components.pods.rules import (
    OLD_POD_FIRST,
    PodIdentity,
    affinity,
    container_security,
    home,
    http_probe,
    pod_security,
    resources,
    spread,
)
from ebbtide.labels import WORKER_NAMESPACE, NodeKind
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE
from ebbtide.vocabulary.controller_config import ControllerConfig, dump
from ebbtide.vocabulary.labels import CONTROLLER, Category

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulumi_kubernetes.core.v1 import EnvVarArgsDict, PodSpecArgsDict, PodTemplateSpecArgsDict

NAME = CONTROLLER
CONFIG_FILE = "config.json"
PORT = 8080
_GRACE_SECONDS = 30  # it ends within 5 s; the rest is for a slow API server while it closes the budgets
_CONFIG_DIRECTORY = "/etc/ebbtide"


@dataclass(frozen=True, kw_only=True)
class ControllerArgs:
    stack: StackContext
    config: ControllerConfig
    replicas: int = 1
    redis_authority: RedisAuthority = PUBLIC
    redis_secret: str = SECRET  # where the password of the config's user is


class Controller(pulumi.ComponentResource):
    document: pulumi.Output[str]  # what the controller reads

    def __init__(self, name: str, args: ControllerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Controller", name, None, opts)
        config = args.config
        self.document = _document(args)
        child = pulumi.ResourceOptions(parent=self)
        here = args.stack.namespace
        budgets = [it.name for it in config.budgets if it.namespace != WORKER_NAMESPACE]
        of_pools = [it.name for it in config.budgets if it.namespace == WORKER_NAMESPACE]
        of_workers = worker_rules(pools=[pool.deployment for pool in config.pools], budgets=of_pools)
        # Before the pod, and so after it in a destroy: it closes the budgets on its way out, and needs its rights to.
        rights: list[pulumi.Resource] = [
            ServiceAccount(f"{name}-account", metadata={"name": NAME, "namespace": here}, opts=child),
            Lease(f"{name}-lease", metadata={"name": NAME, "namespace": here}, opts=child),
            *grant(f"{name}-system", NAME, here, system_rules(lease=NAME, budgets=budgets), parent=self),
            *grant(f"{name}-workers", NAME, args.stack.worker_namespace, of_workers, home=here, parent=self),
        ]
        config_map = ConfigMap(
            f"{name}-config",
            metadata={"name": NAME, "namespace": here},
            data={CONFIG_FILE: self.document},
            opts=child,
        )
        limits = AdmissionArgs(namespace=here, controller=NAME, closer=CLOSER)
        admission = Admission(f"{name}-admission", limits, child)
        self._pod(name, args, [*rights, config_map, admission])
        closer = CloserArgs(stack=args.stack, config=config)
        Closer(f"{name}-closer", closer, child)
        self.register_outputs({})

    def _pod(self, name: str, args: ControllerArgs, after: "Sequence[pulumi.Resource]") -> None:
        identity = PodIdentity(name=NAME, category=Category.FIXED, customer=args.config.customer)
        closed_budget(f"{name}-budget", identity, args.stack.namespace, parent=self)
        Deployment(
            f"{name}-deployment",
            metadata={"name": NAME, "namespace": args.stack.namespace, "labels": identity.labels},
            spec={
                "replicas": args.replicas,
                "selector": {"match_labels": identity.selector},
                "strategy": OLD_POD_FIRST,
                "revision_history_limit": 3,
                "template": _template(args, identity),
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*after]),
        )


def _document(args: ControllerArgs) -> pulumi.Output[str]:
    config = args.config
    if args.stack.cache_host is None:
        return pulumi.Output.from_input(dump(config))
    host = pulumi.Output.from_input(args.stack.cache_host)
    return host.apply(lambda known: dump(replace(config, redis=replace(config.redis, host=known))))


def _template(args: ControllerArgs, identity: PodIdentity) -> "PodTemplateSpecArgsDict":
    pod: PodSpecArgsDict = {
        "service_account_name": NAME,
        "affinity": affinity(Category.FIXED),
        "topology_spread_constraints": spread(identity, revision_label="pod-template-hash"),
        **home(NodeKind.FIXED),
        "termination_grace_period_seconds": _GRACE_SECONDS,
        "security_context": pod_security(),
        "containers": [
            {
                "name": "controller",
                "image": args.stack.images.of(CONTROLLER_IMAGE),
                "command": ["python", "-m", "controllers", "--config", f"{_CONFIG_DIRECTORY}/{CONFIG_FILE}"],
                "env": _environment(args),
                "ports": [{"name": "http", "container_port": PORT}],
                "liveness_probe": http_probe("/healthz", PORT, failures=6),
                "readiness_probe": http_probe("/readyz", PORT, failures=3),
                "resources": resources(cpu=100, memory=128),
                "security_context": container_security(read_only=True),
                "volume_mounts": [{"name": "config", "mount_path": _CONFIG_DIRECTORY, "read_only": True}],
            }
        ],
        "volumes": [{"name": "config", "config_map": {"name": NAME}}],
    }
    # The bundle for a Redis with a certificate of the company's own; the API server brings its own authority.
    return {
        "metadata": {"labels": identity.labels},
        "spec": args.stack.images.pulled(args.stack.egress.trusting(args.redis_authority.trusted_by(pod))),
    }


def _environment(args: ControllerArgs) -> "list[EnvVarArgsDict]":
    return [
        from_secret(args.config.redis.password_env or PASSWORD_ENV, PASSWORD_KEY, args.redis_secret),
        {"name": "POD_NAME", "value_from": {"field_ref": {"field_path": "metadata.name"}}},
        {"name": "POD_NAMESPACE", "value_from": {"field_ref": {"field_path": "metadata.namespace"}}},
    ]
