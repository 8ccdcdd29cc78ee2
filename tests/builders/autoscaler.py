"""The cluster autoscaler's side of what a stack tells it, written from its own documentation and source.

Sources: kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md and aws_manager.go (the tags of a group
without nodes), expander/priority/priority.go (the priorities).
"""

import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import yaml

TAG = "k8s.io/cluster-autoscaler/node-template/"
PODS_UNLESS_TAGGED = 110


@dataclass(frozen=True)
class ReadNode:
    """A node that does not exist yet, as the autoscaler imagines it."""

    labels: Mapping[str, str]
    taints: AbstractSet[tuple[str, str, str]]  # key, value, effect
    resources: Mapping[str, str]
    options: Mapping[str, str]


def read_from_tags(tags: Mapping[str, str]) -> ReadNode:
    """A tag's kind is what follows the common part; a taint's value and effect are parted by the first colon."""

    def after(part: str) -> dict[str, str]:
        return {pieces[1]: value for key, value in tags.items() if len(pieces := key.split(TAG + part)) > 1}

    taints = {
        (key, value.partition(":")[0], value.partition(":")[2])
        for key, value in after("taint/").items()
        if re.search("(.*):(?:NoSchedule|NoExecute|PreferNoSchedule)", value)
    }
    return ReadNode(
        labels=after("label/"),
        taints=taints,
        resources={"pods": str(PODS_UNLESS_TAGGED), **after("resources/")},
        options=after("autoscaling-options/"),
    )


def highest(priorities: str, names: Collection[str]) -> set[str]:
    """The Auto Scaling groups that the priority expander leaves over. Go finds a pattern anywhere in a name."""
    found: dict[int, set[str]] = {}
    config: Mapping[Any, list[str]] = yaml.safe_load(priorities)
    for priority, patterns in config.items():
        assert type(priority) is int, "the expander takes numbers only"
        matching = {name for name in names if any(re.search(pattern, name) for pattern in patterns)}
        found.setdefault(priority, set()).update(matching)
    return next((found[priority] for priority in sorted(found, reverse=True) if found[priority]), set(names))
