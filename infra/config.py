"""The only reader of Pulumi's config: all of it as a mapping, and the one secret as an output.

Pulumi hands every value over as text; objects are JSON. `pulumi.Config` answers only for names that it is asked for, so
a misspelt key would go unnoticed: here every key is passed on, and the settings refuse what they do not know.
"""

import pulumi
from pulumi.runtime import is_config_secret
from pulumi.runtime.config import CONFIG

from ebbtide.settings.document import FOREIGN, OURS, REGION
from ebbtide.settings.draft import REDIS_PASSWORD
from ebbtide.settings.handed_over import value_of
from ebbtide.settings.problems import SECRET, Secret
from ebbtide.settings.redis_token import token_fault

NAMESPACE = OURS.removesuffix(":")


def stack_config() -> dict[str, object]:
    """The whole config by full key; secrets and what belongs to others stand there without their content."""
    return {key: _value(key, text) for key, text in sorted(CONFIG.get().items())}


def redis_password() -> pulumi.Output[str] | None:
    """`ebbtide:redisPassword`, never in the clear."""
    return pulumi.Config(NAMESPACE).get_secret("redisPassword")


def _value(key: str, text: str) -> object:
    if key == REDIS_PASSWORD:
        return Secret(token_fault(text))
    if is_config_secret(key):
        return SECRET
    if key == REGION:
        return text
    if key.startswith(OURS):
        return value_of(text)
    return SECRET if key.startswith(FOREIGN) else ""
