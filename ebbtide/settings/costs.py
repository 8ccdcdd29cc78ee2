"""The section of costs: what estimates assume, and how bills are told apart."""

from typing import Annotated

from pydantic import Field, Strict

from ebbtide.prices import PricingAssumption
from ebbtide.settings.checked import Settings
from ebbtide.settings.cost_tags import CostTags

Hours = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]


class CostSettings(Settings):
    """What estimates assume, and how bills are told apart."""

    tags: CostTags = Field(default={}, description="tags on every AWS resource", examples=["{ cost-center: acme }"])
    pricing_assumption: PricingAssumption = Field(
        default=PricingAssumption.ON_DEMAND,
        description="how hours are thought to be bought: for estimates, never a purchase",
        examples=["compute-1y-no-upfront"],
    )
    expected_node_hours: dict[str, Hours] = Field(
        default={}, description="node-hours per month by node group, for the estimate", examples=["{ flexible: 2000 }"]
    )
