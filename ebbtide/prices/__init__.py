"""Instance facts and list prices, shipped as dated files: offline, the same answer every time.

US dollars before tax, Linux, shared tenancy. `data/README.md` holds sources, dates, licences and what is approximate.
A directory of the same files may stand in for the shipped prices, never for the sizes.
"""

from ebbtide.prices.book import PricesInvalid
from ebbtide.prices.catalog import (
    Capacity,
    InstanceType,
    UnknownInstanceType,
    instance_type,
    instance_type_names,
    nearest_type,
    usable,
)
from ebbtide.prices.commitment import GroupRate, group_rate
from ebbtide.prices.rates import (
    NoPrice,
    PriceDate,
    PricingAssumption,
    hourly,
    interruption_band,
    on_demand,
    plans_are_derived,
    price_date,
    priced_regions,
    service_price,
    shipped_on_demand,
    spot_typical,
)

__all__ = [
    "Capacity",
    "GroupRate",
    "InstanceType",
    "NoPrice",
    "PriceDate",
    "PricesInvalid",
    "PricingAssumption",
    "UnknownInstanceType",
    "group_rate",
    "hourly",
    "instance_type",
    "instance_type_names",
    "interruption_band",
    "nearest_type",
    "on_demand",
    "plans_are_derived",
    "price_date",
    "priced_regions",
    "service_price",
    "shipped_on_demand",
    "spot_typical",
    "usable",
]
