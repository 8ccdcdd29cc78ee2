"""All rules, in the order of their ids."""

from ebbtide.policies import budgets, cloud, containers, owners, places, rollouts
from ebbtide.policies.rule import Rule

RULES: tuple[Rule, ...] = (
    *budgets.RULES,
    *owners.RULES,
    *places.RULES,
    *rollouts.RULES,
    *containers.RULES,
    *cloud.RULES,
)
