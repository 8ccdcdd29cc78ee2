"""Parts of the policy for adopted pods that spread the pods of a rule over hosts and zones.

The stack's own workloads have the same spread (`components.pods.rules.spread`). It is soft, so it leaves no pod
pending, and the autoscaler ignores it. Workers have none: they are independent, and packing them leaves other nodes
empty.

The constraints select by the rule's labels, not by Ebbtide's, so pods that are older than the policy count. A pod that
already has a constraint gets no other, so the second run of the policy adds nothing.

**Zones.** A pod with constraints loses the scheduler's default constraints, and a node that lacks the label of one
constraint scores zero for all of them: on nodes without a zone, a constraint over zones would leave all pods on one
host. EKS labels every node with its zone. On other clusters the zone is therefore a preference, which has no effect on
nodes without the label.

Trap: if a patch's value is a list of `Object`s, the API server (1.36.3) panics and the request fails. `failurePolicy`
does not cover this. Lists are therefore filled one element at a time.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from components.adopted.cel import PREFERRED, add, by_rule, present, text, texts
from components.pods.rules import HOST, ZONE
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.admissionregistration.v1 import VariableArgsDict

_REVISION = "pod-template-hash"
"""The label of a Deployment's revision: a rollout compares only the new pods. Pods of other owners do not have it."""

_ZONE_WEIGHT = 100
"""The largest weight: preferences of the pod's chart, often for hosts, are added to it."""

_CONSTRAINT = "Object.spec.topologySpreadConstraints"
_PREFERENCE = f"Object.spec.affinity.podAntiAffinity.{PREFERRED}"


def spread_variables(rules: Mapping[str, AdoptedSettings]) -> "list[VariableArgsDict]":
    """Return `selector`, the labels of the pod's rule with their values, and `spreads`, true if the pod gets a spread.

    As with the conditions of rules, a single expression with many selectors may be too long for the API server.
    """
    selectors = {name: _selector(rule) for name, rule in rules.items() if rule.category is not Category.WORKER}
    parts = {expression: f"selector{number}" for number, expression in enumerate(sorted({*selectors.values()}))}
    of_rules = {name: f"variables.{parts[expression]}" for name, expression in selectors.items()}
    unspread = "object.spec.?topologySpreadConstraints.orValue([]).size() == 0"
    return [
        *({"name": part, "expression": expression} for expression, part in parts.items()),
        {"name": "selector", "expression": by_rule(of_rules, "{}")},
        {"name": "spreads", "expression": f"variables.selector.size() > 0 && {unspread}"},
    ]


def _selector(rule: AdoptedSettings) -> str:
    """Return the values of each label. A single value is read from the pod, so that rules can share the expression."""
    values = {
        key: texts(values) if len(values) > 1 else f"[string(variables.labels[{text(key)}])]"
        for key, values in sorted(rule.selector.items())
    }
    return "{" + ", ".join(f"{text(key)}: {listed}" for key, listed in values.items()) + "}"


def spread_patches(*, zoned: bool) -> Iterator[str]:
    """Return the patches. Unless all nodes have a zone, an earlier patch must have created `podAntiAffinity`."""
    constraints = texts([HOST, ZONE] if zoned else [HOST])
    constraint = f'maxSkew: 1, topologyKey: key, whenUnsatisfiable: "ScheduleAnyway", {_selecting(_CONSTRAINT)}'
    yield (
        f"(!variables.spreads ? [] :\n  [{add('/spec/topologySpreadConstraints', '[]')}]\n"
        f"  + {constraints}.map(key, {add('/spec/topologySpreadConstraints/-', f'{_CONSTRAINT}{{{constraint}}}')}))"
    )
    if not zoned:
        term = f"{_PREFERENCE}.podAffinityTerm"
        preference = (
            f"{_PREFERENCE}{{weight: {_ZONE_WEIGHT}, "
            f"podAffinityTerm: {term}{{topologyKey: {text(ZONE)}, {_selecting(term)}}}}}"
        )
        yield (
            f"(!variables.spreads ? [] :\n  {present(f'spec.?affinity.?podAntiAffinity.?{PREFERRED}', '[]')}\n"
            f"  + [{add(f'/spec/affinity/podAntiAffinity/{PREFERRED}/-', preference)}])"
        )


def _selecting(term: str) -> str:
    """Return the fields by which a constraint or a term of an affinity selects the rule's pods."""
    requirement = f"{term}.labelSelector.matchExpressions"
    return (
        f"labelSelector: {term}.labelSelector{{matchExpressions: variables.selector.map(k, {requirement}{{"
        'key: k, operator: "In", values: variables.selector[k]})}, '
        f"matchLabelKeys: {texts([_REVISION])}.filter(k, !(k in variables.selector))"
    )
