"""The folders that hold a run's processes, in every cgroup hierarchy.

Their name tells the process that made them, so that a later run knows whose they were. A node's own programs sit in
`<run>/<node>/system`, its pods below `<run>/<node>`. Who has nothing in a folder can remove it and nobody else can, so
what is left of a dead run is found, ended and removed by these names alone.
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
_PATIENCE = 60.0  # seconds until what was killed is gone; a busy machine needs some


@dataclass(frozen=True, slots=True)
class Hierarchy:
    path: Path
    controllers: frozenset[str]


def hierarchies() -> tuple[Hierarchy, ...]:
    """Those of cgroup v1. The named one of systemd too: runc wants to find a container in each."""
    return tuple(
        Hierarchy(where, frozenset(options.split(","))) for kind, where, options in _mounts() if kind == "cgroup"
    )


def make(name: str) -> None:
    """The folder, in each hierarchy. A new cpuset holds no CPU and no memory, and takes no process until it does."""
    for hierarchy in hierarchies():
        folder = hierarchy.path
        for part in Path(name).parts:
            above, folder = folder, folder / part
            folder.mkdir(exist_ok=True)
            if "cpuset" in hierarchy.controllers:
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (folder / file).write_text((above / file).read_text())


def enter(name: str, pid: int) -> None:
    for hierarchy in hierarchies():
        (hierarchy.path / name / "cgroup.procs").write_text(str(pid))


def runs() -> list[str]:
    """The names of all runs that have folders here."""
    return sorted({folder.name for _, where, _ in _mounts() for folder in where.glob(f"{PREFIX}*")})


def processes(name: str) -> set[int]:
    """In the folder and below it."""
    return {pid for folder in _folders(name) for pid in _pids(folder)}


def below(name: str, last: str) -> set[str]:
    """The folders of that last name below a folder."""
    found = [folder for folder in _folders(name) if folder.name == last]
    roots = [where for _, where, _ in _mounts()]
    return {str(folder.relative_to(where)) for folder in found for where in roots if folder.is_relative_to(where)}


def killed_for_memory(name: str) -> int:
    """By the kernel's own count."""
    files = [each.path / name / "memory.oom_control" for each in hierarchies() if "memory" in each.controllers]
    lines = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()]
    return sum(int(count) for key, count in lines if key == "oom_kill")


def end(name: str) -> None:
    """Kill what is in the folder and below it, and remove both. Raises `Failed` where that takes too long."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        for pid in processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        drop(name)  # what somebody still dies in stays
        if not any(_folders(name)):
            return
        if time.monotonic() > deadline:
            raise Failed(f"real nodes: {name} does not end: processes {sorted(processes(name))}")
        time.sleep(_TICK)


def drop(name: str) -> None:
    """Remove the folder and those below it, as far as nothing is in them."""
    for folder in _folders(name):
        with suppress(OSError):
            folder.rmdir()


def _folders(name: str) -> Iterator[Path]:
    """The deepest first. In a v2 hierarchy beside those of v1 runc makes some too.

    `os.walk` passes over what goes meanwhile, where a glob of `pathlib` breaks off.
    """
    for _, where, _ in _mounts():
        for folder, _, _ in os.walk(where / name, topdown=False):
            yield Path(folder)


def _mounts() -> list[tuple[str, Path, str]]:
    """Kind, place and options."""
    try:
        lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return []
    return [(kind, Path(where), options) for _, where, kind, options, *_ in lines if kind in ("cgroup", "cgroup2")]


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []
