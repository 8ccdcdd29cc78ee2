"""Measurements with their spread: minimum, median and maximum, never a single time."""

import resource
import subprocess
import sys
from collections.abc import Sequence
from statistics import median

Figures = dict[str, float]


def spread(values: Sequence[float], digits: int = 3) -> Figures:
    return {
        "min": round(min(values), digits),
        "median": round(median(values), digits),
        "max": round(max(values), digits),
        "runs": len(values),
    }


def percentiles(values: Sequence[float], digits: int = 2) -> Figures:
    ordered = sorted(values)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], digits)

    return {"p50": at(0.5), "p99": at(0.99), "max": round(ordered[-1], digits), "runs": len(ordered)}


def fresh_process(code: str, runs: int) -> tuple[list[float], list[float]]:
    """CPU seconds and peak MiB of a new interpreter that runs `code`; the first run warms the disk cache."""
    report = "import resource as r; u = r.getrusage(r.RUSAGE_SELF); print(u.ru_utime + u.ru_stime, u.ru_maxrss / 1024)"
    seconds: list[float] = []
    peaks: list[float] = []
    for run in range(runs + 1):
        done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
        cpu, peak = done.stdout.split()[-2:]
        if run:
            seconds.append(float(cpu))
            peaks.append(float(peak))
    return seconds, peaks


def own_peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
