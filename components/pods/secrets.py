"""The Secrets of a stack file in the namespaces of their readers, and the digest that restarts the readers' pods.

**Values are `data`, never `stringData`.** With server-side apply a key that is removed from `stringData` stays in the
cluster, since the manager owns no field of `data` (kubernetes/kubernetes, issue 108008): a revoked value would remain.

**The type follows from the keys.** Kubernetes cannot change it: a Secret that becomes a certificate is replaced.

**Without values**, as in a rendering or an offline preview, each key's value is an empty secret. There is no digest
then: files rendered for kubectl would contain a made-up digest, which would go stale.
"""

import hashlib
import hmac
import json
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from ebbtide.provisioning_labels import SECRET_KEYS, SECRETS_DIGEST
from ebbtide.settings.sections.secrets import PULL_KEY, TLS_KEYS

Values: TypeAlias = Mapping[str, Mapping[str, str]]
"""Plain values by name and key."""

Reference: TypeAlias = tuple[str, str | None]
"""Name and key of a Secret; the key is None for all keys, as in a volume or `envFrom`."""

OPAQUE = "Opaque"
TLS = "kubernetes.io/tls"
PULL = "kubernetes.io/dockerconfigjson"

_CERTIFICATE, _PRIVATE_KEY, _AUTHORITY = TLS_KEYS


@dataclass(frozen=True, kw_only=True)
class StackSecrets:
    """The encrypted values of the stack file, as secret outputs."""

    values: pulumi.Output[Values]
    key: pulumi.Output[str]  # HMAC key of the digests


@dataclass(frozen=True, kw_only=True)
class SecretsSource:
    """The Secrets of a stack, with their values if known."""

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])  # by name
    known: StackSecrets | None = None

    def annotations_for(self, references: Iterable[Reference]) -> Mapping[str, pulumi.Output[str]]:
        """Return annotations for a pod template that refers to these Secrets: the pods roll when a value changes.

        Empty in a rendering, and for Secrets that are not in the stack file, whose values are unknown.

        The digest is not marked as secret, so that the pod template is readable in a preview. That is safe because the
        digest is keyed: with a plain hash, everyone who sees a Deployment could test passwords against it. Without the
        key the digest reveals only that a value has changed. No object of the cluster contains the key.
        """
        chosen = self._chosen(references)
        if self.known is None or not chosen:
            return {}
        outputs = pulumi.Output.all(values=self.known.values, key=self.known.key)
        secret_digest = outputs.apply(
            lambda values_and_key: digest(_picked(values_and_key["values"], chosen), values_and_key["key"])
        )
        return {SECRETS_DIGEST: pulumi.Output.unsecret(secret_digest)}

    def _chosen(self, references: Iterable[Reference]) -> Mapping[str, Collection[str]]:
        """Return the referenced keys by name."""
        chosen: dict[str, set[str]] = {}
        for name, key in references:
            if name in self.keys:
                chosen.setdefault(name, set()).update(self.keys[name] if key is None else (key,))
        return chosen

    def value(self, name: str, key: str) -> pulumi.Output[str]:
        """Return the plain value as a secret output, empty if unknown."""
        if self.known is None:
            return pulumi.Output.secret("")
        return self.known.values.apply(lambda values: values[name][key])


NO_SECRETS = SecretsSource()


def _picked(values: Values, chosen: Mapping[str, Collection[str]]) -> Values:
    return {name: {key: values[name][key] for key in keys} for name, keys in chosen.items()}


def digest(values: Values, key: str) -> str:
    """Return the HMAC-SHA-256 of names, keys and values. JSON delimits them, so other values give other text."""
    text = json.dumps(values, sort_keys=True)
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, kw_only=True)
class SecretsArgs:
    source: SecretsSource
    wanted: Mapping[str, Collection[str]]  # by namespace, the names of the Secrets that its pods use


class Secrets(pulumi.ComponentResource):
    def __init__(self, name: str, args: SecretsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Secrets", name, None, opts)
        for namespace, names in args.wanted.items():
            for secret in sorted(names):
                self._secret(namespace, secret, args)
        self.register_outputs({})

    def _secret(self, namespace: str, name: str, args: SecretsArgs) -> None:
        keys = sorted(args.source.keys[name])
        Secret(
            f"{namespace}.{name}",  # no name contains a dot, so the pairs are unique
            metadata={"name": name, "namespace": namespace, "annotations": {SECRET_KEYS: ",".join(keys)}},
            type=type_of(keys),
            data={key: args.source.value(name, key).apply(_encoded) for key in keys},
            opts=pulumi.ResourceOptions(parent=self),
        )


def type_of(keys: Collection[str]) -> str:
    """Return the type that kubelets and ingress controllers require of a pull secret and of a certificate."""
    present = set(keys)
    if present == {PULL_KEY}:
        return PULL
    return TLS if present - {_AUTHORITY} == {_CERTIFICATE, _PRIVATE_KEY} else OPAQUE


def _encoded(value: str) -> str:
    return b64encode(value.encode()).decode()
