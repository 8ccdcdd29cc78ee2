"""The section of secrets: the only place of a stack file for encrypted values, by Secret and key.

The settings hold names and keys, never a value: the parser replaces each `secure:` by `Secret`, and the Pulumi program,
which receives decrypted values, does the same before validation.

`{ secure: PLACEHOLDER }` stands for a value that is not set yet. Files with placeholders can be checked, rendered and
previewed; the program refuses them.

A text with a character that no encrypted value has is refused. A text that only lacks the form of one is a warning:
another program may encrypt for Pulumi, and its form is not known.

Trap: for Pulumi a top-level key with one `secure:` value is entirely secret, and the program does not know which of its
values were encrypted. So only the file, which `ebbtide check` reads, shows a text in the clear next to encrypted ones;
and other keys of pods stay out of this section, where Pulumi would hide them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple, TypeAlias, cast

from pydantic import WithJsonSchema

from ebbtide.settings.file.keys import DIGEST_KEY, ENCRYPTED, SECRETS
from ebbtide.settings.file.problems import PLACEHOLDER, Finding, Location, Secret, secrets_in, show
from ebbtide.settings.sections.types import NAME

SET_DIGEST_KEY = f'pulumi config set --secret {DIGEST_KEY} "$(openssl rand -hex 32)"'
DIGEST_KEY_WANTED = "a secret of at least 32 characters, with which the digests of the values are keyed"

KEY = r"^(?!\.{1,2}$)(?!\.\.)[-._a-zA-Z0-9]{1,253}$"
"""Key of a Secret (kubernetes/kubernetes, apimachinery, util/validation, IsConfigMapKey)."""

PULL_KEY = ".dockerconfigjson"
"""Key of a Secret with a registry's login."""

TLS_KEYS = ("tls.crt", "tls.key", "ca.crt")
"""Keys of a certificate, its private key and its authority, as cert-manager writes them."""

_SHORTEST_KEY = 32
CHANGE_IT = "and change the value, it has been in a file"
_EXAMPLE = f"{{ api: {{ TOKEN: {{ secure: {PLACEHOLDER} }} }} }}"

SecretKeys: TypeAlias = Annotated[
    tuple[str, ...],
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": KEY},
            "additionalProperties": {
                "type": "object",
                "required": ["secure"],
                "additionalProperties": False,
                "properties": {"secure": {}},
            },
        }
    ),
]
"""Sorted, since Pulumi passes the keys in another order than the file."""


class SecretReference(NamedTuple):
    """A reference to a Secret, of the stack or external."""

    at: Location
    name: str
    keys: tuple[str, ...] = ()  # that must exist; () for a reference to all keys


def secrets_of(config: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Return the valid keys of each Secret, by its name."""
    section = config.get(SECRETS)
    if not isinstance(section, Mapping):
        return {}
    return {
        str(name): tuple(sorted(map(str, cast("Mapping[object, object]", values))))
        for name, values in cast("Mapping[object, object]", section).items()
        if isinstance(values, Mapping)
    }


def secret_faults(config: Mapping[str, object]) -> Iterator[Finding]:
    """Return the faults of the section and of the digest key. They never contain a part of a value."""
    if SECRETS in config:
        yield from _section_faults(config[SECRETS])
    yield from _digest_key_faults(config)
    for at, secret in secrets_in({key: config[key] for key in ENCRYPTED if key in config}):
        if not secret.encrypted:
            yield Finding(
                code="secret.not-encrypted",
                at=at,
                wanted="a secure: value that pulumi config set --secret wrote, or a placeholder",
                found="another text",
                example=f"{{ secure: {PLACEHOLDER} }}",
                hint=f"{command_of(at)}; {CHANGE_IT}",
            )


def placeholders_in(config: Mapping[str, object]) -> list[Location]:
    """Return the locations of the values that are not set yet."""
    return [at for at, secret in secrets_in(config) if secret.placeholder]


def doubtful_in(config: Mapping[str, object]) -> list[Location]:
    """Return the locations of the texts that are perhaps not encrypted."""
    return [at for at, secret in secrets_in(config) if secret.doubtful]


def placeholder_faults(config: Mapping[str, object]) -> list[Finding]:
    """Return a fault for each value that is not set yet. Only the program refuses them."""
    return [
        Finding(
            code="secret.placeholder",
            at=at,
            wanted="the value of this secret",
            found=f"{PLACEHOLDER}, which stands for a value that is not set yet",
            hint=command_of(at),
        )
        for at in placeholders_in(config)
    ]


def digest_key_fault(key: str) -> str:
    """Return the fault of the digest key, without a character of it."""
    return "a secret that is too short" if len(key) < _SHORTEST_KEY else ""


def set_command(name: str, key: str) -> str:
    """Return the command that sets a value. Unquoted, a key with a dot would be two steps of Pulumi's path."""
    step = f'["{key}"]' if "." in key else f".{key}"
    return f"pulumi config set --secret --path '{SECRETS}.{name}{step}'"


def command_of(at: Location) -> str:
    """Return the command that sets the value at a location."""
    match at:
        case (key, name, entry, *_) if key == SECRETS:
            return set_command(str(name), str(entry))
        case (key,) if key == DIGEST_KEY:
            return SET_DIGEST_KEY
        case _:
            return f"pulumi config set --secret {at[0]}"


def _section_faults(section: object) -> Iterator[Finding]:
    if not isinstance(section, Mapping):
        yield Finding(
            code="secrets.form",
            at=(SECRETS,),
            wanted="names of Secrets, each with its keys",
            found=_kind(section),
            example=_EXAMPLE,
            hint=f"one command for each value: {set_command('NAME', 'KEY')}",
        )
        return
    for name, values in cast("Mapping[object, object]", section).items():
        yield from _name_faults(str(name))
        yield from _value_faults(str(name), values)


def _name_faults(name: str) -> Iterator[Finding]:
    if re.fullmatch(NAME, name) is None:
        expected = "a name of lower-case letters, digits and hyphens, at most 40 long, not beginning with ebbtide-"
        yield Finding(code="name.form", at=(SECRETS, name), wanted=expected, found=show(name), example="api")


def _value_faults(name: str, values: object) -> Iterator[Finding]:
    at: Location = (SECRETS, name)
    if not isinstance(values, Mapping) or not values:
        yield Finding(
            code="secret.no-keys",
            at=at,
            wanted="the keys of the Secret, each with a secure: value",
            found="no key" if isinstance(values, Mapping) else _kind(values),
            example=f"{{ TOKEN: {{ secure: {PLACEHOLDER} }} }}",
            hint=set_command(name, "KEY"),
        )
        return
    for key, value in cast("Mapping[object, object]", values).items():
        if re.fullmatch(KEY, str(key)) is None:
            expected = "a key of a Secret: letters, digits, hyphens, underscores and dots, at most 253"
            yield Finding(
                code="secret.key", at=(*at, str(key)), wanted=expected, found=show(str(key)), example="TOKEN or tls.crt"
            )
        elif not isinstance(value, Secret):
            yield Finding(
                code="secret.in-the-clear",
                at=(*at, str(key)),
                wanted="a secure: value",
                found=_kind(value),
                hint=f"{set_command(name, str(key))}; {CHANGE_IT}",
            )


def _digest_key_faults(config: Mapping[str, object]) -> Iterator[Finding]:
    key = config.get(DIGEST_KEY)
    if DIGEST_KEY not in config:
        if SECRETS in config:
            yield Finding(
                code="digest-key.missing",
                at=(SECRETS,),
                wanted=f"{DIGEST_KEY} in addition: {DIGEST_KEY_WANTED}",
                found="nothing",
                hint=SET_DIGEST_KEY,
            )
    elif not isinstance(key, Secret):
        yield Finding(
            code="secret.in-the-clear",
            at=(DIGEST_KEY,),
            wanted="a secure: value",
            found=_kind(key),
            hint=f"{SET_DIGEST_KEY}; the old one has been in a file",
        )
    elif key.key_fault:
        yield Finding(
            code="digest-key.short",
            at=(DIGEST_KEY,),
            wanted=DIGEST_KEY_WANTED,
            found=key.key_fault,
            hint=SET_DIGEST_KEY,
        )


def _kind(value: object) -> str:
    """Return the kind of a value only: even a number may be a password."""
    if value is None or isinstance(value, Secret | Mapping | list | tuple):
        return show(cast("object", value))
    return "a value in the clear"
