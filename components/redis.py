"""The Redis that holds the queues, and the one Secret through which everybody reaches it.

In the cluster it is one pod with a volume on a fixed node: queues must survive the pod, and a second copy would need a
failover that job frameworks do not expect. It never evicts keys (`noeviction`): a full Redis refuses new jobs, which
the producer sees, instead of dropping waiting ones, which nobody sees.

The Secret exists with or without a password, in both namespaces, so that adding a password later changes a value and
not the shape of any pod. Without a password the NetworkPolicy is the only lock, and it needs a network plugin that
enforces policies.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pulumi
from pulumi_kubernetes.apps.v1 import StatefulSet
from pulumi_kubernetes.core.v1 import Secret, Service
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components.budget import closed_budget
from components.pod_rules import (
    PodIdentity,
    affinity,
    container_security,
    home,
    pod_security,
    resources,
)
from ebbtide.settings.redis import IN_CLUSTER_REDIS, RedisKind, RedisSettings
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.labels import NAMESPACE, SECRET_KEYS, WORKER_NAMESPACE, Category, NodeKind

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, EnvVarArgsDict, PodSpecArgsDict

NAME = IN_CLUSTER_REDIS
SECRET = "ebbtide-redis"
PASSWORD_ENV = "REDIS_PASSWORD"
PASSWORD_KEY = "password"
URL_KEY = "url"

_PORT = 6379
_MEMORY = 2048  # MiB: about ten million short queue entries
_MAX_MEMORY = _MEMORY * 3 // 4  # rewriting the append-only file copies pages; the rest is for that
_USER = 999  # the image's own
IMAGE = "docker.io/valkey/valkey:8.1"


@dataclass(frozen=True, kw_only=True)
class RedisArgs:
    settings: RedisSettings
    namespace: pulumi.Input[str]
    customer: str
    worker_namespace: pulumi.Input[str] = WORKER_NAMESPACE
    password: pulumi.Input[str] | None = None
    image: str = IMAGE
    storage: str = "8Gi"


class Redis(pulumi.ComponentResource):
    """The endpoint's Secret, and the server too unless it runs elsewhere."""

    endpoint: RedisEndpoint

    def __init__(self, name: str, args: RedisArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Redis", name, None, opts)
        self.endpoint = redis_endpoint(args.settings)
        self._secret(f"{name}-secret", args.namespace, args)
        self._secret(f"{name}-worker-secret", args.worker_namespace, args)
        if args.settings.kind is RedisKind.IN_CLUSTER:
            self._server(name, args)
        self.register_outputs({})

    def _secret(self, resource_name: str, namespace: pulumi.Input[str], args: RedisArgs) -> None:
        password = pulumi.Output.secret("" if args.password is None else args.password)
        endpoint = self.endpoint
        Secret(
            resource_name,
            metadata={
                "name": SECRET,
                "namespace": namespace,
                "annotations": {SECRET_KEYS: f"{PASSWORD_KEY},{URL_KEY}"},
            },
            string_data={PASSWORD_KEY: password, URL_KEY: password.apply(lambda text: redis_url(endpoint, text))},
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _server(self, name: str, args: RedisArgs) -> None:
        identity = PodIdentity(name=NAME, category=Category.FIXED, customer=args.customer)
        opts = pulumi.ResourceOptions(parent=self)
        service = Service(
            f"{name}-service",
            metadata={"name": NAME, "namespace": args.namespace, "labels": identity.labels},
            spec={
                "cluster_ip": "None",
                "selector": identity.selector,
                "ports": [{"name": "redis", "port": _PORT}],
            },
            opts=opts,
        )
        closed_budget(f"{name}-budget", identity, args.namespace, parent=self)
        self._network_policy(f"{name}-clients", identity, args)
        StatefulSet(
            f"{name}-server",
            metadata={"name": NAME, "namespace": args.namespace, "labels": identity.labels},
            spec={
                "replicas": 1,
                "service_name": NAME,
                "selector": {"match_labels": identity.selector},
                "template": {"metadata": {"labels": identity.labels}, "spec": _pod(args)},
                "volume_claim_templates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {
                            "access_modes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": args.storage}},
                        },
                    }
                ],
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[service]),
        )

    def _network_policy(self, resource_name: str, identity: PodIdentity, args: RedisArgs) -> None:
        NetworkPolicy(
            resource_name,
            metadata={"name": NAME, "namespace": args.namespace},
            spec={
                "pod_selector": {"match_labels": identity.selector},
                "policy_types": ["Ingress"],
                "ingress": [
                    {
                        "from_": [
                            {"namespace_selector": {"match_labels": {"kubernetes.io/metadata.name": namespace}}}
                            for namespace in (args.namespace, args.worker_namespace)
                        ],
                        "ports": [{"port": _PORT, "protocol": "TCP"}],
                    }
                ],
            },
            opts=pulumi.ResourceOptions(parent=self),
        )


def redis_endpoint(settings: RedisSettings) -> RedisEndpoint:
    """Where the queues are. The variable named for the password always exists; it is empty where there is none."""
    if settings.kind is RedisKind.IN_CLUSTER:
        return RedisEndpoint(host=f"{NAME}.{NAMESPACE}.svc", port=_PORT, password_env=PASSWORD_ENV)
    if settings.kind is RedisKind.ELASTICACHE:
        raise ValueError("redis: elasticache is not built yet; wanted in-cluster, or url with the address of a cache")
    parts = urlsplit(settings.url or "")
    if parts.scheme not in ("redis", "rediss") or parts.hostname is None:
        raise ValueError(
            "redis.url: wanted redis://host:port/db or rediss://… (for example rediss://cache.example:6379/0)"
        )
    if parts.password is not None:
        raise ValueError("redis.url: holds a password; keep it out of the file and set it as a secret")
    database = parts.path.strip("/")
    if database and not database.isdecimal():
        raise ValueError(f"redis.url: wanted a database number after the host, found {database!r} (for example /0)")
    return RedisEndpoint(
        host=parts.hostname,
        port=parts.port or _PORT,
        db=int(database or 0),
        tls=parts.scheme == "rediss",
        username=parts.username,
        password_env=PASSWORD_ENV,
    )


def redis_url(endpoint: RedisEndpoint, password: str) -> str:
    """The endpoint as one URL, with the password in it: for a Secret and nothing else."""
    scheme = "rediss" if endpoint.tls else "redis"
    user = quote(endpoint.username or "", safe="")
    login = f"{user}:{quote(password, safe='')}@" if password else f"{user}@" if user else ""
    return f"{scheme}://{login}{endpoint.host}:{endpoint.port}/{endpoint.db}"


def from_secret(variable: str, key: str) -> "EnvVarArgsDict":
    """An environment variable filled from the Redis Secret of the pod's own namespace."""
    return {"name": variable, "value_from": {"secret_key_ref": {"name": SECRET, "key": key}}}


def _pod(args: RedisArgs) -> "PodSpecArgsDict":
    return {
        "affinity": affinity(Category.FIXED),
        **home(NodeKind.FIXED),
        "automount_service_account_token": False,
        "security_context": pod_security(_USER),
        "termination_grace_period_seconds": 60,  # to write the append-only file out
        "containers": [_container(args)],
    }


def _container(args: RedisArgs) -> "ContainerArgsDict":
    options = {
        "--dir": "/data",
        "--appendonly": "yes",
        "--maxmemory": f"{_MAX_MEMORY}mb",
        "--maxmemory-policy": "noeviction",
        "--requirepass": f"$({PASSWORD_ENV})",  # empty means none
        "--protected-mode": "no",  # it would refuse every other pod when there is no password
    }
    return {
        "name": "redis",
        "image": args.image,
        "command": ["valkey-server"],
        "args": [word for option in options.items() for word in option],
        "env": [from_secret(PASSWORD_ENV, PASSWORD_KEY)],
        "ports": [{"name": "redis", "container_port": _PORT}],
        "readiness_probe": {"tcp_socket": {"port": _PORT}, "period_seconds": 5},
        "resources": resources(cpu=500, memory=_MEMORY),
        "security_context": container_security(read_only=True),
        "volume_mounts": [{"name": "data", "mount_path": "/data"}],
    }
