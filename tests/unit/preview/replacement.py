"""A small customer with a pod of each kind, and the replacements and deletions between two recordings."""

from collections.abc import Sequence
from typing import Any

from ebbtide.preview.replacing import mutable_kinds, replacing_paths
from ebbtide.recording.resources import Resource
from tests.builders.mutants import sound_config

_SIZE = {"image": "registry.example.com/ml/one:1", "cpu": 1, "memory": "2Gi"}


def one_of_each() -> dict[str, Any]:
    """Return the config of a small customer with a pod of each kind."""
    pools = sound_config("shortest")["ebbtide:workers"]
    return {
        **sound_config("shortest"),
        "ebbtide:cluster": {"zones": ["a", "b"]},
        "ebbtide:nodeGroups": {
            "fixed": {"instanceTypes": ["m7i.2xlarge"], "min": 2, "max": 6},
            "flexible": {"instanceTypes": ["m7i.4xlarge", "m6i.4xlarge"], "max": 20},
        },
        "ebbtide:workloads": {
            "head": {**_SIZE, "category": "fixed"},
            "store": {**_SIZE, "category": "fixed", "kind": "stateful-set"},
            "api": {**_SIZE, "category": "flexible", "replicas": 3},
        },
        "ebbtide:workers": {**pools, "prep": {**pools["train"], "source": {"queues": ["prep"]}}},
    }


def replaced(before: Sequence[Resource], after: Sequence[Resource]) -> list[str]:
    """Return `name: path` for every resource whose change cannot be made in place."""
    mutable = mutable_kinds(after)
    old = {resource.urn: resource for resource in before}
    return [
        f"{new.name}: {path}"
        for new in after
        if new.custom and new.urn in old and not new.type.startswith("pulumi:")
        for path in replacing_paths(old[new.urn], new, mutable)
    ]


def gone(before: Sequence[Resource], after: Sequence[Resource]) -> set[str]:
    """Return the names of the resources that an update deletes."""
    kept = {resource.urn for resource in after}
    return {resource.name for resource in before if resource.custom and resource.urn not in kept}
