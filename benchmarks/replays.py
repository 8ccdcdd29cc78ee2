"""`python -m benchmarks.replays --stacks 300`: time, memory and overhead of a sweep of generated customers.

Each stack is the demo's with another customer, size and time zone. Wall times on a shared machine vary, so the overhead
is a ratio of CPU seconds: those of all processes of the sweep to those of the replays.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.measure import Figures, own_peak_mib, spread
from ebbtide.demo import STACK_FILE
from ebbtide.jobs import __version__
from ebbtide.lab.simulator.replay import ReplayOptions
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.sweep.plan import SweepPlan, SweepRequest, plan_of
from ebbtide.lab.sweep.run import run
from ebbtide.lab.sweep.store import ResultStore

ROOT = Path(__file__).parents[1]
ZONES = ("America/New_York", "Europe/Berlin", "Asia/Tokyo", "America/Sao_Paulo", "Australia/Sydney")
RUNS = 3
_RAY = ROOT / ".venvs" / "ray" / "bin" / "python"
_ON_RAY = """
import json, sys, time
import ray
from ebbtide.lab.sweep.calls import ended

def nothing(settings, trace):
    return time.process_time()

ray.init(num_cpus=1, log_to_driver=False, include_dashboard=False, object_store_memory=100_000_000)
calls = [(bytes(10_000), data := bytes(1_500_000))] * int(sys.argv[1])
list(ended(nothing, calls[:20], ray=ray))
began, cpu = time.perf_counter(), time.process_time()
list(ended(nothing, calls, ray=ray))
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]))
"""


def stacks_in(folder: Path, count: int) -> list[str]:
    """Generated stack files."""
    text = STACK_FILE.read_text(encoding="utf-8")
    names: list[str] = []
    for number, zone in zip(range(count), cycle(ZONES), strict=False):
        path = folder / f"Pulumi.customer-{number}.yaml"
        changed = text.replace("ebbtide:customer: demo", f"ebbtide:customer: customer-{number}")
        changed = changed.replace("timezone: America/New_York", f"timezone: {zone}").replace(
            "max: 30", f"max: {4 + number % 27}"
        )
        path.write_text(changed, encoding="utf-8")
        names.append(str(path))
    return names


def planned(stacks: Sequence[str], seeds: int, days: int) -> SweepPlan:
    return plan_of(
        SweepRequest(
            stacks=stacks,
            traces=["openb2023-a"],
            vary=["stabilizationWindow=30s,2m"],
            seeds=range(seeds),
            objective="usd",
            strategy=Strategy.FIXED_FLEXIBLE,
            options=ReplayOptions(days=days),
        )
    )


def swept(plan: SweepPlan, processes: int) -> Figures:
    """Wall seconds, CPU seconds of all processes, and their ratio to those of the replays."""
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(folder, "benchmark", "benchmark")
        clock, cpu = time.perf_counter(), _cpu()
        run(plan, store, processes=processes, ray=None, progress=lambda _done, _failed: None)
        wall_s, cpu_s = time.perf_counter() - clock, _cpu() - cpu
        replays = sum(row["cpu_s"] for row in store.rows() if row["strategy"] == "fixed-flexible")
    return {"seconds": wall_s, "cpu_s": cpu_s, "replays_cpu_s": replays, "of_replays": cpu_s / replays}


def _cpu() -> float:
    parent, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return parent.ru_utime + parent.ru_stime + children.ru_utime + children.ru_stime


def ray_overhead(tasks: int) -> tuple[float, float]:
    """Wall milliseconds and the driver's CPU milliseconds of an empty task with a replay's arguments."""
    with tempfile.TemporaryDirectory() as image:
        about = Path(image) / f"ebbtide-{__version__}.dist-info" / "METADATA"  # marks Ebbtide as installed there
        about.parent.mkdir()
        about.write_text(f"Metadata-Version: 2.1\nName: ebbtide\nVersion: {__version__}\n", encoding="utf-8")
        variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{image}", "RAY_AUTH_MODE": "disabled"}
        command = [str(_RAY), "-c", _ON_RAY, str(tasks)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    clock, cpu = json.loads(done.stdout.splitlines()[-1])
    return 1000 * clock / tasks, 1000 * cpu / tasks


def measured() -> dict[str, Figures]:
    with tempfile.TemporaryDirectory() as folder:
        plan = planned(stacks_in(Path(folder), 6), 2, 7)
    figures: dict[str, Figures] = {}
    runs = {processes: [swept(plan, processes) for _ in range(RUNS)] for processes in (1, 2)}
    for processes, sweeps in runs.items():
        for figure in ("seconds", "of_replays"):
            figures[f"sweep_{processes}_{figure}"] = spread([sweep[figure] for sweep in sweeps])
    pairs = zip(runs[1], runs[2], strict=True)
    figures["sweep_efficiency"] = spread([one["seconds"] / two["seconds"] / 2 for one, two in pairs])
    if _RAY.exists():
        overheads = [ray_overhead(200) for _ in range(RUNS)]
        figures["sweep_ray_task_ms"] = spread([clock for clock, _ in overheads])
        figures["sweep_ray_driver_cpu_ms"] = spread([cpu for _, cpu in overheads])
    return figures


def main(arguments: Sequence[str]) -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.replays", description=__doc__)
    options.add_argument("--stacks", type=int, default=300)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--days", type=int, default=7)
    options.add_argument("--processes", type=int, default=2)
    chosen = options.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        plan = planned(stacks_in(Path(folder), chosen.stacks), chosen.seeds, chosen.days)
        figures: dict[str, Any] = {"replays": len(plan.tasks), "reading_cpu_s": time.process_time() - began}
    figures |= swept(plan, chosen.processes)
    figures["own_peak_mib"] = own_peak_mib()
    figures["largest_worker_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
