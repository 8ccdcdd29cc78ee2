"""Access of pods to Redis: the address, the Secret with the password, and the certificate authority.

**Two forms of one address.** `url` is plain and suits any client. RQ and Celery take all their TLS settings from the
address, so with TLS there is also `python-url`, which names the authority and requires that chain and host name are
verified: by default Celery's transport encrypts but verifies neither (celery/kombu, pull request 910), and redis-py
before version 6 does not verify the name.

**The authority is mounted as a directory that contains nothing else**: clients see `ca.crt` of a certificate's Secret,
never the key. A changed authority reaches a running pod within about a minute; the program must reread it.

**A cache's address is known once the cache exists.** Until then the endpoint's host is `KNOWN_LATER`, a name that does
not resolve; objects for pods get the real address as an output.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, urlencode, urlsplit

from components.pods.container import each_container
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS, REDIS_SECRET, REDIS_SECRET_KEYS, RedisKind, RedisSettings
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.labels import NAMESPACE

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )

NAME = IN_CLUSTER_REDIS
SECRET = REDIS_SECRET
PASSWORD_ENV = "REDIS_PASSWORD"
PASSWORD_KEY, URL_KEY, PYTHON_URL_KEY = REDIS_SECRET_KEYS
PORT = 6379
KNOWN_LATER = "known-once-it-exists.invalid"

AUTHORITY_KEY = "ca.crt"  # cert-manager's name
_DIRECTORY = "/etc/ebbtide-redis"
CA_FILE = f"{_DIRECTORY}/{AUTHORITY_KEY}"
_VOLUME = "redis-authority"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAuthority:
    """The certificate authority that clients trust in addition to the authorities of their images."""

    secret: str | None = None  # in the pod's namespace; it must exist before the pod starts

    def trusted_by(self, pod: "PodSpecArgsDict") -> "PodSpecArgsDict":
        """Return the pod with the authority mounted in each container, and its path in `REDIS_CA_FILE`."""
        if self.secret is None:
            return pod
        volumes = cast("Sequence[VolumeArgsDict]", pod.get("volumes") or ())
        volume: VolumeArgsDict = {
            "name": _VOLUME,
            "secret": {"secret_name": self.secret, "items": [{"key": AUTHORITY_KEY, "path": AUTHORITY_KEY}]},
        }
        return {**each_container(pod, _trusting), "volumes": [*volumes, volume]}


PUBLIC = RedisAuthority()
"""Images trust their own certificate authorities."""


def redis_authority(settings: RedisSettings) -> RedisAuthority:
    return RedisAuthority(secret=settings.tls.secret) if settings.tls else PUBLIC


def redis_endpoint(settings: RedisSettings) -> RedisEndpoint:
    """Return the endpoint of the queues. The password's variable always exists; without a password it is empty."""
    ca_file = CA_FILE if settings.tls else None
    if settings.kind is RedisKind.IN_CLUSTER:
        host = f"{NAME}.{NAMESPACE}.svc"
        return RedisEndpoint(
            host=host, port=PORT, tls=settings.tls is not None, ca_file=ca_file, password_env=PASSWORD_ENV
        )
    if settings.kind is RedisKind.ELASTICACHE:
        return RedisEndpoint(host=KNOWN_LATER, port=PORT, tls=True, password_env=PASSWORD_ENV)
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
        port=parts.port or PORT,
        db=int(database or 0),
        tls=parts.scheme == "rediss",
        ca_file=ca_file,
        username=parts.username,
        password_env=PASSWORD_ENV,
    )


def controllers_endpoint(settings: RedisSettings) -> RedisEndpoint:
    """Return the endpoint for the controller, which may log in as a separate user."""
    endpoint = redis_endpoint(settings)
    return replace(endpoint, username=settings.controller.user) if settings.controller else endpoint


def redis_url(endpoint: RedisEndpoint, password: str) -> str:
    """Return the endpoint as a URL that contains the password. Use it only in a Secret."""
    scheme = "rediss" if endpoint.tls else "redis"
    user = quote(endpoint.username or "", safe="")
    login = f"{user}:{quote(password, safe='')}@" if password else f"{user}@" if user else ""
    return f"{scheme}://{login}{endpoint.host}:{endpoint.port}/{endpoint.db}"


def python_url(endpoint: RedisEndpoint, password: str) -> str:
    """Return the URL with TLS settings in the form that redis-py and Celery read."""
    checks = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"}
    authority = {"ssl_ca_certs": endpoint.ca_file} if endpoint.ca_file else {}
    return f"{redis_url(endpoint, password)}?{urlencode(checks | authority, safe='/')}"


def secret_keys(endpoint: RedisEndpoint) -> list[str]:
    return [PASSWORD_KEY, URL_KEY, *([PYTHON_URL_KEY] if endpoint.tls else [])]


def url_key(endpoint: RedisEndpoint, *, python: bool) -> str:
    """Return the key of the client's address in the Secret."""
    return PYTHON_URL_KEY if python and endpoint.tls else URL_KEY


def from_secret(variable: str, key: str, secret: str = SECRET) -> "EnvVarArgsDict":
    """Return an environment variable from a Secret in the pod's namespace, by default Redis's Secret."""
    return {"name": variable, "value_from": {"secret_key_ref": {"name": secret, "key": key}}}


def _trusting(container: "ContainerArgsDict") -> "ContainerArgsDict":
    variables = cast("Sequence[EnvVarArgsDict]", container.get("env") or ())
    mounts = cast("Sequence[VolumeMountArgsDict]", container.get("volume_mounts") or ())
    return {
        **container,
        "env": [*variables, {"name": "REDIS_CA_FILE", "value": CA_FILE}],
        "volume_mounts": [*mounts, {"name": _VOLUME, "mount_path": _DIRECTORY, "read_only": True}],
    }
