"""How long a week takes in virtual time, one strategy after another, on one core."""

import time

from benchmarks.measure import Figures, own_peak_mib, spread
from ebbtide.settings import load_stack
from ebbtide.simulator.replay import ReplayOptions, replay
from ebbtide.simulator.strategies import Strategy
from ebbtide.simulator.traces import find_trace


def measured() -> dict[str, Figures]:
    settings, trace = load_stack("demo"), find_trace("openb2023-a")
    found: dict[str, Figures] = {}
    for days in (7, 16):
        options = ReplayOptions(days=days, strategies=(Strategy.FIXED_FLEXIBLE,))
        taken: list[float] = []
        for _ in range(3):
            began = time.process_time()
            replay(settings, trace, options)
            taken.append(time.process_time() - began)
        found[f"replay_{days}_days_with_its_fleet_cpu_s"] = spread(taken, 2)
    return {**found, "replay_peak_mib": spread([own_peak_mib()], 0)}
