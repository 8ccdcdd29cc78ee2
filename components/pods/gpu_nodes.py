"""Restricts a pod to nodes whose GPUs have enough memory. Pure.

Without it the scheduler puts such a pod wherever a GPU is free, and the first large batch ends in an error of CUDA.

The trap: terms of a required node affinity are alternatives, so a term of its own beside those of a fragment would let
the pod onto nodes that satisfy the fragment alone. The requirement is therefore put into each term.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ebbtide.provisioning_labels import GPU_MEMORY
from ebbtide.vocabulary.labels import NODE_GROUP

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict

_REQUIRED = "required_during_scheduling_ignored_during_execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirement:
    """What the labels of a pod's node must say."""

    key: str
    operator: str
    values: tuple[str, ...]


def labelled_memory(mebibytes: int) -> NodeRequirement:
    """For nodes of others, which carry NVIDIA's label. There is no "at least" but "more than"."""
    return NodeRequirement(key=GPU_MEMORY, operator="Gt", values=(str(mebibytes - 1),))


def one_of_groups(names: Iterable[str]) -> NodeRequirement:
    """For nodes made here: the groups that have enough. The autoscaler knows the label of a group without nodes."""
    return NodeRequirement(key=NODE_GROUP, operator="In", values=tuple(sorted(names)))


def required(pod: "PodSpecArgsDict", nodes: NodeRequirement | None) -> "PodSpecArgsDict":
    """The pod, on such nodes only. A term without an expression fits no node, and stays so."""
    if nodes is None:
        return pod
    more = {"key": nodes.key, "operator": nodes.operator, "values": list(nodes.values)}
    affinity = cast("dict[str, Any]", pod.get("affinity") or {})
    of_nodes = cast("dict[str, Any]", affinity.get("node_affinity") or {})
    terms = cast("list[dict[str, Any]]", of_nodes.get(_REQUIRED, {}).get("node_selector_terms", []))
    narrowed = [
        {**term, "match_expressions": [*term.get("match_expressions", []), more]} if any(term.values()) else term
        for term in terms
    ]
    selector = {"node_selector_terms": narrowed or [{"match_expressions": [more]}]}
    whole = {**affinity, "node_affinity": {**of_nodes, _REQUIRED: selector}}
    return cast("PodSpecArgsDict", {**pod, "affinity": whole})
