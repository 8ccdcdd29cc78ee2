"""Check where secrets are and what refers to them: misplaced encrypted values, references to unknown keys.

A reference to a Secret that is not in the stack file means an external Secret; `ebbtide probe` looks for it. The
bundled Prometheus can only use Secrets of the stack file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.document import OURS
from ebbtide.settings.file.keys import BROKERS, CLUSTER, ENCRYPTED, IMAGES, MONITORING, PODS, REDIS, SECRETS, SERVING
from ebbtide.settings.file.problems import Finding, Location, did_you_mean, secrets_in, show
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.redis import REDIS_SECRET, REDIS_SECRET_KEYS, RedisKind
from ebbtide.settings.sections.secrets import PULL_KEY, TLS_KEYS, SecretReference, secrets_of, set_command
from ebbtide.settings.sections.serving.gateway import GATEWAY_TLS_KEYS

_PART = 2
"""Index of the pod's key in a location, after the section and the name."""

_KEY_FAULTS = ("key.unknown", "key.elsewhere")
"""Faults of a key or of its parent that replace the finding of a misplaced secret, since the key must go anyway."""


def wrong_references(references: Iterable[SecretReference], secrets: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding for each reference to a key that a Secret of the file does not have."""
    for at, name, keys in references:
        keys_of_secret = secrets.get(name)
        for key in keys if keys_of_secret is not None else ():
            if key not in (keys_of_secret or ()):
                yield Finding(
                    code="secret.key-unknown",
                    at=at,
                    wanted=f"a key of {SECRETS}.{name}",
                    found=show(key),
                    hint=f"{_near(key, keys_of_secret or ())}{set_command(name, key)}",
                )


def wrong_keys_of_redis(references: Iterable[SecretReference]) -> Iterator[Finding]:
    """Yield a finding for each reference to a key that the Secret which Ebbtide creates does not have."""
    for at, name, keys in references:
        for key in keys if name == REDIS_SECRET else ():
            if key not in REDIS_SECRET_KEYS:
                yield Finding(
                    code="secret.key-unknown",
                    at=at,
                    wanted=f"a key of {REDIS_SECRET}: {', '.join(REDIS_SECRET_KEYS)}, the last only with TLS",
                    found=show(key),
                    example="url",
                )


def _references(parsed: ParsedSections) -> Iterator[SecretReference]:
    """Yield the references of valid sections, to Secrets of the stack and to external ones."""
    stack = parsed.stack
    if IMAGES in parsed.valid:
        for index, name in enumerate(stack.images.pull_secrets):
            yield SecretReference((IMAGES, "pullSecrets", index), name, (PULL_KEY,))
    if REDIS in parsed.valid and stack.redis.tls is not None and stack.redis.kind is RedisKind.IN_CLUSTER:
        yield SecretReference((REDIS, "tls", "secret"), stack.redis.tls.secret, TLS_KEYS)
    for name, broker in stack.brokers.items() if BROKERS in parsed.valid else ():
        for key, login in (("controller", broker.controller), ("workers", broker.workers)):
            if login is not None:
                yield SecretReference((BROKERS, name, key, "secret"), login.secret, (REDIS_SECRET_KEYS[0],))
    if MONITORING in parsed.valid:
        for at, name, key in stack.monitoring.secret_references():
            yield SecretReference((MONITORING, *at), name, (key,))
    if SERVING in parsed.valid:
        if stack.serving.tls is not None:
            yield SecretReference((SERVING, "tls"), stack.serving.tls, GATEWAY_TLS_KEYS)
        access = stack.serving.prometheus_access
        for key, reference in access.held if access is not None else ():
            yield SecretReference((SERVING, "prometheusAccess", key, "key"), reference.secret, (reference.key,))
    for placed in parsed.pods:
        for at, name, key in placed.pod.secret_references():
            yield SecretReference((*placed.at, *at), name, () if key is None else (key,))


def _have_the_keys(parsed: ParsedSections) -> Iterator[Finding]:
    references = [*_references(parsed)]
    yield from wrong_references(references, secrets_of(parsed.config))
    yield from wrong_keys_of_redis(references)


def one_finding_per_secret(findings: Sequence[Finding], config: Mapping[str, object]) -> list[Finding]:
    """Replace all findings of a misplaced encrypted value by one."""
    remaining = list(findings)
    for finding in _misplaced(config):
        parents = [fault.at for fault in remaining if fault.code in _KEY_FAULTS]
        if not any(at == finding.at[: len(at)] for at in parents):
            depth = len(finding.at)
            remaining = [*(fault for fault in remaining if fault.at[:depth] != finding.at), finding]
    return remaining


def _near(key: str, known_keys: Sequence[str]) -> str:
    hint = did_you_mean(key, known_keys)
    return f"{hint} or set it: " if hint.startswith("did") else f"{hint}; or set it: " if hint else ""


def _misplaced(config: Mapping[str, object]) -> Iterator[Finding]:
    """Yield one finding per value. A running program knows only the section of a secret, which is the location then."""
    for key, value in config.items():
        if key.startswith(OURS) and key not in ENCRYPTED:
            for at, _ in secrets_in(value, (key,)):
                yield Finding(
                    code="secret.not-here", at=at, wanted="a plain value", found="(a secret)", hint=_advice(at)
                )


def _advice(at: Location) -> str:
    key = str(at[0])
    if key in PODS:  # a reference can replace the value
        return (
            f"because of this one value Pulumi would hide all of {key}: run {set_command('NAME', 'KEY')}, "
            f"and refer to it here: {_reference(at)}"
        )
    return f"encrypted values belong only in {', '.join(ENCRYPTED)}: the rest is checked before anything is built"


def _reference(at: Location) -> str:
    """Below `pod:` a reference has Kubernetes' form and replaces `value`."""
    if at[_PART : _PART + 1] == ("pod",):
        return "valueFrom: { secretKeyRef: { name: NAME, key: KEY } }"
    return "{ secret: NAME, key: KEY }"


def _secrets_exist(parsed: ParsedSections) -> Iterator[Finding]:
    names = parsed.names(SECRETS)
    for at, name, key in parsed.stack.monitoring.secret_references():
        if name not in names:
            yield Finding(
                code="monitoring.secret-unknown",
                at=(MONITORING, *at),
                wanted=f"a Secret of {SECRETS}",
                found=show(name),
                hint=did_you_mean(name, names) or set_command(name, key),
            )


def _roles_need_eks(parsed: ParsedSections) -> Iterator[Finding]:
    written = parsed.stack.monitoring.remote_write
    if written is not None and written.role is not None:
        yield Finding(
            code="monitoring.role-without-eks",
            at=(MONITORING, "remoteWrite", "role"),
            wanted="no role on an existing cluster, whose accounts get none",
            found="a role",
            example="secret: mimir",
        )


RULES = (
    CheckRule((), _have_the_keys),
    CheckRule((MONITORING,), _secrets_exist),
    CheckRule((MONITORING, CLUSTER), _roles_need_eks, on=ClusterKind.EXISTING),
)
