"""Pods that run in one node group, which the stack file names or Ebbtide chooses."""

from typing import TYPE_CHECKING, ClassVar

from ebbtide.settings.sections.pods.pod import PodSettings

NODE_GROUP = (
    "node group of the pods: of kind gpu if they request GPUs, else flexible, or of kind spot with or without GPUs as "
    "they do; default: the cheapest that fits, never spot"
)
"""The description of `nodeGroup`, which each kind of pod that ends has."""


class GroupPodSettings(PodSettings):
    """A pod with `nodeGroup`. It has category worker."""

    not_on_fixed: ClassVar[str]
    """Reason why its node group may not have kind fixed, in a hint."""

    if TYPE_CHECKING:
        # Each section has the field at its own place: a schema lists keys in the order of the fields.
        node_group: str
