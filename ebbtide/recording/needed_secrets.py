"""The Secrets that a stack's pods wait for, and how to make them: no rendered file holds one.

Pulumi writes those with the login of Redis itself. Certificates and pull secrets are the operator's on every way.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.provisioning_labels import SECRET_KEYS, SELF_MADE_SECRETS
from ebbtide.recording.pods import Pods, pods_of
from ebbtide.recording.resources import Resource, kind_of, name_of, namespace_of
from ebbtide.recording.values import mapping, mappings, texts, value_at
from ebbtide.settings.sections.serving.gateway import GATEWAY_TLS_KEYS, KEDA_NAMESPACE

_PULL = ("--docker-server=…", "--docker-username=…", "--docker-password=…")
_UNKNOWN = "…"
_OPAQUE = "Opaque"
_TLS = "kubernetes.io/tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededSecret:
    namespace: str
    name: str
    parts: tuple[str, ...]  # of the command: --from-literal=password=…, --from-file=ca.crt=…
    kind: str = "generic"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def command(self) -> str:
        words = ("kubectl", "create", "secret", self.kind, self.name, "--namespace", self.namespace)
        return f"{shlex.join(words)} {' '.join(self.parts)}"


def needed_secrets(resources: Sequence[Resource]) -> list[NeededSecret]:
    """Each once, by namespace and name; where the program has it, with all its keys."""
    own = [resource for resource in resources if kind_of(resource) == "Secret" and not resource.read]
    whole = {str(secret_of(resource)) for resource in own if SECRET_KEYS in _annotations(resource)}
    found = [secret_of(resource) for resource in own]
    needs = [need for resource in resources for pods in pods_of(resource) for need in _of_pods(pods)]
    needs += [need for resource in resources if kind_of(resource) == "Gateway" for need in _of_gateway(resource)]
    needs += [need for it in resources if kind_of(it) == "TriggerAuthentication" for need in _of_keda(it, whole)]
    merged: dict[str, NeededSecret] = {}
    for need in (*found, *(need for need in needs if str(need) not in whole)):
        known = merged.get(str(need))
        parts = () if known is None else known.parts
        merged[str(need)] = NeededSecret(
            namespace=need.namespace, name=need.name, kind=need.kind, parts=tuple(dict.fromkeys((*parts, *need.parts)))
        )
    return sorted(merged.values(), key=lambda need: (need.namespace, need.name))


def secret_of(resource: Resource) -> NeededSecret:
    """One that the program writes, by the keys that it is annotated with."""
    keys = _annotations(resource).get(SECRET_KEYS, _UNKNOWN).split(",")
    type_ = str(resource.inputs.get("type", _OPAQUE))
    parts = _literals(keys) if type_ == _OPAQUE else (f"--type={type_}", *_files(keys))
    return NeededSecret(namespace=namespace_of(resource), name=name_of(resource), parts=parts)


def _annotations(resource: Resource) -> Mapping[str, str]:
    return texts(value_at(resource.inputs, "metadata.annotations"))


def _of_pods(pods: Pods) -> Iterator[NeededSecret]:
    made_there = pods.annotations.get(SELF_MADE_SECRETS, "").split(",")
    taken = [need for need in (*_mounted(pods), *_in_variables(pods)) if need[0] not in made_there]
    for name, parts in taken:
        yield NeededSecret(namespace=pods.namespace, name=name, parts=parts)
    for pull in mappings(pods.spec.get("imagePullSecrets")):
        yield NeededSecret(namespace=pods.namespace, name=str(pull["name"]), parts=_PULL, kind="docker-registry")


def _of_gateway(resource: Resource) -> Iterator[NeededSecret]:
    """Certificates that its listeners end TLS with."""
    for listener in mappings(value_at(resource.inputs, "spec.listeners")):
        for certificate in mappings(value_at(listener, "tls.certificateRefs")):
            name, parts = str(certificate["name"]), (f"--type={_TLS}", *_files(GATEWAY_TLS_KEYS))
            yield NeededSecret(namespace=namespace_of(resource), name=name, parts=parts)


def _of_keda(resource: Resource, made: Collection[str]) -> Iterator[NeededSecret]:
    """KEDA of a stack's own reads them in its own namespace, into which the program then writes them."""
    for taken in mappings(value_at(resource.inputs, "spec.secretTargetRef")):
        name, beside = str(taken["name"]), namespace_of(resource)
        space = KEDA_NAMESPACE if f"{KEDA_NAMESPACE}/{name}" in made else beside
        yield NeededSecret(namespace=space, name=name, parts=_literals([str(taken["key"])]))


def _mounted(pods: Pods) -> Iterator[tuple[str, tuple[str, ...]]]:
    for volume in pods.volumes:
        secret = mapping(volume.get("secret"))
        if secret.get("secretName") and not secret.get("optional"):
            keys = [str(item["key"]) for item in mappings(secret.get("items"))] or [_UNKNOWN]
            yield str(secret["secretName"]), _files(keys)


def _in_variables(pods: Pods) -> Iterator[tuple[str, tuple[str, ...]]]:
    for container in pods.all_containers:
        for variable in mappings(container.get("env")):
            taken = mapping(value_at(variable, "valueFrom.secretKeyRef"))
            if taken.get("name") and not taken.get("optional"):
                yield str(taken["name"]), _literals([str(taken.get("key", _UNKNOWN))])
        for source in mappings(container.get("envFrom")):
            whole: Mapping[str, Any] = mapping(source.get("secretRef"))
            if whole.get("name") and not whole.get("optional"):
                yield str(whole["name"]), _literals([_UNKNOWN])


def _files(keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"--from-file={key}=…" for key in keys)


def _literals(keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"--from-literal={key}=…" for key in keys)
