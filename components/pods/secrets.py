"""The Secrets of a stack file in the namespaces of their readers, and the digest that restarts these pods.

**Values are `data`, never `stringData`.** A key that is taken out of `stringData` stays in the cluster with server-side
apply, which then owns no field of `data` (kubernetes/kubernetes, issue 108008): a value that was revoked would live on.

**The type follows from the keys.** It cannot be changed: a Secret that becomes a certificate is replaced.

**Without values**, as in a rendering or an offline preview, each key is there with an empty secret for its value. There
is no digest then: a made-up one would stand in files for kubectl that nobody keeps up to date.
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
"""By name and key, in the clear."""

Reference: TypeAlias = tuple[str, str | None]
"""A Secret by name, and its key; None for the whole of it, as a volume or `envFrom` takes it."""

OPAQUE = "Opaque"
TLS = "kubernetes.io/tls"
PULL = "kubernetes.io/dockerconfigjson"

_CERTIFICATE, _PRIVATE_KEY, _AUTHORITY = TLS_KEYS


@dataclass(frozen=True, kw_only=True)
class StackSecrets:
    """What the stack file holds encrypted, as secret outputs."""

    values: pulumi.Output[Values]
    key: pulumi.Output[str]  # of the digests


@dataclass(frozen=True, kw_only=True)
class SecretsSource:
    """The Secrets of a stack, with their values where somebody has them."""

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])  # by name
    known: StackSecrets | None = None

    def annotations_for(self, references: Iterable[Reference]) -> Mapping[str, pulumi.Output[str]]:
        """What goes onto the template of pods that refer to these Secrets, so that they roll when a value changes.

        Nothing for references to Secrets of others, whose values nobody here knows, and nothing in a rendering.

        It is marked as no secret, so that the pod template around it can be read in a preview. That is safe because it
        is keyed: a plain hash would let everybody who sees a Deployment try out passwords against it. This one tells
        those who lack the key that a value has changed, and nothing else. The key stands in no object of the cluster.
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
        """The keys that are referred to, by name."""
        chosen: dict[str, set[str]] = {}
        for name, key in references:
            if name in self.keys:
                chosen.setdefault(name, set()).update(self.keys[name] if key is None else (key,))
        return chosen

    def value(self, name: str, key: str) -> pulumi.Output[str]:
        """In the clear, as a secret; empty where nobody has it."""
        if self.known is None:
            return pulumi.Output.secret("")
        return self.known.values.apply(lambda values: values[name][key])


NO_SECRETS = SecretsSource()


def _picked(values: Values, chosen: Mapping[str, Collection[str]]) -> Values:
    return {name: {key: values[name][key] for key in keys} for name, keys in chosen.items()}


def digest(values: Values, key: str) -> str:
    """HMAC-SHA-256 of names, keys and values. JSON keeps their borders: no two different ones spell the same text."""
    text = json.dumps(values, sort_keys=True)
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, kw_only=True)
class SecretsArgs:
    source: SecretsSource
    wanted: Mapping[str, Collection[str]]  # by namespace, the names of the Secrets that its pods take


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
            f"{namespace}.{name}",  # no name holds a dot, so no two pairs are one
            metadata={"name": name, "namespace": namespace, "annotations": {SECRET_KEYS: ",".join(keys)}},
            type=type_of(keys),
            data={key: args.source.value(name, key).apply(_encoded) for key in keys},
            opts=pulumi.ResourceOptions(parent=self),
        )


def type_of(keys: Collection[str]) -> str:
    """What kubelets and ingress controllers demand of a pull secret and of a certificate."""
    present = set(keys)
    if present == {PULL_KEY}:
        return PULL
    return TLS if present - {_AUTHORITY} == {_CERTIFICATE, _PRIVATE_KEY} else OPAQUE


def _encoded(value: str) -> str:
    return b64encode(value.encode()).decode()
