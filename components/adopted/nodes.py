"""Parts of the policy for adopted pods that choose their nodes: variables and patches of `nodeSelector`.

A pod that chooses other nodes keeps its choice: its `nodeSelector` or its required node affinity excludes the labels of
the rule's nodes. Kubernetes requires all selectors to match, so with ours in addition the pod would stay pending.

- The terms of the affinity are alternatives, so each of them must exclude the labels.
- A term without a requirement matches no node, and therefore excludes every label.
- A pod that names a node or a node group of the stack has made its choice. Admission does not see these nodes' labels.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from components.adopted.cel import REQUIRED, by_rule, labels, present, texts
from components.cluster.existing import NodeSelectors
from components.pods.rules import HOST, nodes_of_kind
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import home_kind
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.vocabulary.labels import NODE_GROUP

if TYPE_CHECKING:
    from pulumi_kubernetes.admissionregistration.v1 import VariableArgsDict

_NAMES_NODES = texts([NODE_GROUP, HOST])
_REQUIRED = f"object.spec.?affinity.?nodeAffinity.?{REQUIRED}"
_WANTED, _VALUES = "variables.nodes[e.key]", "e.?values.orValue([])"
_INTEGERS = f'({_VALUES} + [{_WANTED}]).all(x, x.matches("^[0-9]{{1,18}}$"))'
"""In Kubernetes, `Gt` and `Lt` are false for other values. CEL has no larger integers."""

_AGREES = f"""e.operator == "Exists"
    || e.operator == "In" && {_WANTED} in {_VALUES}
    || e.operator == "NotIn" && !({_WANTED} in {_VALUES})
    || e.operator == "Gt" && {_INTEGERS} && {_VALUES}.all(x, int({_WANTED}) > int(x))
    || e.operator == "Lt" && {_INTEGERS} && {_VALUES}.all(x, int({_WANTED}) < int(x))"""
_EXCLUDES = f"""t.?matchExpressions.orValue([]).size() + t.?matchFields.orValue([]).size() == 0
  || t.?matchFields.orValue([]).exists(f, f.operator == "In")
  || t.?matchExpressions.orValue([]).exists(e, e.key in variables.nodes ? !({_AGREES})
    : e.operator == "In" && e.key in {_NAMES_NODES})"""


def kind_of(rule: AdoptedSettings) -> NodeKind:
    return home_kind(rule.category, rule.gpu.count)


def node_variables(
    rules: Mapping[str, AdoptedSettings], node_selectors: NodeSelectors | None
) -> "list[VariableArgsDict]":
    """Return `nodes`, the labels of the rule's nodes; `missing`, the labels to add; and the variables that they use."""
    expressions = {
        "nodes": by_rule({name: labels(_nodes(rule, node_selectors)) for name, rule in rules.items()}, "{}"),
        "selected": "object.spec.?nodeSelector.orValue({})",
        "nodeTerms": f"{_REQUIRED}.?nodeSelectorTerms.orValue([])",
        "selectsOthers": (
            "variables.selected.exists(k, k in variables.nodes ? variables.selected[k] != variables.nodes[k]\n"
            f"  : k in {_NAMES_NODES})\n"
            f"|| variables.nodeTerms.size() > 0 && variables.nodeTerms.all(t, {_EXCLUDES})"
        ),
        "missing": "variables.selectsOthers ? [] : variables.nodes.filter(k, !(k in variables.selected))",
    }
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]


def _nodes(rule: AdoptedSettings, node_selectors: NodeSelectors | None) -> Mapping[str, str]:
    """Return the labels of the rule's nodes. On an existing cluster, a node set without labels is any node."""
    kind = kind_of(rule)
    return nodes_of_kind(kind) if node_selectors is None else node_selectors.get(kind.value, {})


_ADDED = 'JSONPatch{op: "add", path: "/spec/nodeSelector/" + jsonpatch.escapeKey(k), value: variables.nodes[k]}'
SELECTOR = (
    f"(variables.missing.size() == 0 ? [] :\n  {present('spec.?nodeSelector', '{}')})",
    f"variables.missing.map(k, {_ADDED})",
)
"""Patches that add the missing labels to the pod's node selector."""
