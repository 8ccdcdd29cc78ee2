"""Users of the in-cluster Redis for adopted pods: each has its own rights, Secret and network policy rule.

A user's password is derived from the stack's password, so nothing has to store it, and a new stack password replaces
all of them. Redis reads its users at start, so adding or removing a rule restarts Redis.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from components.context import StackContext
from components.pods.redis_access import from_secret
from ebbtide.provisioning_labels import SECRET_KEYS
from ebbtide.settings.sections.adopted import AdoptedSettings

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict

PASSWORDS = "ebbtide-redis-users"
"""The Secret from which Redis reads the passwords of its users, by rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAclUser:
    """The user of one rule. `rights` are the words of an ACL rule."""

    rule: AdoptedSettings
    rights: Sequence[str]


def user_name(rule: str) -> str:
    return f"ebbtide-{rule}"


def user_password(password: str, rule: str) -> str:
    return hmac.new(password.encode(), f"ebbtide redis user {rule}".encode(), "sha256").hexdigest()


def user_options(users: Mapping[str, RedisAclUser]) -> list[str]:
    """Return arguments for Redis' command line. They refer to passwords by the variables of `password_variable`."""
    return [
        word
        for name, user in sorted(users.items())
        for word in ("--user", user_name(name), "on", f">$({password_variable(name)})", *user.rights)
    ]


def password_variable(rule: str) -> str:
    return f"REDIS_USER_{rule.upper().replace('-', '_')}"


def password_variables(users: Mapping[str, RedisAclUser]) -> "list[EnvVarArgsDict]":
    return [from_secret(password_variable(name), name, PASSWORDS) for name in sorted(users)]


def passwords_secret(
    resource_name: str,
    users: Mapping[str, RedisAclUser],
    password: pulumi.Output[str],
    stack: StackContext,
    *,
    parent: pulumi.Resource,
) -> Secret:
    return Secret(
        resource_name,
        metadata={
            "name": PASSWORDS,
            "namespace": stack.namespace,
            "annotations": {SECRET_KEYS: ",".join(sorted(users))},
        },
        string_data={name: password.apply(lambda text, name=name: user_password(text, name)) for name in sorted(users)},
        opts=pulumi.ResourceOptions(parent=parent),
    )
