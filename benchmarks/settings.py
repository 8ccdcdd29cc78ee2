"""What a broken stack file costs until it is refused, and a sound one until it is rendered with no network.

The files are the five hundred of tests/builders_mutants.py, each read, checked and refused in words, after import.
"""

import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figures, cpu_seconds, percentiles, spread
from ebbtide.settings import StackInvalid, load_stack
from tests.builders_mutants import mutants
from tests.builders_offline import OFFLINE


def measured() -> dict[str, Figures]:
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
