"""Instance facts and list prices, shipped as dated files: offline, the same answer every time.

US dollars before tax, Linux, shared tenancy. `data/README.md` holds sources, dates, licences and what is approximate.
"""

from ebbtide.prices.catalog import (
    Capacity,
    InstanceType,
    UnknownInstanceType,
    instance_type,
    instance_type_names,
    usable,
)
from ebbtide.prices.commitment import GroupRate, group_rate
from ebbtide.prices.rates import (
    NoPrice,
    PriceDate,
    PricingAssumption,
    hourly,
    on_demand,
    price_date,
    priced_regions,
    service_price,
    spot_typical,
)

__all__ = [
    "Capacity",
    "GroupRate",
    "InstanceType",
    "NoPrice",
    "PriceDate",
    "PricingAssumption",
    "UnknownInstanceType",
    "group_rate",
    "hourly",
    "instance_type",
    "instance_type_names",
    "on_demand",
    "price_date",
    "priced_regions",
    "service_price",
    "spot_typical",
    "usable",
]
