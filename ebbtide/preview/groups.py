"""Customers with equal changes, and the cost of all customers together.

Changes are compared as records, without the stack's name in their URNs. A blocked or incompletely read customer is in
no group, so that it is shown by itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ebbtide.preview.document import Amounts, ChangeGroup, CostTotal, CustomerPreview, ResourceChange, StackVerdict


def change_groups(customers: Sequence[CustomerPreview]) -> tuple[ChangeGroup, ...]:
    """Groups of at least two customers, the largest first."""
    members: dict[tuple[StackVerdict, bool, tuple[ResourceChange, ...]], list[CustomerPreview]] = {}
    for customer in customers:
        if customer.verdict is not StackVerdict.BLOCKED and not customer.problems and not customer.incomplete:
            changes = tuple(replace(change, urn="") for change in customer.changes)
            members.setdefault((customer.verdict, customer.new, changes), []).append(customer)
    groups = [
        ChangeGroup(stacks=tuple(member.stack for member in several), verdict=verdict, changes=changes)
        for (verdict, _, changes), several in members.items()
        if len(several) > 1
    ]
    return tuple(sorted(groups, key=lambda group: -len(group.stacks)))


def cost_total(customers: Sequence[CustomerPreview]) -> CostTotal | None:
    """None if there is at most one customer, or none with a known cost."""
    known = [customer for customer in customers if customer.cost is not None and customer.cost.lines]
    if any(customer.cost is not None and customer.cost.before is not None for customer in known):
        # If the earlier cost could not be read, it is unknown, not zero.
        known = [customer for customer in known if customer.new or (customer.cost and customer.cost.before is not None)]
    costs = [customer.cost for customer in known if customer.cost is not None]
    if len(customers) < 2 or not costs:
        return None
    return CostTotal(
        stacks=len(costs),
        before=None if all(cost.before is None for cost in costs) else _sum(cost.compared[0] for cost in costs),
        after=_sum(cost.compared[1] for cost in costs),
        not_counted=tuple(customer.stack for customer in customers if customer not in known),
        incomplete=tuple(c.stack for c in known if c.cost is not None and any(c.cost.without)),
        estimated=tuple(c.stack for c in known if c.cost is not None and any(line.estimated for line in c.cost.lines)),
    )


def _sum(amounts: Iterable[Amounts | None]) -> Amounts:
    """Unknown amounts count as 0; the total names their stacks. A usage is not summed: few stacks state one."""
    known = [amount for amount in amounts if amount is not None]
    return Amounts(
        always=sum(amount.always or 0 for amount in known),
        at_min=sum(amount.at_min or 0 for amount in known),
        at_max=sum(amount.at_max or 0 for amount in known),
        at_usage=None,
    )
