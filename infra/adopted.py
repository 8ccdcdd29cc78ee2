"""The adopted pods of a stack: their budgets in the teams' namespaces, and the policy that labels and places them."""

from collections.abc import Sequence

import pulumi

from components.adopted.budgets import AdoptedBudgets, AdoptedBudgetsArgs
from components.adopted.policy import Adoption, AdoptionArgs
from infra.site import Site


def adopted(site: Site, options: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
    """Create the budgets first and delete them last: placed pods of flexible rules are covered at all times."""
    rules = site.settings.adopted
    if not rules:
        return []
    budgets = AdoptedBudgets("adopted-budgets", AdoptedBudgetsArgs(stack=site.stack, rules=rules), options)
    selectors = None if site.on_eks else site.settings.cluster.node_selectors
    args = AdoptionArgs(rules=rules, node_selectors=selectors)
    return [budgets, Adoption("adoption", args, site.after(budgets))]
