"""The adopted pods of a stack: budgets in the teams' namespaces, and admission policies."""

from collections import defaultdict
from collections.abc import Sequence

import pulumi

from components.adopted.budgets import AdoptedBudgets, AdoptedBudgetsArgs
from components.adopted.policy import Adoption, AdoptionArgs
from components.cluster.evictions import Evictions, EvictionsArgs
from ebbtide.settings.sections.adopted import deployment_of
from infra.site import Site


def adopted(site: Site, options: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
    """Create the budgets first and delete them last, so that placed pods of flexible rules are always covered."""
    rules = site.settings.adopted
    if not rules:
        return []
    budgets = AdoptedBudgets("adopted-budgets", AdoptedBudgetsArgs(stack=site.stack, rules=rules), options)
    selectors = None if site.on_eks else site.settings.cluster.node_selectors
    args = AdoptionArgs(rules=rules, node_selectors=selectors)
    return [budgets, Adoption("adoption", args, site.after(budgets)), *_evictions(site, options)]


def _evictions(site: Site, options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    graces: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, rule in site.settings.adopted.items():
        if rule.pool is not None:
            graces[rule.namespace][deployment_of(name, rule)] = int(rule.pool.longest_job.total_seconds())
    return [
        Evictions(f"evictions-of-team-{team}", EvictionsArgs(namespace=team, graces=seconds, team=team), options)
        for team, seconds in sorted(graces.items())
    ]
