"""The adopted pods of a stack: their budgets, in the teams' namespaces."""

from collections.abc import Sequence

import pulumi

from components.adopted.budgets import AdoptedBudgets, AdoptedBudgetsArgs
from infra.site import Site


def adopted(site: Site, options: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
    rules = site.settings.adopted
    if not rules:
        return []
    return [AdoptedBudgets("adopted-budgets", AdoptedBudgetsArgs(stack=site.stack, rules=rules), options)]
