"""Instance sizes and list prices, shipped as dated files: offline, and the same answer every time.

US dollars before tax, Linux, shared tenancy. `data/README.md` lists sources, dates, licences and approximations.
A directory of files may replace the shipped prices of its regions, but never the sizes.
"""

from ebbtide.prices.book import PricesInvalid
from ebbtide.prices.catalog import (
    Capacity,
    InstanceType,
    UnknownInstanceType,
    allocatable,
    default_max_pods,
    instance_type,
    instance_type_names,
    is_suggested,
    most_pods_by_eni,
    nearest_type,
    usable,
)
from ebbtide.prices.rates import (
    GroupRate,
    NoPrice,
    PriceDate,
    PricingAssumption,
    estimate_note,
    estimates_text,
    group_rate,
    has_rate,
    hourly,
    interruption_band,
    on_demand,
    plans_are_derived,
    price_date,
    service_price,
    shipped_on_demand,
    spot_typical,
    steady,
    unknown_spot_prices,
)
from ebbtide.prices.tables import priced_regions

__all__ = [
    "Capacity",
    "GroupRate",
    "InstanceType",
    "NoPrice",
    "PriceDate",
    "PricesInvalid",
    "PricingAssumption",
    "UnknownInstanceType",
    "allocatable",
    "default_max_pods",
    "estimate_note",
    "estimates_text",
    "group_rate",
    "has_rate",
    "hourly",
    "instance_type",
    "instance_type_names",
    "interruption_band",
    "is_suggested",
    "most_pods_by_eni",
    "nearest_type",
    "on_demand",
    "plans_are_derived",
    "price_date",
    "priced_regions",
    "service_price",
    "shipped_on_demand",
    "spot_typical",
    "steady",
    "unknown_spot_prices",
    "usable",
]
