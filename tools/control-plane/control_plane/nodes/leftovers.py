"""What a run leaves behind when nobody could clean up after it: cgroup folders, processes in them, and its own folder.

Network namespaces and mounts have no names, so the last process takes them along. Everything else has the name of the
driver: its process id and when it started, since ids come again. A run whose driver lives is let alone.
"""

import os
import shutil
from pathlib import Path

from control_plane.nodes import cgroups

PLANE = "control-plane"
"""In a run's folder, a link to the control plane's."""


def folder_of_runs(root: Path) -> Path:
    """On the file system of the image stores, which nodes share by hard links."""
    return root / "runs"


def name_of_this_run() -> str:
    return f"{cgroups.PREFIX}{os.getpid()}-{_started(os.getpid())}"


def sweep(root: Path) -> list[str]:
    """Remove all runs whose driver is gone; their names."""
    there = {*cgroups.runs(), *(each.name for each in folder_of_runs(root).glob(f"{cgroups.PREFIX}*"))}
    dead = sorted(name for name in there if not lives(name))
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
    """Whether the driver of the run of that name is still there; another process may have its id by now."""
    pid, _, started = name.removeprefix(cgroups.PREFIX).partition("-")
    return pid.isdecimal() and _started(int(pid)) == started


def _started(pid: int) -> str:
    """In clock ticks since the machine's boot; "" where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]  # field 22
