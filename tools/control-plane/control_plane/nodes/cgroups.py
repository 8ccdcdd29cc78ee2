"""The folders of a run's processes, in every cgroup hierarchy.

Their name contains the process that created them, so that a later run knows their owner. A node's own programs are in
`<run>/<node>/system`, its pods below `<run>/<node>`. Only an empty folder can be removed, so leftovers of a dead run
are found, ended and removed by these names alone.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from control_plane.nodes.run import Failed

PREFIX = "ebbtide-nodes-"
SYSTEM = "system"
_TICK = 0.05
_PATIENCE = 60.0  # seconds until killed processes have ended; a busy machine needs some


@dataclass(frozen=True, slots=True)
class Hierarchy:
    path: Path
    controllers: frozenset[str]


def hierarchies() -> tuple[Hierarchy, ...]:
    """Return the hierarchies of cgroup v1, including systemd's named one: runc looks for a container in each."""
    return tuple(
        Hierarchy(path, frozenset(options.split(","))) for kind, path, options in _mounts() if kind == "cgroup"
    )


def make(name: str) -> None:
    """Create the folder in each hierarchy. A new cpuset takes no process until it has CPUs and memory."""
    for hierarchy in hierarchies():
        folder = hierarchy.path
        for part in Path(name).parts:
            parent, folder = folder, folder / part
            folder.mkdir(exist_ok=True)
            if "cpuset" in hierarchy.controllers:
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (folder / file).write_text((parent / file).read_text())


def enter(name: str, pid: int) -> None:
    for hierarchy in hierarchies():
        (hierarchy.path / name / "cgroup.procs").write_text(str(pid))


def runs() -> list[str]:
    """Return the names of all runs that have folders."""
    return sorted({folder.name for _, path, _ in _mounts() for folder in path.glob(f"{PREFIX}*")})


def processes(name: str) -> set[int]:
    """Return the processes in the folder and below it."""
    return {pid for folder in _folders(name) for pid in _pids(folder)}


def below(name: str, last: str) -> set[str]:
    """Return the folders of that last name below a folder."""
    folders = [folder for folder in _folders(name) if folder.name == last]
    roots = [path for _, path, _ in _mounts()]
    return {str(folder.relative_to(root)) for folder in folders for root in roots if folder.is_relative_to(root)}


def killed_for_memory(name: str) -> int:
    """Return the kernel's count of OOM kills."""
    memory = [hierarchy.path for hierarchy in hierarchies() if "memory" in hierarchy.controllers]
    files = [path / name / "memory.oom_control" for path in memory]
    lines = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()]
    return sum(int(count) for key, count in lines if key == "oom_kill")


def end(name: str) -> None:
    """Kill all processes in and below the folder, and remove it. Raises `Failed` if that takes too long."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        for pid in processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        drop(name)  # folders with dying processes stay
        if not any(_folders(name)):
            return
        if time.monotonic() > deadline:
            raise Failed(f"real nodes: {name} does not end: processes {sorted(processes(name))}")
        time.sleep(_TICK)


def drop(name: str) -> None:
    """Remove the folder and those below it if they are empty."""
    for folder in _folders(name):
        with suppress(OSError):
            folder.rmdir()


def _folders(name: str) -> Iterator[Path]:
    """Yield the folders, deepest first, also those that runc creates in a v2 hierarchy.

    `os.walk` ignores folders that vanish meanwhile, at which a glob of `pathlib` fails.
    """
    for _, path, _ in _mounts():
        for folder, _, _ in os.walk(path / name, topdown=False):
            yield Path(folder)


def _mounts() -> list[tuple[str, Path, str]]:
    """Return kind, path and options."""
    try:
        lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return []
    return [(kind, Path(path), options) for _, path, kind, options, *_ in lines if kind in ("cgroup", "cgroup2")]


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []
