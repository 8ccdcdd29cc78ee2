"""The Secrets that a stack's pods wait for, and the commands that create them: rendered files hold no Secrets.

With Pulumi, the program writes the Secrets with the Redis login. Certificates and pull secrets always come from the
operator.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
    """Each Secret once, by namespace and name; with all its keys if the program writes it."""
    written = [resource for resource in resources if kind_of(resource) == "Secret" and not resource.read]
    complete = {str(secret_of(resource)) for resource in written if SECRET_KEYS in _annotations(resource)}
    secrets = [secret_of(resource) for resource in written]
    needs = [need for resource in resources for pods in pods_of(resource) for need in _needs_of_pods(pods)]
    needs += [need for resource in resources if kind_of(resource) == "Gateway" for need in _needs_of_gateway(resource)]
    triggers = [resource for resource in resources if kind_of(resource) == "TriggerAuthentication"]
    needs += [need for trigger in triggers for need in _needs_of_keda(trigger, complete)]
    merged: dict[str, NeededSecret] = {}
    for need in (*secrets, *(need for need in needs if str(need) not in complete)):
        merged_need = merged.get(str(need))
        parts = () if merged_need is None else merged_need.parts
        merged[str(need)] = NeededSecret(
            namespace=need.namespace, name=need.name, kind=need.kind, parts=tuple(dict.fromkeys((*parts, *need.parts)))
        )
    return sorted(merged.values(), key=lambda need: (need.namespace, need.name))


def secret_of(resource: Resource) -> NeededSecret:
    """The Secret that a resource of the program writes, with the keys of its annotation."""
    keys = _annotations(resource).get(SECRET_KEYS, _UNKNOWN).split(",")
    type_ = str(resource.inputs.get("type", _OPAQUE))
    parts = _literals(keys) if type_ == _OPAQUE else (f"--type={type_}", *_files(keys))
    return NeededSecret(namespace=namespace_of(resource), name=name_of(resource), parts=parts)


def _annotations(resource: Resource) -> Mapping[str, str]:
    return texts(value_at(resource.inputs, "metadata.annotations"))


def _needs_of_pods(pods: Pods) -> Iterator[NeededSecret]:
    self_made = pods.annotations.get(SELF_MADE_SECRETS, "").split(",")
    references = [need for need in (*_mounted(pods), *_in_variables(pods)) if need[0] not in self_made]
    for name, parts in references:
        yield NeededSecret(namespace=pods.namespace, name=name, parts=parts)
    for pull in mappings(pods.spec.get("imagePullSecrets")):
        yield NeededSecret(namespace=pods.namespace, name=str(pull["name"]), parts=_PULL, kind="docker-registry")


def _needs_of_gateway(resource: Resource) -> Iterator[NeededSecret]:
    """TLS certificates of the gateway's listeners."""
    for listener in mappings(value_at(resource.inputs, "spec.listeners")):
        for certificate in mappings(value_at(listener, "tls.certificateRefs")):
            name, parts = str(certificate["name"]), (f"--type={_TLS}", *_files(GATEWAY_TLS_KEYS))
            yield NeededSecret(namespace=namespace_of(resource), name=name, parts=parts)


def _needs_of_keda(resource: Resource, complete: Collection[str]) -> Iterator[NeededSecret]:
    """The stack's KEDA reads its Secrets in its own namespace, where the program writes them."""
    for reference in mappings(value_at(resource.inputs, "spec.secretTargetRef")):
        name = str(reference["name"])
        namespace = KEDA_NAMESPACE if f"{KEDA_NAMESPACE}/{name}" in complete else namespace_of(resource)
        yield NeededSecret(namespace=namespace, name=name, parts=_literals([str(reference["key"])]))


def _mounted(pods: Pods) -> Iterator[tuple[str, tuple[str, ...]]]:
    for volume in pods.volumes:
        secret = mapping(volume.get("secret"))
        if secret.get("secretName") and not secret.get("optional"):
            keys = [str(item["key"]) for item in mappings(secret.get("items"))] or [_UNKNOWN]
            yield str(secret["secretName"]), _files(keys)


def _in_variables(pods: Pods) -> Iterator[tuple[str, tuple[str, ...]]]:
    for container in pods.all_containers:
        for variable in mappings(container.get("env")):
            reference = mapping(value_at(variable, "valueFrom.secretKeyRef"))
            if reference.get("name") and not reference.get("optional"):
                yield str(reference["name"]), _literals([str(reference.get("key", _UNKNOWN))])
        for source in mappings(container.get("envFrom")):
            reference = mapping(source.get("secretRef"))
            if reference.get("name") and not reference.get("optional"):
                yield str(reference["name"]), _literals([_UNKNOWN])


def _files(keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"--from-file={key}=…" for key in keys)


def _literals(keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"--from-literal={key}=…" for key in keys)
