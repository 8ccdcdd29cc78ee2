"""A service that was replayed over a few days, with little load: real replays that take no time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache

from ebbtide.lab.simulator.services.replay import ServiceOptions, replay_service, service_course
from ebbtide.lab.simulator.services.results import ServiceReplay
from ebbtide.lab.simulator.services.strategies import ServiceStrategy
from tests.builders.workloads.played import a_request_trace
from tests.builders.workloads.services import services_stack

SLOW = (
    ("requestTakes: 150ms", "requestTakes: 20s"),
    ("longestRequest: 60s", "longestRequest: 90s"),
    ("p95: 400ms", "p95: 30s"),
    ("{ inFlight: 3, latency: 300ms }, min: 2, max: 12", "{ inFlight: 3 }, floor: calendar, open: 6, min: 2, max: 12"),
)
HOURS = 6  # of the windows


@cache
def a_served_replay(
    levels: Sequence[float | None] = (0.05, 0.1, 0.4, 0.1, 0.05, 0.2, 0.6, 0.2, 0.05, 0.1, None, 0.1),
    start: str = "2026-06-01T00:00",
) -> ServiceReplay:
    """Requests a second in each quarter of a day; three days, the second with the most. A forecast is made up."""
    trace = a_request_trace([None if it is None else it * HOURS * 3600 for it in levels], window_s=HOURS * 3600.0)
    rates = [level for level in levels if level is not None]
    options = ServiceOptions(
        start=datetime.fromisoformat(start),
        rate=sum(rates) / len(rates),
        strategies=(ServiceStrategy.HPA_ONLY, ServiceStrategy.CALENDAR_FLOOR),
    )
    found = replay_service(service_course(services_stack(*SLOW), "embedder-small", trace, options), options)
    forecast = found.strategies[ServiceStrategy.CALENDAR_FLOOR]
    return replace(found, strategies={**found.strategies, ServiceStrategy.FORECAST_FLOOR.value: forecast})
