"""What a node group costs an hour when a plan covers the nodes that always run: the one home of plans.

A Savings Plan is paid for every hour of its term, used or not. Nodes that come and go would pay for hours in which
they are not there, so only a group's floor, its `min`, can sensibly be covered. The rule: nodes up to the floor cost
the plan's rate in every hour, even while one is missing; each node above the floor costs the on-demand price.
"""

from dataclasses import dataclass

from ebbtide.prices.rates import PricingAssumption, hourly, on_demand


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRate:
    """US dollars per node-hour, for the first `floor` nodes of a group and for all others."""

    floor: int
    floor_usd: float
    above_usd: float

    def usd_per_hour(self, nodes: float) -> float:
        """What so many nodes cost an hour. A mean of nodes will do too, if they were never fewer than the floor."""
        return self.floor * self.floor_usd + max(0.0, nodes - self.floor) * self.above_usd


def group_rate(region: str, type: str, assumption: str, *, floor: int) -> GroupRate:  # noqa: A002 - as in `rates`
    """Without a floor no plan's rate is looked for. Raises `NoPrice`, ValueError."""
    price = on_demand(region, type)
    covered = PricingAssumption(assumption) if floor else PricingAssumption.ON_DEMAND
    return GroupRate(floor=floor, floor_usd=hourly(region, type, covered), above_usd=price)
