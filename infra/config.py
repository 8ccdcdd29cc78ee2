"""The only reader of Pulumi's config: all of it as a mapping, and the one secret as an output.

Pulumi hands every value over as text; objects are JSON. `pulumi.Config` answers only for names that it is asked for, so
a misspelt key would go unnoticed: here every key is passed on, and the settings refuse what they do not know.
"""

import json
from typing import Any

import pulumi
from pulumi.runtime import is_config_secret
from pulumi.runtime.config import CONFIG

from ebbtide.settings.document import FOREIGN, OURS, REGION
from ebbtide.settings.problems import SECRET

NAMESPACE = OURS.removesuffix(":")


def stack_config() -> dict[str, object]:
    """The whole config by full key; secrets and what belongs to others stand there without their content."""
    return {key: _value(key, text) for key, text in sorted(CONFIG.get().items())}


def redis_password() -> pulumi.Output[str] | None:
    """`ebbtide:redisPassword`, never in the clear."""
    return pulumi.Config(NAMESPACE).get_secret("redisPassword")


def _value(key: str, text: str) -> object:
    if is_config_secret(key):
        return SECRET
    if key == REGION:
        return text
    if key.startswith(OURS):
        return _parsed(text)
    return SECRET if key.startswith(FOREIGN) else ""


def _parsed(text: str) -> Any:
    """Objects and lists from JSON. Text stays text, even where it could be a number: a version is written "1.35"."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # a text of brackets alone ends in the second
        return text
