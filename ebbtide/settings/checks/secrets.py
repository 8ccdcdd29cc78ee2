"""Where secrets stand and what refers to them: encrypted values in a wrong place, references to unknown keys.

A reference to a name that the stack file does not have is a Secret of somebody else's: `ebbtide probe` looks for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from ebbtide.settings.checks.draft import CRON_JOBS, JOBS, REDIS_PASSWORD, WORKERS, WORKLOADS
from ebbtide.settings.file.document import OURS
from ebbtide.settings.file.pod_entries import RAY
from ebbtide.settings.file.problems import Finding, Location, Secret, did_you_mean, show
from ebbtide.settings.file.service_entries import SERVICES
from ebbtide.settings.sections.redis import REDIS_SECRET, REDIS_SECRET_KEYS
from ebbtide.settings.sections.secrets import DIGEST_KEY, SECRETS, SecretReference, set_command

ENCRYPTED = (SECRETS, REDIS_PASSWORD, DIGEST_KEY)
"""Where encrypted values belong."""

OF_PODS = (WORKLOADS, WORKERS, JOBS, CRON_JOBS, RAY, SERVICES)
"""Sections in which a reference can take the place of a value."""

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
                    wanted=f"a key of {REDIS_SECRET}: {', '.join(REDIS_SECRET_KEYS)}, the last with TLS alone",
                    found=show(key),
                    example="url",
                )


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
    if key in OF_PODS:
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
