"""The budgets of adopted pods, in the teams' namespaces.

A budget selects by the rule's own labels, not by Ebbtide's, so it also covers pods that are older than the admission
policy and pods that the policy could not label. The namespaces belong to the teams: this module creates and deletes
none.

If the pods' owner has no scale, Kubernetes does not know the intended number of pods, and a budget with
`maxUnavailable` fails. The budget of such pods sets `minAvailable`: a number that no cluster reaches while closed, one
less than the stack file declares while open. A minimum that followed the number of ready pods would let a drain take
all of them, one after the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components.context import StackContext
from components.ownership import MAX_UNAVAILABLE, MIN_AVAILABLE, FieldOwner, OwnedField, hand_over
from components.pods.budget import UNHEALTHY_PODS
from components.pods.rules import CLOSED_BUDGET, PodIdentity
from ebbtide.settings.sections.adopted import AdoptedSettings, adopted_budget
from ebbtide.vocabulary.labels import CLOSED_MINIMUM

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict, LabelSelectorRequirementArgsDict
    from pulumi_kubernetes.policy.v1 import PodDisruptionBudgetSpecArgsDict


@dataclass(frozen=True, kw_only=True)
class AdoptedBudgetsArgs:
    stack: StackContext
    rules: Mapping[str, AdoptedSettings]


class AdoptedBudgets(pulumi.ComponentResource):
    def __init__(self, name: str, args: AdoptedBudgetsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:AdoptedBudgets", name, None, opts)
        for rule_name, rule in sorted(args.rules.items()):
            self._budget(rule_name, rule, args.stack)
        self.register_outputs({})

    def _budget(self, name: str, rule: AdoptedSettings, stack: StackContext) -> None:
        pdb = adopted_budget(name, rule)
        opts = pulumi.ResourceOptions(parent=self)
        if rule.opens:
            field = OwnedField(
                kind="PodDisruptionBudget",
                namespace=rule.namespace,
                name=pdb,
                field=MAX_UNAVAILABLE if rule.has_scale else MIN_AVAILABLE,
                owner=FieldOwner.CONTROLLER,
                initial=CLOSED_BUDGET if rule.has_scale else CLOSED_MINIMUM,
            )
            opts = hand_over(field, parent=self, table=stack.ownership)
        if rule.budget is not None:
            return  # the chart creates it
        identity = PodIdentity(name=name, category=rule.category, customer=stack.customer, ends=True)
        spec: PodDisruptionBudgetSpecArgsDict = {
            "selector": label_selector(rule),
            "unhealthy_pod_eviction_policy": UNHEALTHY_PODS[rule.category],
        }
        if rule.has_scale:
            spec["max_unavailable"] = CLOSED_BUDGET
        else:
            spec["min_available"] = CLOSED_MINIMUM
        PodDisruptionBudget(
            f"adopted-{pdb}-budget",
            metadata={"name": pdb, "namespace": rule.namespace, "labels": identity.labels},
            spec=spec,
            opts=opts,
        )


def label_selector(rule: AdoptedSettings) -> "LabelSelectorArgsDict":
    """Return the rule's selector in the form of Kubernetes."""
    single = {key: values[0] for key, values in sorted(rule.selector.items()) if len(values) == 1}
    several: list[LabelSelectorRequirementArgsDict] = [
        {"key": key, "operator": "In", "values": [*values]}
        for key, values in sorted(rule.selector.items())
        if len(values) > 1
    ]
    selector: LabelSelectorArgsDict = {}
    if single:
        selector["match_labels"] = single
    if several:
        selector["match_expressions"] = several
    return selector
