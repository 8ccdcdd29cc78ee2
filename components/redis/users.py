"""Users of the in-cluster Redis for adopted pods: each with its own rights, Secret and way through the network.

A user's password follows from the stack's, so nothing has to store it, and a new password of the stack replaces all.
Redis learns its users when it starts: a rule that is added or removed restarts it.
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
class RedisUser:
    """The user of one rule. `rights` are the words of an ACL rule."""

    rule: AdoptedSettings
    rights: Sequence[str]


def user_name(rule: str) -> str:
    return f"ebbtide-{rule}"


def user_password(password: str, rule: str) -> str:
    return hmac.new(password.encode(), f"ebbtide redis user {rule}".encode(), "sha256").hexdigest()


def user_options(users: Mapping[str, RedisUser]) -> list[str]:
    """Return the words of Redis' command line. A password is the variable that `password_variable` names."""
    return [
        word
        for name, user in sorted(users.items())
        for word in ("--user", user_name(name), "on", f">$({password_variable(name)})", *user.rights)
    ]


def password_variable(rule: str) -> str:
    return f"REDIS_USER_{rule.upper().replace('-', '_')}"


def password_variables(users: Mapping[str, RedisUser]) -> "list[EnvVarArgsDict]":
    return [from_secret(password_variable(name), name, PASSWORDS) for name in sorted(users)]


def passwords_secret(
    resource_name: str,
    users: Mapping[str, RedisUser],
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
