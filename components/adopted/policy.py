"""The admission policy that labels and places adopted pods when they are created.

It handles pods of a Deployment, a Job or an operator, and pods without an owner. It changes only the pod, never the
owner, so Argo CD, Helm and operators find their objects unchanged. Running pods are not changed.

**One policy for all rules.** The API server applies several policies in no fixed order. One policy with all rules gives
each pod one answer, and costs less.

**Errors.** With `failurePolicy: Ignore`, a pod is created without labels and placement if an expression fails. Its
budget, which selects by the team's labels, still covers it.

**Two runs.** The API server runs the policy again if a later plugin changes the pod, and each change by the policy
itself counts as one. Each patch therefore adds only what is absent.

**Values of the pod.** The policy overwrites Ebbtide's two labels. A pod that chooses other nodes keeps its choice; so
does a pod with a priority class, with a spread, or with an affinity or an anti-affinity between categories. All other
values are kept, and ours are added.

Traps:

- Pods of DaemonSets and mirror pods belong to a node. With our node selector some would stay pending forever.
- If a pod has no priority class, the priority plugin writes a value before the policy runs. If the policy set the class
  and kept this value, the plugin would refuse the pod in its second run.
- The API server accepts policies with a wrong type or field. Only a pod that reaches the expression shows the error,
  so tests on a control plane cover each expression.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pulumi

from components.admission_policy import mutate, on
from components.adopted.cel import (
    PREFERRED,
    REQUIRED,
    add,
    adopted_namespaces,
    by_rule,
    one_of,
    present,
    rule_variables,
    text,
    texts,
)
from components.adopted.kept import keep_budgets, keep_replicas
from components.adopted.nodes import SELECTOR, kind_of, node_variables
from components.adopted.second_budgets import warn_of_second_budgets
from components.adopted.spread import spread_patches, spread_variables
from components.cluster.existing import NodeSelectors
from components.pods.rules import CLUSTER_CRITICAL, HOST, OWN_KIND_WEIGHT, tolerations
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.adopted import MINIMUM_VERSION, AdoptedSettings
from ebbtide.vocabulary.labels import ADOPT, CATEGORY, WORKLOAD, Category

if TYPE_CHECKING:
    from pulumi_kubernetes.admissionregistration.v1 import MatchConditionArgsDict, VariableArgsDict
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict

POLICY = "ebbtide-adopt"
"""Name of the policy and of its binding."""


@dataclass(frozen=True, kw_only=True)
class AdoptionArgs:
    rules: Mapping[str, AdoptedSettings]
    node_selectors: NodeSelectors | None = None
    """The owner's labels for each set of nodes, on an existing cluster; None if nodes have Ebbtide's labels."""


class Adoption(pulumi.ComponentResource):
    """The policy for adopted pods, the warning for second budgets, and policies for kept replicas and budgets."""

    def __init__(self, name: str, args: AdoptionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Adoption", name, None, opts)
        policy = mutate(
            (f"{name}-policy", f"{name}-binding"),
            POLICY,
            {**on("", "pods", ["CREATE"]), **adopted_namespaces(args.rules), "object_selector": _WILLING},
            _patches(args.rules, zoned=args.node_selectors is None),
            conditions=_CONDITIONS,
            variables=_variables(args.rules, args.node_selectors),
            parent=self,
        )
        if args.node_selectors is not None:  # an older API server refuses the policy without a word about versions
            needed = f"ebbtide:adopted needs Kubernetes {MINIMUM_VERSION} or later; ebbtide probe checks the cluster"
            pulumi.log.info(needed, policy)
        warn_of_second_budgets(name, args.rules, self)
        keep_replicas(name, args.rules, self)
        keep_budgets(name, args.rules, self)
        self.register_outputs({})


_CONDITIONS: "list[MatchConditionArgsDict]" = [
    {"name": "not-bound-yet", "expression": 'object.spec.?nodeName.orValue("") == ""'},
    {
        "name": "not-of-a-node",
        "expression": '!object.metadata.?ownerReferences.orValue([]).exists(o, o.kind in ["DaemonSet", "Node"])',
    },
]
_FIXED = f"variables.category == {text(Category.FIXED.value)}"
_WILLING: "LabelSelectorArgsDict" = {"match_expressions": [{"key": ADOPT, "operator": "NotIn", "values": ["no"]}]}


def _variables(rules: Mapping[str, AdoptedSettings], node_selectors: NodeSelectors | None) -> "list[VariableArgsDict]":
    """Return the variables in order: later ones may use earlier ones."""
    expressions = {
        "category": by_rule({name: text(rule.category.value) for name, rule in rules.items()}, text("")),
        "tolerations": "object.spec.?tolerations.orValue([])",
        "preferred": f"object.spec.?affinity.?podAffinity.?{PREFERRED}.orValue([])",
        "gathers": (
            "variables.preferred.exists(p, "
            f"{text(CATEGORY)} in p.?podAffinityTerm.?labelSelector.?matchLabels.orValue({{}}))"
        ),
        "terms": f"object.spec.?affinity.?podAntiAffinity.?{REQUIRED}.orValue([])",
        "apart": (
            "variables.terms.exists(t, t.?labelSelector.?matchExpressions.orValue([])"
            f".exists(e, e.key == {text(CATEGORY)}))"
        ),
    }
    return [
        {"name": "labels", "expression": "object.metadata.?labels.orValue({})"},
        *rule_variables({name: _selects(rule) for name, rule in rules.items()}),
        *node_variables(rules, node_selectors),
        *spread_variables(rules),
        *({"name": name, "expression": expression} for name, expression in expressions.items()),
    ]


def _selects(rule: AdoptedSettings) -> str:
    """Return a condition on a pod: the rule's namespace and labels."""
    parts = [one_of("request.namespace", [rule.namespace])]
    for key, values in sorted(rule.selector.items()):
        parts += [f"{text(key)} in variables.labels", one_of(f"variables.labels[{text(key)}]", values)]
    return " && ".join(parts)


def _patches(rules: Mapping[str, AdoptedSettings], *, zoned: bool) -> str:
    """Return one list of patches; a pod without a rule gets none. `zoned`: all nodes have the label of a zone."""
    fixed = [name for name, rule in sorted(rules.items()) if rule.category is Category.FIXED]
    on_fixed_nodes = [name for name, rule in sorted(rules.items()) if kind_of(rule) is NodeKind.FIXED]
    parts = [*_LABELS, *SELECTOR, *_tolerations(rules), present("spec.?affinity", "{}")]
    kept_apart = ([_FIXED] if fixed else []) + ([] if zoned else ["variables.spreads"])
    if kept_apart:  # once, since a second patch would replace the field and lose the terms added so far
        parts.append(f"({' || '.join(kept_apart)} ? {present('spec.?affinity.?podAntiAffinity', '{}')} : [])")
    if any(rule.category is not Category.WORKER for rule in rules.values()):
        parts += spread_patches(zoned=zoned)
    if len(fixed) < len(rules) or not zoned:
        parts.append(f"({_FIXED} && variables.nodes.size() > 0 || variables.gathers ? [] :\n  {_GATHER})")
    if fixed:
        parts.append(f"({one_of('variables.rule', fixed)} && !variables.apart ?\n  {_APART} : [])")
    if on_fixed_nodes:
        parts.append(
            f"({one_of('variables.rule', on_fixed_nodes)} && !variables.selectsOthers "
            f'&& object.spec.?priorityClassName.orValue("") == "" ?\n  {_CRITICAL} : [])'
        )
    return 'variables.rule == "" ? [] :\n' + "\n+ ".join(parts)


def _label_path(key: str) -> str:
    return "/metadata/labels/" + key.replace("~", "~0").replace("/", "~1")


_LABELS = (
    present("metadata.?labels", "{}"),
    f"[{add(_label_path(CATEGORY), 'variables.category')}, {add(_label_path(WORKLOAD), 'variables.rule')}]",
)
_TERM = f"Object.spec.affinity.podAntiAffinity.{REQUIRED}"
_TERM_VALUE = (
    f"{_TERM}{{topologyKey: {text(HOST)}, namespaceSelector: {_TERM}.namespaceSelector{{}}, "
    f"labelSelector: {_TERM}.labelSelector{{matchExpressions: [{_TERM}.labelSelector.matchExpressions{{"
    f'key: {text(CATEGORY)}, operator: "In", values: {texts([Category.FLEXIBLE.value, Category.WORKER.value])}}}]}}}}'
)
_GATHERING = f"Object.spec.affinity.podAffinity.{PREFERRED}"
_GATHERING_TERM = f"{_GATHERING}.podAffinityTerm"
_GATHERING_VALUE = (
    f"{_GATHERING}{{weight: {OWN_KIND_WEIGHT}, podAffinityTerm: {_GATHERING_TERM}{{topologyKey: {text(HOST)}, "
    f"namespaceSelector: {_GATHERING_TERM}.namespaceSelector{{}}, "
    f"labelSelector: {_GATHERING_TERM}.labelSelector{{matchLabels: {{{text(CATEGORY)}: variables.category}}}}}}}}"
)
_GATHER = "\n  + ".join(
    [
        present("spec.?affinity.?podAffinity", "{}"),
        present(f"spec.?affinity.?podAffinity.?{PREFERRED}", "[]"),
        f"[{add(f'/spec/affinity/podAffinity/{PREFERRED}/-', _GATHERING_VALUE)}]",
    ]
)
"""The preference that `components.pods.rules.affinity` gives to all pods of the stack: it leaves nodes empty.

Fixed pods have it only on clusters without fixed nodes. Fixed nodes stay in any case, and the preference would put all
replicas of a workload on one of them.
"""

_APART = "\n  + ".join(
    [
        present(f"spec.?affinity.?podAntiAffinity.?{REQUIRED}", "[]"),
        f"[{add(f'/spec/affinity/podAntiAffinity/{REQUIRED}/-', _TERM_VALUE)}]",
    ]
)
"""The term that `components.pods.rules.affinity` gives to fixed pods of the stack."""


def _removed(field: str) -> str:
    return f'(object.spec.?{field}.hasValue() ? [JSONPatch{{op: "remove", path: "/spec/{field}"}}] : [])'


_CRITICAL = "\n  + ".join(
    [
        f"[{add('/spec/priorityClassName', text(CLUSTER_CRITICAL))}]",
        _removed("priority"),
        _removed("preemptionPolicy"),
    ]
)


def _tolerations(rules: Mapping[str, AdoptedSettings]) -> Iterator[str]:
    """Return patches for the taints of GPU nodes, one for each taint."""
    users: dict[str, list[str]] = {}
    for name, rule in sorted(rules.items()):
        for toleration in tolerations(rule.gpu):
            users.setdefault(_tolerate(cast("Mapping[str, str]", toleration)), []).append(name)
    if not users:
        return
    with_gpu = sorted({name for names in users.values() for name in names})
    yield f"({one_of('variables.rule', with_gpu)} ?\n  {present('spec.?tolerations', '[]')} : [])"
    for patch, names in users.items():
        yield f"({one_of('variables.rule', names)} ?\n  {patch} : [])"


def _tolerate(added: Mapping[str, str]) -> str:
    """Return a patch that adds the toleration to a pod that does not tolerate the taint."""
    fields = ", ".join(f"{field}: {text(value)}" for field, value in sorted(added.items()))
    covers = ['t.?operator.orValue("") == "Exists"']
    if "value" in added:
        covers.append(f't.?value.orValue("") == {text(added["value"])}')
    tolerated = (
        f'variables.tolerations.exists(t, t.?key.orValue("") in {texts(["", added["key"]])} '
        f'&& t.?effect.orValue("") in {texts(["", added["effect"]])} && ({" || ".join(covers)}))'
    )
    return f"({tolerated} ? [] : [{add('/spec/tolerations/-', f'Object.spec.tolerations{{{fields}}}')}])"
