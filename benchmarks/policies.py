"""What it costs to judge three hundred resources by all rules, without the recording of them."""

from dataclasses import replace
from datetime import date
from functools import partial

from benchmarks.measure import Figures, cpu_seconds, percentiles
from ebbtide.policies import judge
from tests.builders_policies import BERLIN, recorded, settings_of

RESOURCES = 300


def measured() -> dict[str, Figures]:
    shipped, settings = recorded(BERLIN), settings_of(BERLIN)
    copies = (replace(one, urn=f"{one.urn}-again") for one in shipped)
    resources = (*shipped, *copies)[:RESOURCES]
    taken = cpu_seconds(partial(judge, settings, resources, date(2026, 11, 21)), runs=20)
    return {"policies_300_resources_cpu_ms": percentiles([1000 * seconds for seconds in taken])}
