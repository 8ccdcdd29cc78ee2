"""The Kubernetes objects of a stack as files for `kubectl apply --server-side -f`, in the order they must be applied.

Two traps. A file that holds a field which another manager has written ends in a conflict at every later apply, and
nothing of the object arrives, a new image neither: so fields that are handed over are left out. And a Secret with a
placeholder in it would be applied like any other: so Secrets are left out, and the file that should hold one says how
to make it.

A budget without `maxUnavailable` allows no disruption. A Deployment without `replicas` starts with one pod, so the file
of the pools says how to send those home (docs/adr/0011).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import yaml

from components.ownership import KINDS_OF_FIELD, REPLICAS, REPLICAS_OWNER
from ebbtide.provisioning_labels import ReplicasOwner
from ebbtide.recording.needed_secrets import needed_secrets, secret_of
from ebbtide.recording.resources import Resource

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
"""What makes pods, and kinds that nobody listed: an operator may make pods of them."""

_HEADER = """\
# Apply the files of this directory with: kubectl apply --server-side -f kubernetes/
# What others write is left out, so every later apply succeeds and leaves it alone: replicas of worker pools and of
# workloads with an autoscaler, maxUnavailable of flexible budgets. Never add --force-conflicts.
"""

_SECRETS_NOTE = """\
# The pods wait for Secrets that no file holds; ../APPLY.md says how to make them first: {}
"""

_STEPS = """\
# How to apply `kubernetes/`

The files are in the order in which kubectl takes them; what makes pods comes last.
"""

_POOLS_NOTE = """\
# Each pool starts with one worker. After the first apply, and no later one, which would stop busy workers, do:
# kubectl --namespace {} scale deployment --all --replicas=0
"""


def is_object(resource: Resource) -> bool:
    """Whether this is a Kubernetes object, not a component, a provider or something of AWS."""
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
    """APPLY.md, beside the directory, since that holds objects alone: what comes before, between and after them."""
    commands = [f"kubectl apply --server-side -f kubernetes/{_NAMESPACES}.yaml"]
    if needed := needed_secrets(resources):
        commands += ["# the Secrets that pods wait for; their values stand in no file", *(it.command for it in needed)]
    commands += _kinds_first(resources)
    commands += ["kubectl apply --server-side -f kubernetes/", *_pools_note(resources).splitlines()]
    return f"{_STEPS}\n```sh\n" + "\n".join(commands) + "\n```\n"


def _kinds_first(resources: Sequence[Resource]) -> list[str]:
    """kubectl looks up every kind before it applies anything, and the server needs a moment to know a new one."""
    kinds = [it for it in resources if is_object(it) and it.inputs.get("kind") == _NEW_KIND]
    if not kinds:
        return []
    names = sorted(f"crd/{it.inputs['metadata']['name']}" for it in kinds)
    stage = next(stage for stage, held in _STAGES if _NEW_KIND in held)
    return [
        "# kinds that the cluster must know before there are objects of them",
        f"kubectl apply --server-side -f kubernetes/{stage}.yaml",
        f"kubectl wait --for=condition=Established --timeout=60s {' '.join(names)}",
    ]


def document(resource: Resource) -> str:
    """One object as a YAML document, or the note that stands for a Secret."""
    if resource.inputs.get("kind") == "Secret":
        return _secret_note(resource)
    kept = resource.inputs
    for field in KINDS_OF_FIELD.keys() & set(resource.ignore_changes):
        kept = _without(kept, field.split("."))
    dumped = yaml.dump(dict(kept), Dumper=_PlainDumper, sort_keys=True, allow_unicode=True, width=4096)
    return f"---\n{dumped}"


def _without(values: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """A copy that lacks the field."""
    name, *rest = path
    if not rest or name not in values:
        return {key: value for key, value in values.items() if key != name}
    return {**values, name: _without(values[name], rest)}


def _pools_note(resources: Sequence[Resource]) -> str:
    """One line for each namespace that holds pools of the controller."""
    pools = [_metadata(resource) for resource in resources if REPLICAS in resource.ignore_changes]
    owned = [it for it in pools if it.get("annotations", {}).get(REPLICAS_OWNER) == ReplicasOwner.CONTROLLER.value]
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
# Secret {secret} is left out: its values are never written to a file. Make it with:
# {secret.command}
"""


class _PlainDumper(yaml.SafeDumper):
    """Writes text so that YAML 1.1 and 1.2 read the same: what looks like a number in either is quoted."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


_NUMBER_LIKE = re.compile(r"[-+.~0-9]")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if _is_block(text) else '"' if _NUMBER_LIKE.match(text) or not text.isprintable() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_block(text: str) -> bool:
    """Whether a literal block gives the lines back: leading space, odd breaks and blank ends are lost in one."""
    lines = text.split("\n")
    return (
        len(lines) > 1 and text[0] not in " \n" and all(line.isprintable() and line.rstrip() == line for line in lines)
    )


_PlainDumper.add_representer(str, _text)
