"""The nodes that a fragment requires, by node selector and required node affinity.

Only some labels of a node that does not exist yet are known. Labels that Kubernetes, AWS, NVIDIA or Ebbtide may add are
assumed to match; other labels are on no node of the stack, and the autoscaler would add no node for them.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ebbtide.kube.selectors import may_hold
from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.fragment.values import entries_of, items, mapping

NodeLabels: TypeAlias = Mapping[str, frozenset[str]]
"""The labels of a group's nodes: each key with its possible values."""

_OTHERS = ("kubernetes.io", "k8s.io", "k8s.aws", "amazonaws.com", "aws.com", "nvidia.com", "ebbtide.dev")
"""Domains of labels that nodes get from components other than their group."""

_REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def unmet(fragment: object, nodes: Sequence[NodeLabels]) -> Location | None:
    """Return the path of a requirement that none of these nodes meets, or None if a node may meet all of them."""
    selector = mapping(value_at(fragment, ("nodeSelector",)))
    candidates = [labels for labels in nodes if all(_may_be(labels, key, value) for key, value in selector.items())]
    if not candidates:
        unmet_keys = (
            key for key, value in selector.items() if not any(_may_be(labels, key, value) for labels in nodes)
        )
        key = next(unmet_keys, None)
        return ("nodeSelector",) if key is None else ("nodeSelector", key)
    terms = [term for _, term in entries_of(fragment, *_REQUIRED)]
    return None if not terms or any(_meets(labels, term) for labels in candidates for term in terms) else _REQUIRED


def _meets(labels: NodeLabels, term: Mapping[str, object]) -> bool:
    """An empty term matches no node."""
    expressions = [expression for _, expression in entries_of(term, "matchExpressions")]
    says = bool(expressions) or bool(items(term.get("matchFields")))
    return says and all(_holds(labels, expression) for expression in expressions)


def _holds(labels: NodeLabels, expression: Mapping[str, object]) -> bool:
    key, values = str(expression.get("key")), items(expression.get("values"))
    return may_hold(labels, key, expression.get("operator"), values, may_exist=_unknown)


def _may_be(labels: NodeLabels, key: str, value: object) -> bool:
    return may_hold(labels, key, "In", (value,), may_exist=_unknown)


def _unknown(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(domain == external or domain.endswith(f".{external}") for external in _OTHERS)
