"""The state of a Ray head in the stack's Redis, so that a new head continues where the old one stopped.

KubeRay gives address, password and a prefix for the keys to the head's pod: the RayCluster's UID. So clusters never
share keys, and one that is made anew begins with nothing. Sleep keeps them: a cluster sleeps only without drivers, jobs
and actors, so what wakes knows nothing but what has ended. When a RayCluster is deleted, a Job that the operator makes
from the head's own pod removes its keys.

Ray takes address, user and password, and no number of a database: its keys are in the first one, beside the queues.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi

from components.pods.redis_access import CA_FILE, PASSWORD_KEY, SECRET, RedisAuthority
from ebbtide.vocabulary.controller_config import RedisEndpoint

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict

_SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"
"""Of Debian and Ubuntu, which Ray's images are made of."""


@dataclass(frozen=True, kw_only=True)
class HeadState:
    """Where it is kept."""

    endpoint: RedisEndpoint
    authority: RedisAuthority
    host: pulumi.Input[str] | None = None  # of a cache that AWS runs, in place of the endpoint's

    def options(self) -> dict[str, Any]:
        """`gcsFaultToleranceOptions` of a RayCluster."""
        scheme = "rediss" if self.endpoint.tls else "redis"
        host = self.endpoint.host if self.host is None else self.host
        user = {"redisUsername": {"value": self.endpoint.username}} if self.endpoint.username else {}
        return {
            "redisAddress": pulumi.Output.format("{0}://{1}:{2}", scheme, host, self.endpoint.port),
            "redisPassword": {"valueFrom": {"secretKeyRef": {"name": SECRET, "key": PASSWORD_KEY}}},
            **user,
        }

    def variables(self) -> "list[EnvVarArgsDict]":
        """Of the head's own container. Ray's client believes no authority but one that it is told of."""
        if not self.endpoint.tls:
            return []
        return [{"name": "RAY_REDIS_CA_CERT", "value": CA_FILE if self.authority.secret else _SYSTEM_CA}]
