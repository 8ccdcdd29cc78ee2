"""Loading the prices of one region with all its types."""

import gc
from time import process_time

from benchmarks.measure import Figures, spread
from ebbtide.prices import priced_regions
from ebbtide.prices.tables import shipped

ROUNDS = 10


def measured() -> dict[str, Figures]:
    """Files are in the disk cache; nothing of the product's own caches is."""
    gc.freeze()  # the other benchmarks' modules are imported too, and a command would not collect them here
    regions = {region: [_milliseconds_to_load(region) for _ in range(ROUNDS)] for region in priced_regions()}
    return {
        "prices: one region, any [CPU ms]": spread([time for times in regions.values() for time in times]),
        "prices: us-east-1, the largest region [CPU ms]": spread(regions["us-east-1"]),
    }


def _milliseconds_to_load(region: str) -> float:
    shipped.cache_clear()
    start = process_time()
    shipped(region)
    return (process_time() - start) * 1000
