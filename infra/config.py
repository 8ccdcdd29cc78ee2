"""The only reader of Pulumi's config: all keys as a mapping, and secrets as outputs.

Pulumi passes every value as text; objects are JSON. `pulumi.Config` only looks up single names, so a misspelt key would
go unnoticed. This module passes on every key, and the settings refuse unknown keys.
"""

import json

import pulumi
from pulumi.runtime import is_config_secret
from pulumi.runtime.config import CONFIG

from components.pods.secrets import StackSecrets
from ebbtide.settings.file.document import FOREIGN, OURS, REGION
from ebbtide.settings.file.keys import DIGEST_KEY, ENCRYPTED, REDIS_PASSWORD, SECRETS
from ebbtide.settings.file.problems import PLACEHOLDER, SECRET, Secret, secret_of
from ebbtide.settings.load import encrypted, value_of
from ebbtide.settings.sections.redis import token_fault
from ebbtide.settings.sections.secrets import digest_key_fault

NAMESPACE = OURS.removesuffix(":")


def stack_config() -> dict[str, object]:
    """Return the entire config by full key; secrets and keys of other namespaces have no content."""
    return {key: _value(key, text) for key, text in sorted(CONFIG.get().items())}


def redis_password() -> pulumi.Output[str] | None:
    """Return `ebbtide:redisPassword`, never in plain text."""
    return pulumi.Config(NAMESPACE).get_secret("redisPassword")


def stack_secrets() -> StackSecrets | None:
    """Return `ebbtide:secrets` and the key of their digests, never in plain text; None if either is missing."""
    config = pulumi.Config(NAMESPACE)
    values, key = (config.get_secret(name.removeprefix(OURS)) for name in (SECRETS, DIGEST_KEY))
    return None if values is None or key is None else StackSecrets(values=values.apply(json.loads), key=key)


def _value(key: str, text: str) -> object:
    if text == PLACEHOLDER and (key in ENCRYPTED or is_config_secret(key)):
        return secret_of(text)
    if key == REDIS_PASSWORD:
        return Secret(token_fault(text))
    if key == DIGEST_KEY and is_config_secret(key):
        return Secret(key_fault=digest_key_fault(text))
    if key == SECRETS and is_config_secret(key):
        return encrypted(text)
    if is_config_secret(key):
        return SECRET
    if key == REGION:
        return text
    if key.startswith(OURS):
        return value_of(text)
    return SECRET if key.startswith(FOREIGN) else ""
