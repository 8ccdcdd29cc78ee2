"""The section of Redis: a server of our own, or one that is there already."""

from enum import StrEnum
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from ebbtide.settings.checked import Check, Settings
from ebbtide.settings.types import acted_on
from ebbtide.settings.wanted import wanted

IN_CLUSTER_REDIS = "ebbtide-redis"


class RedisKind(StrEnum):
    IN_CLUSTER = "in-cluster"
    ELASTICACHE = "elasticache"
    URL = "url"


_PASSWORD_ELSEWHERE = "the password is a secret of its own: pulumi config set --secret ebbtide:redisPassword"

_REDIS_EXAMPLE = "rediss://redis.example.com:6379/0"


def _check_redis_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wanted("a Redis address", example=_REDIS_EXAMPLE) from None
    if parts.password is not None:
        raise wanted("an address without a password", example=_REDIS_EXAMPLE, hint=_PASSWORD_ELSEWHERE)
    sound = parts.scheme in ("redis", "rediss") and parts.hostname and (port is None or port > 0)
    database = parts.path.strip("/")
    if not sound or (database and not database.isdecimal()) or parts.query or parts.fragment:
        what = "redis:// or rediss://, a host, and a port and database if need be"
        raise wanted(what, example=_REDIS_EXAMPLE)
    return url


def _url_belongs_to_its_kind(kind: RedisKind, url: str | None) -> None:
    if kind is RedisKind.URL and url is None:
        raise wanted("the address of Redis", example=_REDIS_EXAMPLE, at="url")
    if kind is not RedisKind.URL and url is not None:
        raise wanted("no url with this kind", example="kind: url", at="url")


class RedisSettings(Settings):
    """Where the queues live."""

    instead_of: ClassVar[dict[str, str]] = {"password": _PASSWORD_ELSEWHERE}
    checks: ClassVar[tuple[Check, ...]] = (Check(("kind", "url"), _url_belongs_to_its_kind),)

    kind: Annotated[
        RedisKind,
        *acted_on("in-cluster", "url", planned={"elasticache": "ElastiCache is planned; give its endpoint as a url"}),
    ] = Field(default=RedisKind.IN_CLUSTER, description="a small Redis of its own, or one that is there already")
    url: Annotated[str, AfterValidator(_check_redis_url)] | None = Field(
        default=None, description="for kind url, without a password", examples=[_REDIS_EXAMPLE]
    )
