"""Leftovers of a run that could not clean up: cgroup folders, processes in them, and its own folder.

Network namespaces and mounts end with their last process. Everything else carries the name of the driver: its process
id and start time, since ids are reused. A run with a living driver is left alone.
"""

import os
import shutil
from pathlib import Path

from control_plane.nodes import cgroups

PLANE = "control-plane"
"""In a run's folder, a link to the control plane's."""


def folder_of_runs(root: Path) -> Path:
    """Return the folder of runs, on the file system of the image stores, which nodes share by hard links."""
    return root / "runs"


def name_of_this_run() -> str:
    return f"{cgroups.PREFIX}{os.getpid()}-{_started(os.getpid())}"


def sweep(root: Path) -> list[str]:
    """Remove all runs without a driver; return their names."""
    names = {*cgroups.runs(), *(folder.name for folder in folder_of_runs(root).glob(f"{cgroups.PREFIX}*"))}
    dead = sorted(name for name in names if not lives(name))
    for name in dead:
        remove(root, name)
    return dead


def remove(root: Path, name: str) -> None:
    cgroups.end(name)
    plane = folder_of_runs(root) / name / PLANE
    if plane.is_symlink():
        shutil.rmtree(plane.readlink(), ignore_errors=True)
    shutil.rmtree(folder_of_runs(root) / name, ignore_errors=True)


def lives(name: str) -> bool:
    """Return True if the run's driver lives; another process may have its id by now."""
    pid, _, started = name.removeprefix(cgroups.PREFIX).partition("-")
    return pid.isdecimal() and _started(int(pid)) == started


def _started(pid: int) -> str:
    """Return the start in clock ticks since the machine's boot; "" without such a process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]  # field 22
