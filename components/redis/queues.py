"""The Redis that holds the queues, and the Secret with its address and password.

The Secret exists with or without a password, in both namespaces, so that adding a password later changes a value but no
pod template. Without a password only the NetworkPolicy protects Redis, and it needs a network plugin that enforces
policies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from components.context import StackContext
from components.pods.redis_access import (
    PASSWORD_KEY,
    PYTHON_URL_KEY,
    SECRET,
    URL_KEY,
    RedisAuthority,
    python_url,
    redis_authority,
    redis_endpoint,
    redis_url,
    secret_keys,
)
from components.redis.server import RedisServerArgs, redis_server
from components.redis.users import RedisAclUser, passwords_secret, user_name, user_password
from ebbtide.provisioning_labels import SECRET_KEYS
from ebbtide.settings.sections.redis import RedisKind, RedisSettings
from ebbtide.vocabulary.controller_config import RedisEndpoint


@dataclass(frozen=True, kw_only=True)
class RedisArgs:
    stack: StackContext
    settings: RedisSettings
    further: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])
    """Further namespaces whose pods use Redis, by name: Ray clusters whose heads store their state in it."""
    password: pulumi.Input[str] | None = None
    users: Mapping[str, RedisAclUser] = field(default_factory=dict[str, RedisAclUser])
    """Redis users for adopted pods, by rule; only for the in-cluster Redis."""


class Redis(pulumi.ComponentResource):
    """The endpoint's Secrets, and the server unless it runs elsewhere."""

    endpoint: RedisEndpoint
    authority: RedisAuthority

    def __init__(self, name: str, args: RedisArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Redis", name, None, opts)
        self.endpoint = redis_endpoint(args.settings)
        self.authority = redis_authority(args.settings)
        self._secret(f"{name}-secret", args.stack.namespace, args)
        self._secret(f"{name}-worker-secret", args.stack.worker_namespace, args)
        for client, namespace in args.further.items():
            self._secret(f"{name}-{client}-secret", namespace, args)
        for rule, user in sorted(args.users.items()):
            self._secret(f"{name}-{rule}-user", user.rule.namespace, args, rule)
        if args.settings.kind is RedisKind.IN_CLUSTER:
            server = RedisServerArgs(
                stack=args.stack,
                settings=args.settings,
                clients=[args.stack.namespace, args.stack.worker_namespace, *args.further.values()],
                users=args.users,
            )
            if args.users:
                passwords_secret(f"{name}-users", args.users, _secret_text(args.password), args.stack, parent=self)
            redis_server(name, server, parent=self)
        self.register_outputs({})

    def _secret(
        self, resource_name: str, namespace: pulumi.Input[str], args: RedisArgs, rule: str | None = None
    ) -> None:
        """Create the Secret of a namespace, or of a rule with its own user."""
        password, endpoint, secret = _secret_text(args.password), self.endpoint, SECRET
        if rule is not None:
            password = password.apply(lambda text: user_password(text, rule))
            endpoint, secret = replace(endpoint, username=user_name(rule)), f"{SECRET}-{rule}"
        host = self.endpoint.host if args.stack.cache_host is None else args.stack.cache_host
        outputs = pulumi.Output.all(host=host, password=password)
        spellings = {
            PASSWORD_KEY: password,
            URL_KEY: outputs.apply(lambda it: redis_url(replace(endpoint, host=it["host"]), it["password"])),
            PYTHON_URL_KEY: outputs.apply(
                lambda values: python_url(replace(endpoint, host=values["host"]), values["password"])
            ),
        }
        keys = secret_keys(endpoint)
        Secret(
            resource_name,
            metadata={"name": secret, "namespace": namespace, "annotations": {SECRET_KEYS: ",".join(keys)}},
            string_data={key: spellings[key] for key in keys},
            opts=pulumi.ResourceOptions(parent=self),
        )


def _secret_text(password: pulumi.Input[str] | None) -> pulumi.Output[str]:
    return pulumi.Output.secret("" if password is None else password)
