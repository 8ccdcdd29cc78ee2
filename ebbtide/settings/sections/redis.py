"""The section of Redis: a bundled server in the cluster, ElastiCache, or an existing server.

A key of one kind is refused with the others, since it would have no effect. So such keys have no default; the
properties below return the effective values.

The token of ElastiCache is checked without showing any part of it. Only Pulumi can decrypt a `secure:` value, so
`ebbtide check` does not check it. The program does, before its first resource, and so does a preview: AWS checks the
token only once network and cluster exist.
"""

import re
from enum import StrEnum
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import choice, needed_with, only_with
from ebbtide.settings.sections.types import Mebibytes
from ebbtide.text.addresses import is_host, leads_to_itself
from ebbtide.text.quantities import memory_text

TOKEN_WANTED = "the token of the cache: 16 to 128 letters, digits or ! & # $ ^ < > -"
SET_TOKEN = "pulumi config set --secret ebbtide:redisPassword"
_FEWEST, _MOST = 16, 128


def token_fault(token: str) -> str:
    """Return why ElastiCache would refuse a token; "" for a valid one.

    Source: ElastiCache User Guide, "Authenticating with the AUTH command".
    """
    faults = [
        *(["is too short"] if len(token) < _FEWEST else []),
        *(["is too long"] if len(token) > _MOST else []),
        *(["has other characters"] if re.search(r"[^A-Za-z0-9!&#$^<>-]", token) else []),
    ]
    return f"a secret that {' and '.join(faults)}" if faults else ""


IN_CLUSTER_REDIS = "ebbtide-redis"

REDIS_SECRET = "ebbtide-redis"
REDIS_SECRET_KEYS = ("password", "url", "python-url")
"""Keys of the Secret in which pods of both namespaces find Redis; the last only with TLS."""


class RedisKind(StrEnum):
    IN_CLUSTER = "in-cluster"
    ELASTICACHE = "elasticache"
    URL = "url"


CPU = 500
"""Millicores."""

MEMORY = 2048
"""MiB: about ten million short queue entries."""

STORAGE = 8192
"""MiB."""

NODE_TYPE = "cache.t4g.small"
REPLICAS = 1
MOST_REPLICAS = 5  # AWS takes no more

_PASSWORD_ELSEWHERE = "set the password separately: pulumi config set --secret ebbtide:redisPassword"

_REDIS_EXAMPLE = "rediss://redis.example.com:6379/0"
_PRIMARY_EXAMPLE = "rediss://master.jobs.abc123.use1.cache.amazonaws.com:6379/0"
_CLUSTER_MODE = re.compile(r"(.+\.)?(clustercfg|serverless)\..+\.amazonaws\.com(\.cn)?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NODE_TYPE = r"^cache\.[a-z]+\d[a-z]*\.(micro|small|medium|(\d*x)?large)$"


def _check_host(host: str) -> None:
    """Refuse hosts that are never Redis, or that no job framework can use: each would fail once pods run."""
    if leads_to_itself(host):
        hint = "in a pod this is the pod itself"
        raise wanted("redis-url.local", "the address of Redis as pods reach it", example=_REDIS_EXAMPLE, hint=hint)
    if _CLUSTER_MODE.fullmatch(host) is not None:
        expected = "a cache without cluster mode, by its primary endpoint"
        hint = "job frameworks move a job between keys of several slots, which a cluster refuses with CROSSSLOT"
        raise wanted("redis-url.cluster-mode", expected, example=_PRIMARY_EXAMPLE, hint=hint)


def _check_redis_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wanted("redis-url.form", "a Redis address", example=_REDIS_EXAMPLE) from None
    if parts.password is not None:
        raise wanted(
            "redis-url.password", "an address without a password", example=_REDIS_EXAMPLE, hint=_PASSWORD_ELSEWHERE
        )
    _check_host(parts.hostname or "")
    sound = parts.scheme in ("redis", "rediss") and is_host(parts.hostname or "") and (port is None or port > 0)
    database = parts.path.strip("/")
    if not sound or (database and not database.isdecimal()) or parts.query or parts.fragment:
        expected = "redis:// or rediss://, a host, and a port and database if need be"
        raise wanted("redis-url.parts", expected, example=_REDIS_EXAMPLE)
    return url


def _check_secret(name: str) -> str:
    if _OBJECT_NAME.fullmatch(name) is None:
        raise wanted(
            "redis-secret.name",
            "the name of a Secret: lower-case letters, digits, hyphens and dots",
            example="redis-tls",
        )
    if name == IN_CLUSTER_REDIS:
        raise wanted(
            "redis-secret.ours",
            "the name of a Secret of your own",
            example="redis-tls",
            hint="Ebbtide writes that one itself",
        )
    return name


def _check_user(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name) is None:
        expected = "the name of a user of Redis: letters, digits, dots, hyphens and underscores"
        raise wanted("redis-user.form", expected, example="reader")
    return name


def class_name(name: str) -> str:
    if _OBJECT_NAME.fullmatch(name) is None:
        raise wanted(
            "storage-class.name",
            "the name of a StorageClass: lower-case letters, digits, hyphens and dots",
            example="gp3",
        )
    return name


def _check_node_type(name: str) -> str:
    if re.fullmatch(_NODE_TYPE, name) is None:
        hint = f"did you mean cache.{name}?" if re.fullmatch(_NODE_TYPE, f"cache.{name}") else ""
        raise wanted("cache-node.type", "a node type of ElastiCache", example=NODE_TYPE, hint=hint)
    return name


class RedisTls(Settings):
    """Encryption with the customer's certificate."""

    secret: Annotated[str, AfterValidator(_check_secret)] = Field(
        description="a Secret of both namespaces: tls.crt, tls.key and ca.crt in ebbtide, ca.crt in ebbtide-workers",
        examples=["redis-tls"],
    )


class RedisUser(Settings):
    """A user of Redis and its password."""

    user: Annotated[str, AfterValidator(_check_user)] = Field(
        description="user name in the ACL of Redis", examples=["reader"]
    )
    secret: Annotated[str, AfterValidator(_check_secret)] = Field(
        description="a Secret of the namespace ebbtide, with the password under password", examples=["redis-reader"]
    )


def _authority_needs_tls(url: str | None, tls: RedisTls | None) -> None:
    if url is not None and tls is not None and not url.startswith("rediss://"):
        raise wanted("redis-url.tls", "a rediss:// address with tls", example=_REDIS_EXAMPLE, at="url")


def _room_to_rewrite(memory: int | None, storage: int | None) -> None:
    """The append-only file is rewritten next to the old one, which keeps growing meanwhile."""
    least = 2 * (memory or MEMORY)
    if (storage or STORAGE) < least:
        expected = f"at least twice the memory, {least // 1024}Gi: Redis rewrites its file next to the old one"
        raise wanted(
            "redis-storage.too-small",
            expected,
            found=f"{storage or STORAGE}Mi",
            example=f"{-(-least // 1024)}Gi",
            at="storage",
        )


_KINDS_WITH = {
    "memory": (RedisKind.IN_CLUSTER,),
    "storage": (RedisKind.IN_CLUSTER,),
    "storageClass": (RedisKind.IN_CLUSTER,),
    "tls": (RedisKind.IN_CLUSTER, RedisKind.URL),
    "controller": (RedisKind.URL,),
    "nodeType": (RedisKind.ELASTICACHE,),
    "replicas": (RedisKind.ELASTICACHE,),
    "keepOnDestroy": (RedisKind.IN_CLUSTER, RedisKind.ELASTICACHE),
}
"""The kinds on which a key has an effect."""


class RedisSettings(Settings):
    """The Redis that holds the queues."""

    instead_of: ClassVar[dict[str, str]] = {"password": _PASSWORD_ELSEWHERE}
    one_of: ClassVar[tuple[tuple[str, str], ...]] = (("keepOnDestroy", "storageClass"),)
    checks: ClassVar[tuple[Check, ...]] = (
        needed_with("url", "kind", RedisKind.URL, "redis-url.missing", "the address of Redis", _REDIS_EXAMPLE),
        only_with("url", "kind", RedisKind.URL, code="redis-url.other-kind", expected="no url with this kind"),
        *(only_with(key, "kind", *kinds, code="redis.key-of-another-kind") for key, kinds in _KINDS_WITH.items()),
        Check(("url", "tls"), _authority_needs_tls),
        Check(("memory", "storage"), _room_to_rewrite),
    )

    kind: Annotated[RedisKind, *choice("in-cluster", "elasticache", "url", planned={})] = Field(
        default=RedisKind.IN_CLUSTER,
        description="a small Redis in the cluster, an ElastiCache with a standby, or an existing Redis",
        examples=["elasticache"],
    )
    url: Annotated[str, AfterValidator(_check_redis_url)] | None = Field(
        default=None, description="for kind url: address without a password", examples=[_REDIS_EXAMPLE]
    )
    tls: RedisTls | None = Field(
        default=None,
        description="for kind in-cluster: encrypt; for kind url: trust a private authority",
        examples=["{ secret: redis-tls }"],
    )
    controller: RedisUser | None = Field(
        default=None,
        description="for kind url: user of the controller; default: the user in the address",
        examples=["{ user: reader, secret: redis-reader }"],
    )
    memory: Mebibytes | None = Field(
        default=None,
        description="for kind in-cluster: memory of the pod; three quarters hold jobs",
        examples=["4Gi"],
        json_schema_extra={"default": memory_text(MEMORY)},
    )
    storage: Mebibytes | None = Field(
        default=None,
        description="for kind in-cluster: initial size of the volume; to grow it later, use kubectl too",
        examples=["16Gi"],
        json_schema_extra={"default": memory_text(STORAGE)},
    )
    storage_class: Annotated[str, AfterValidator(class_name)] | None = Field(
        default=None,
        description="for kind in-cluster: StorageClass of the volume, which decides whether a destroy keeps the volume",
        examples=["fast-retained"],
    )
    node_type: Annotated[str, AfterValidator(_check_node_type)] | None = Field(
        default=None,
        description="for kind elasticache: node type",
        examples=["cache.m7g.large"],
        json_schema_extra={"default": NODE_TYPE},
    )
    replicas: Annotated[int, Strict(), Field(ge=0, le=MOST_REPLICAS)] | None = Field(
        default=None,
        description="for kind elasticache: number of standbys in other zones",
        examples=["2"],
        json_schema_extra={"default": REPLICAS},
    )
    keep_on_destroy: Annotated[bool, Strict()] | None = Field(
        default=None,
        description="keep the jobs after a destroy: the volume, or a final snapshot, stays and is billed",
        examples=["false"],
        json_schema_extra={"default": True},
    )

    @property
    def memory_mib(self) -> int:
        return self.memory or MEMORY

    @property
    def storage_mib(self) -> int:
        return self.storage or STORAGE

    @property
    def cache_node(self) -> str:
        return self.node_type or NODE_TYPE

    @property
    def standbys(self) -> int:
        return REPLICAS if self.replicas is None else self.replicas

    @property
    def kept(self) -> bool:
        return self.keep_on_destroy is not False
