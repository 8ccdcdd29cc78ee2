"""A recording as files, with the Kubernetes objects for `kubectl apply --server-side -f` in the order of application.

Traps: a file with a field that another manager has written conflicts at every later apply, which then changes no field
of the object, not even the image. So fields with other owners are left out. A Secret with a placeholder would be
applied like any other, so Secrets are left out, and a comment says how to create each.

A budget without `maxUnavailable` allows no disruption. A Deployment without `replicas` starts with one pod, so the file
of the pools says how to scale those to 0 (docs/adr/0011).
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import yaml

from components.ownership import KINDS_OF_FIELD, REPLICAS, REPLICAS_OWNER
from ebbtide.provisioning_labels import POOL, ReplicasOwner
from ebbtide.recording.graph import mermaid
from ebbtide.recording.needed_secrets import needed_secrets, secret_of
from ebbtide.recording.record import without_garbage_collection
from ebbtide.recording.resources import Resource, as_json


@without_garbage_collection()
def output_files(resources: Sequence[Resource]) -> dict[str, str]:
    """Path to text."""
    files = {f"kubernetes/{name}": text for name, text in manifests(resources).items()}
    files["APPLY.md"] = steps(resources)
    files["resources.json"] = json.dumps(as_json(resources), indent=2) + "\n"
    files["graph.mmd"] = mermaid(resources)
    files["controller-config.json"] = controller_document(resources)
    return files


def controller_document(resources: Sequence[Resource]) -> str:
    """The controller's config as it stands in its ConfigMap."""
    return next(r.inputs["data"]["config.json"] for r in resources if "config.json" in _data(r))


def _data(resource: Resource) -> Any:
    return resource.inputs.get("data", {}) if resource.inputs.get("kind") == "ConfigMap" else {}


_STAGES = (
    ("10-namespaces", {"Namespace"}),
    (
        "20-cluster",
        {
            "APIService",
            "CSIDriver",
            "CustomResourceDefinition",
            "IngressClass",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "PriorityClass",
            "RuntimeClass",
            "StorageClass",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
            "VolumeSnapshotClass",
        },
    ),
    ("30-rights", {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"}),
    (
        "40-config",
        {
            "ConfigMap",
            "Lease",
            "LimitRange",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "ResourceQuota",
            "Secret",
        },
    ),
    (
        "50-budgets-and-network",
        {"EndpointSlice", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "Service"},
    ),
)
_NAMESPACES = _STAGES[0][0]
_NEW_KIND = "CustomResourceDefinition"
_LAST_STAGE = "60-workloads"
"""Kinds with pods, and kinds that are not listed, since an operator may create pods for them."""

_HEADER = """\
# Apply the files of this directory with: kubectl apply --server-side -f kubernetes/
# Fields that others write are left out, so every later apply succeeds and leaves them alone: replicas of worker pools
# and of workloads with an autoscaler, maxUnavailable of flexible budgets. Never add --force-conflicts.
"""

_SECRETS_NOTE = """\
# The pods wait for Secrets that no file holds; ../APPLY.md says how to create them first: {}
"""

_STEPS = """\
# How to apply `kubernetes/`

Apply the files in their order; objects that create pods come last.
"""

_POOLS_NOTE = """\
# Each pool starts with one worker. After the first apply, run this (later it would stop busy workers):
# kubectl --namespace {} scale deployment --all --replicas=0
"""


def is_object(resource: Resource) -> bool:
    """True for Kubernetes objects; False for components, providers and AWS resources."""
    return resource.custom and "apiVersion" in resource.inputs and resource.type.startswith("kubernetes:")


def manifests(resources: Sequence[Resource]) -> dict[str, str]:
    """File name to text, sorted in the order of application. Files without objects are left out.

    Within a file objects are sorted by kind, namespace and name: the order of registration differs between runs.
    """
    stages: dict[str, list[str]] = {}
    for resource in sorted(filter(is_object, resources), key=_sort_key):
        stages.setdefault(_stage_of(resource), []).append(document(resource))
    needed = ", ".join(map(str, needed_secrets(resources)))
    notes = {_LAST_STAGE: (_SECRETS_NOTE.format(needed) if needed else "") + _pools_note(resources)}
    return {f"{stage}.yaml": _HEADER + notes.get(stage, "") + "".join(stages[stage]) for stage in sorted(stages)}


def steps(resources: Sequence[Resource]) -> str:
    """The text of APPLY.md: the commands before, between and after the files, whose directory holds only objects."""
    commands = [f"kubectl apply --server-side -f kubernetes/{_NAMESPACES}.yaml"]
    if needed := needed_secrets(resources):
        commands += [
            "# the Secrets that pods wait for; no file has their values",
            *(secret.command for secret in needed),
        ]
    commands += _kind_commands(resources)
    commands += ["kubectl apply --server-side -f kubernetes/", *_pools_note(resources).splitlines()]
    return f"{_STEPS}\n```sh\n" + "\n".join(commands) + "\n```\n"


def _kind_commands(resources: Sequence[Resource]) -> list[str]:
    """kubectl looks up every kind before it applies anything, and the server needs a moment to serve a new one."""
    definitions = [r for r in resources if is_object(r) and r.inputs.get("kind") == _NEW_KIND]
    if not definitions:
        return []
    names = sorted(f"crd/{definition.inputs['metadata']['name']}" for definition in definitions)
    stage = next(stage for stage, held in _STAGES if _NEW_KIND in held)
    return [
        "# kinds that the cluster must know before it accepts objects of them",
        f"kubectl apply --server-side -f kubernetes/{stage}.yaml",
        f"kubectl wait --for=condition=Established --timeout=60s {' '.join(names)}",
    ]


def document(resource: Resource) -> str:
    """One object as a YAML document; for a Secret, a comment that says how to create it."""
    if resource.inputs.get("kind") == "Secret":
        return _secret_note(resource)
    inputs = resource.inputs
    for field in KINDS_OF_FIELD.keys() & set(resource.ignore_changes):
        inputs = _without(inputs, field.split("."))
    dumped = yaml.dump(dict(inputs), Dumper=_PlainDumper, sort_keys=True, allow_unicode=True, width=4096)
    return f"---\n{dumped}"


def _without(values: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """A copy that lacks the field."""
    name, *nested = path
    if not nested or name not in values:
        return {key: value for key, value in values.items() if key != name}
    return {**values, name: _without(values[name], nested)}


def _pools_note(resources: Sequence[Resource]) -> str:
    """One line for each namespace with pools that the controller scales."""
    pools = [_metadata(resource) for resource in resources if REPLICAS in resource.ignore_changes]
    owner = ReplicasOwner.CONTROLLER.value
    owned = [
        metadata
        for metadata in pools
        if metadata.get("annotations", {}).get(REPLICAS_OWNER) == owner and POOL in metadata.get("labels", {})
    ]
    spaces = sorted({str(metadata.get("namespace", "default")) for metadata in owned})
    return "".join(_POOLS_NOTE.format(space) for space in spaces)


def _sort_key(resource: Resource) -> tuple[str, str, str]:
    metadata = _metadata(resource)
    return str(resource.inputs.get("kind")), str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _metadata(resource: Resource) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", resource.inputs.get("metadata", {}))


def _stage_of(resource: Resource) -> str:
    kind = resource.inputs.get("kind")
    return next((stage for stage, kinds in _STAGES if kind in kinds), _LAST_STAGE)


def _secret_note(resource: Resource) -> str:
    secret = secret_of(resource)
    return f"""\
---
# Secret {secret} is left out: its values are never written to a file. Create it with:
# {secret.command}
"""


class _PlainDumper(yaml.CSafeDumper):
    """Write texts that YAML 1.1 and 1.2 read alike: a text that looks like a number in either is quoted."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


_NUMBER_LIKE = re.compile(r"[-+.~0-9]")


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if _is_block(text) else '"' if _NUMBER_LIKE.match(text) or not text.isprintable() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_block(text: str) -> bool:
    """True if a literal block keeps the lines: it loses leading space, unusual line breaks and trailing blanks."""
    lines = text.split("\n")
    return (
        len(lines) > 1 and text[0] not in " \n" and all(line.isprintable() and line.rstrip() == line for line in lines)
    )


_PlainDumper.add_representer(str, _text)
