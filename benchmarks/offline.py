"""What a stack file costs with no network: checked, recorded, judged by the policies, priced, refused and rendered.

The broken files are the five hundred of tests/builders/mutants.py, each read, checked and refused, after import.
"""

import resource
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figures, cpu_seconds, fresh_process, percentiles, spread
from ebbtide.policies import judge
from ebbtide.preview.cost.comparison import compare_costs
from ebbtide.settings import StackInvalid, load_stack
from tests.builders.bills import Bill, bills, columns
from tests.builders.mutants import mutants
from tests.builders.offline import OFFLINE
from tests.builders.policies import BERLIN, recorded, settings_of
from tests.builders.settings import loaded

RECORD = """
from ebbtide.settings import load_stack
from ebbtide.recording.record import record
record(load_stack("demo"))
"""
CHECK = 'from ebbtide.settings import load_stack; load_stack("demo")'


def program_figures() -> dict[str, Figures]:
    """What a preview costs before any engine: imports, the whole stack recorded, the settings checked."""
    found: dict[str, Figures] = {}
    for name, code in (("program", RECORD), ("check", CHECK)):
        seconds, peaks = fresh_process(code, runs=5)
        found[f"{name}_cpu_s"] = spread(seconds)
        found[f"{name}_peak_mib"] = spread(peaks, 0)
    return found


RESOURCES = 300


def policy_figures() -> dict[str, Figures]:
    """What it costs to judge three hundred resources by all rules, without the recording of them."""
    shipped, settings = recorded(BERLIN), settings_of(BERLIN)
    copies = (replace(one, urn=f"{one.urn}-again") for one in shipped)
    resources = (*shipped, *copies)[:RESOURCES]
    taken = cpu_seconds(partial(judge, settings, resources, date(2026, 11, 21)), runs=20)
    return {"policies_300_resources_cpu_ms": percentiles([1000 * seconds for seconds in taken])}


def bill_figures() -> dict[str, Figures]:
    """How far the estimate is from the hand-worked bills of docs/reference/bills.md: sums and lines, in per cent."""
    with TemporaryDirectory() as folder:
        off = [deviation for bill in bills() for deviation in _deviations(bill, Path(folder))]
    return {"bills_worst_deviation_percent": {"value": round(100 * max(off), 4), "bills": len(bills())}}


def _deviations(bill: Bill, folder: Path) -> list[float]:
    """Of each sum, and of each line of a dollar or more: below that the rounding to cents is all there is."""
    estimate = compare_costs(None, loaded(bill.stack, folder))
    amounts = {line.name: line.after for line in estimate.lines} | {"total": estimate.after}
    pairs = [
        (found or 0.0, wanted)
        for name in bill.rows
        for found, wanted in zip(columns(amounts[name]), bill.amounts(name), strict=True)
    ]
    return [abs(found - wanted) / wanted for found, wanted in pairs if wanted >= 1]


def refusal_figures() -> dict[str, Figures]:
    """What a broken stack file costs until it is refused, and a sound one until it is rendered with no network."""
    wall, cpu = _rendered(5)
    return {"rejected_file_cpu_ms": _rejected(500), "render_offline_wall_s": wall, "render_offline_cpu_s": cpu}


def _rejected(count: int) -> Figures:
    taken: list[float] = []
    load_stack("demo")  # the first file pays for what is built on first use
    with TemporaryDirectory() as folder:
        path = Path(folder) / "Pulumi.broken.yaml"
        for mutant in mutants(count):
            path.write_bytes(mutant.text if isinstance(mutant.text, bytes) else mutant.text.encode())
            taken += cpu_seconds(partial(_refuse, path), runs=1)
    return percentiles([1000 * seconds for seconds in taken])


def _refuse(path: Path) -> None:
    try:
        load_stack(str(path))
    except StackInvalid as refused:
        str(refused)
        return
    raise AssertionError(f"{path} was taken for sound")


def _rendered(runs: int) -> tuple[Figures, Figures]:
    """The whole command in a process of its own that cannot open a connection; the first run warms up."""
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(runs + 1):
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", OFFLINE, "render", "demo"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall.append(time.perf_counter() - began)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spread(wall[1:]), spread(cpu[1:])
