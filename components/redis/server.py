"""The in-cluster Redis: one pod with a volume on a fixed node.

Queues must survive the pod, and a second copy would need a failover that job frameworks do not expect. Redis never
evicts keys (`noeviction`): when full, it refuses new jobs, which the producer notices, instead of silently dropping
waiting ones.

**The claim template is used only at creation.** Kubernetes never changes one, and Pulumi replaces a StatefulSet whose
claim template changes (pulumi/pulumi-kubernetes, `provider/pkg/provider/diff.go`): Redis would stop in the middle of
the day and restart on the same volume. So a change is ignored, and a volume grows through its claim:
docs/how-to/redis.md.

**The volume outlives the stack**, unless the stack file disables this: it has a dedicated class
(`components.pods.disks`).

**TLS only, or none.** With a certificate the plain port is closed: a client without TLS fails at once. On an open port
it would send its password.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import StatefulSet
from pulumi_kubernetes.core.v1 import Service
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components.adopted.budgets import label_selector
from components.context import StackContext
from components.images import REDIS
from components.pods.budget import closed_budget
from components.pods.disks import kept_class
from components.pods.redis_access import AUTHORITY_KEY, NAME, PASSWORD_ENV, PASSWORD_KEY, PORT, from_secret
from components.pods.rules import PodIdentity, affinity, container_security, home, pod_security, resources
from components.redis.users import RedisAclUser, password_variables, user_options
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.redis import CPU, RedisSettings
from ebbtide.text.quantities import memory_quantity
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        PersistentVolumeClaimArgsDict,
        PersistentVolumeClaimSpecArgsDict,
        PodSpecArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict
    from pulumi_kubernetes.networking.v1 import NetworkPolicyPeerArgsDict

KEPT = NAME
"""The class whose volumes outlive their claims."""

_NAME_LABEL = "kubernetes.io/metadata.name"
CLAIM_TEMPLATES = "spec.volumeClaimTemplates"
TLS_DIRECTORY = "/tls"
_USER = 999  # the image's user
_CERTIFICATE_MODE = 0o440  # readable by the pod's group


@dataclass(frozen=True, kw_only=True)
class RedisServerArgs:
    stack: StackContext
    settings: RedisSettings
    clients: Sequence[pulumi.Input[str]]  # namespaces whose pods may call Redis
    users: Mapping[str, RedisAclUser] = field(default_factory=dict[str, RedisAclUser])  # by rule of adopted pods

    @property
    def identity(self) -> PodIdentity:
        return PodIdentity(name=NAME, category=Category.FIXED, customer=self.stack.customer)


def redis_server(name: str, args: RedisServerArgs, *, parent: pulumi.Resource) -> None:
    """Create the server, its Service, budget, network policy and storage class as children of `parent`."""
    identity, child = args.identity, pulumi.ResourceOptions(parent=parent)
    before: list[pulumi.Resource] = [
        Service(
            f"{name}-service",
            metadata={"name": NAME, "namespace": args.stack.namespace, "labels": identity.labels},
            spec={"cluster_ip": "None", "selector": identity.selector, "ports": [{"name": "redis", "port": PORT}]},
            opts=child,
        )
    ]
    if args.stack.on_ebs:
        before.append(kept_class(f"{name}-kept", KEPT, args.stack.customer, options=child))
    closed_budget(f"{name}-budget", identity, args.stack.namespace, parent=parent)
    _clients(f"{name}-clients", args, child)
    StatefulSet(
        f"{name}-server",
        metadata={"name": NAME, "namespace": args.stack.namespace, "labels": identity.labels},
        spec={
            "replicas": 1,
            "service_name": NAME,
            "selector": {"match_labels": identity.selector},
            "template": {"metadata": {"labels": identity.labels}, "spec": args.stack.images.pulled(_pod(args))},
            "volume_claim_templates": [_claim(args)],
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=before, ignore_changes=[CLAIM_TEMPLATES]),
    )


def _clients(resource_name: str, args: RedisServerArgs, options: pulumi.ResourceOptions) -> None:
    peers: list[NetworkPolicyPeerArgsDict] = [
        {"namespace_selector": {"match_labels": {_NAME_LABEL: namespace}}} for namespace in args.clients
    ]
    for _, user in sorted(args.users.items()):
        theirs: LabelSelectorArgsDict = {"match_labels": {_NAME_LABEL: user.rule.namespace}}
        peers.append({"namespace_selector": theirs, "pod_selector": label_selector(user.rule)})
    NetworkPolicy(
        resource_name,
        metadata={"name": NAME, "namespace": args.stack.namespace},
        spec={
            "pod_selector": {"match_labels": args.identity.selector},
            "policy_types": ["Ingress"],
            "ingress": [{"from_": peers, "ports": [{"port": PORT, "protocol": "TCP"}]}],
        },
        opts=options,
    )


def _claim(args: RedisServerArgs) -> "PersistentVolumeClaimArgsDict":
    settings = args.settings
    kept_class_name = KEPT if args.stack.on_ebs and settings.kept else None
    spec: PersistentVolumeClaimSpecArgsDict = {
        "access_modes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": memory_quantity(settings.storage_mib)}},
    }
    if volume_class := settings.storage_class or kept_class_name:
        spec["storage_class_name"] = volume_class
    return {"metadata": {"name": "data"}, "spec": spec}


def _pod(args: RedisServerArgs) -> "PodSpecArgsDict":
    pod: PodSpecArgsDict = {
        "affinity": affinity(Category.FIXED),
        **home(NodeKind.FIXED),
        "automount_service_account_token": False,
        "security_context": pod_security(_USER),
        "termination_grace_period_seconds": 60,  # to write the append-only file
        "containers": [_container(args)],
    }
    if args.settings.tls is None:
        return pod
    certificate: VolumeArgsDict = {
        "name": "tls",
        "secret": {"secret_name": args.settings.tls.secret, "default_mode": _CERTIFICATE_MODE},
    }
    return {**pod, "volumes": [certificate]}


def _container(args: RedisServerArgs) -> "ContainerArgsDict":
    memory, encrypted = args.settings.memory_mib, args.settings.tls is not None
    options = {
        "--dir": "/data",
        "--appendonly": "yes",
        # A rewrite of the append-only file copies memory pages, which need the remainder.
        "--maxmemory": f"{memory * 3 // 4}mb",
        "--maxmemory-policy": "noeviction",
        "--requirepass": f"$({PASSWORD_ENV})",  # empty means none
        "--protected-mode": "no",  # without a password, protected mode would refuse all other pods
        **(_TLS_OPTIONS if encrypted else {}),
    }
    mounts: list[VolumeMountArgsDict] = [{"name": "data", "mount_path": "/data"}]
    if encrypted:
        mounts.append({"name": "tls", "mount_path": TLS_DIRECTORY, "read_only": True})
    return {
        "name": "redis",
        "image": args.stack.images.of(REDIS),
        "command": ["valkey-server"],
        "args": [*(word for option in options.items() for word in option), *user_options(args.users)],
        "env": [from_secret(PASSWORD_ENV, PASSWORD_KEY), *password_variables(args.users)],
        "ports": [{"name": "redis", "container_port": PORT}],
        "readiness_probe": {"tcp_socket": {"port": PORT}, "period_seconds": 5},
        "resources": resources(cpu=CPU, memory=memory),
        "security_context": container_security(read_only=True),
        "volume_mounts": mounts,
    }


_TLS_OPTIONS = {
    "--port": "0",
    "--tls-port": str(PORT),
    "--tls-cert-file": f"{TLS_DIRECTORY}/tls.crt",
    "--tls-key-file": f"{TLS_DIRECTORY}/tls.key",
    "--tls-ca-cert-file": f"{TLS_DIRECTORY}/{AUTHORITY_KEY}",
    "--tls-auth-clients": "no",  # clients authenticate by password
}
