"""Check where secrets are and what refers to them: misplaced encrypted values, references to unknown keys.

A reference to a Secret that is not in the stack file means an external Secret; `ebbtide probe` looks for it. The
bundled Prometheus can only use Secrets of the stack file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from ebbtide.settings.checks.read import Read, Rule
from ebbtide.settings.file.document import OURS
from ebbtide.settings.file.keys import CLUSTER, DIGEST_KEY, IMAGES, MONITORING, PODS, REDIS, REDIS_PASSWORD, SERVING
from ebbtide.settings.file.problems import Finding, Location, Secret, did_you_mean, show
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.redis import REDIS_SECRET, REDIS_SECRET_KEYS, RedisKind
from ebbtide.settings.sections.secrets import PULL_KEY, SECRETS, TLS_KEYS, SecretReference, secrets_of, set_command
from ebbtide.settings.sections.serving.gateway import GATEWAY_TLS_KEYS

ENCRYPTED = (SECRETS, REDIS_PASSWORD, DIGEST_KEY)
"""Where encrypted values belong."""

_PART = 2
"""Where in the place of a value the key of its pod section stands, after the section and the name."""

_TOLD_BETTER = ("key.unknown", "key.elsewhere")
"""What else may be wrong with the key, or with one that it stands below: that goes, whatever it holds."""


def wrong_references(references: Iterable[SecretReference], secrets: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """References to a Secret of the file, for a key that it does not have there."""
    for at, name, keys in references:
        known = secrets.get(name)
        for key in keys if known is not None else ():
            if key not in (known or ()):
                yield Finding(
                    code="secret.key-unknown",
                    at=at,
                    wanted=f"a key of {SECRETS}.{name}",
                    found=show(key),
                    hint=f"{_near(key, known or ())}{set_command(name, key)}",
                )


def wrong_keys_of_redis(references: Iterable[SecretReference]) -> Iterator[Finding]:
    """References to the Secret that Ebbtide itself writes."""
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


def _references(read: Read) -> Iterator[SecretReference]:
    """To Secrets of the stack or of somebody else, in the sections that were read."""
    stack = read.stack
    if IMAGES in read.whole:
        for index, name in enumerate(stack.images.pull_secrets):
            yield SecretReference((IMAGES, "pullSecrets", index), name, (PULL_KEY,))
    if REDIS in read.whole and stack.redis.tls is not None and stack.redis.kind is RedisKind.IN_CLUSTER:
        yield SecretReference((REDIS, "tls", "secret"), stack.redis.tls.secret, TLS_KEYS)
    if MONITORING in read.whole:
        for at, name, key in stack.monitoring.secret_references():
            yield SecretReference((MONITORING, *at), name, (key,))
    if SERVING in read.whole:
        if stack.serving.tls is not None:
            yield SecretReference((SERVING, "tls"), stack.serving.tls, GATEWAY_TLS_KEYS)
        access = stack.serving.prometheus_access
        for key, held in access.held if access is not None else ():
            yield SecretReference((SERVING, "prometheusAccess", key, "key"), held.secret, (held.key,))
    for each in read.pods:
        for at, name, key in each.pod.secret_references():
            yield SecretReference((*each.at, *at), name, () if key is None else (key,))


def _have_the_keys(read: Read) -> Iterator[Finding]:
    references = [*_references(read)]
    yield from wrong_references(references, secrets_of(read.config))
    yield from wrong_keys_of_redis(references)


def told_once(findings: Sequence[Finding], config: Mapping[str, object]) -> list[Finding]:
    """The findings with one for each encrypted value in a wrong place, instead of whatever else is said of it."""
    told = list(findings)
    for finding in _misplaced(config):
        if not any(one.code in _TOLD_BETTER and one.at == finding.at[: len(one.at)] for one in told):
            depth = len(finding.at)
            told = [*(one for one in told if one.at[:depth] != finding.at), finding]
    return told


def _near(key: str, known: Sequence[str]) -> str:
    hint = did_you_mean(key, known)
    return f"{hint} or set it: " if hint.startswith("did") else f"{hint}; or set it: " if hint else ""


def _misplaced(config: Mapping[str, object]) -> Iterator[Finding]:
    """One for each. The program is not told which value of a section is encrypted: there the section is the place."""
    for key, value in config.items():
        if key.startswith(OURS) and key not in ENCRYPTED:
            for at in _secrets_in(value, (key,)):
                yield Finding(
                    code="secret.not-here", at=at, wanted="a plain value", found="(a secret)", hint=_advice(at)
                )


def _advice(at: Location) -> str:
    key = str(at[0])
    if key in PODS:  # where a reference can take the place of a value
        return (
            f"for this one value Pulumi would hide all of {key}: {set_command('NAME', 'KEY')}, "
            f"and refer to it here: {_reference(at)}"
        )
    return f"encrypted values belong into {', '.join(ENCRYPTED)} alone: the rest is checked before anything is built"


def _reference(at: Location) -> str:
    """Below `pod:` stand Kubernetes' own words, and a reference takes the place of `value`."""
    if at[_PART : _PART + 1] == ("pod",):
        return "valueFrom: { secretKeyRef: { name: NAME, key: KEY } }"
    return "{ secret: NAME, key: KEY }"


def _secrets_in(value: object, at: Location) -> Iterator[Location]:
    if isinstance(value, Secret):
        yield at
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            yield from _secrets_in(inner, (*at, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("Sequence[object]", value)):
            yield from _secrets_in(inner, (*at, index))


def _secrets_are_there(read: Read) -> Iterator[Finding]:
    known = read.names(SECRETS)
    for at, name, key in read.stack.monitoring.secret_references():
        if name not in known:
            yield Finding(
                code="monitoring.secret-unknown",
                at=(MONITORING, *at),
                wanted=f"a Secret of {SECRETS}",
                found=show(name),
                hint=did_you_mean(name, known) or set_command(name, key),
            )


def _roles_need_eks(read: Read) -> Iterator[Finding]:
    written = read.stack.monitoring.remote_write
    if written is not None and written.role is not None:
        yield Finding(
            code="monitoring.role-without-eks",
            at=(MONITORING, "remoteWrite", "role"),
            wanted="no role on an existing cluster, whose accounts get none",
            found="a role",
            example="secret: mimir",
        )


RULES = (
    Rule((), _have_the_keys),
    Rule((MONITORING,), _secrets_are_there),
    Rule((MONITORING, CLUSTER), _roles_need_eks, on=ClusterKind.EXISTING),
)
