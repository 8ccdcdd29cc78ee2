"""Time, memory and sockets of the preview command for one customer, with and without a replay, and for fifty.

The command runs in a temporary repository. Every file differs from its commit in a few keys, so both sides of each
customer are recorded. Memory is the sum over the command and its processes, sampled ten times a second. Sockets are
those of any Python process of the command, except sockets between processes of one machine (AF_UNIX).
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figures, spread

CUSTOMERS = 50
_WATCH = """
import os, socket, sys

def seen(event, arguments):
    if event == "socket.__new__" and arguments[1] != socket.AF_UNIX:
        with open(os.environ["SOCKETS_SEEN"], "a") as out:
            out.write(f"{arguments[1]}\\n")

sys.addaudithook(seen)
"""
_COMMAND = ("-c", "from ebbtide.cli.__main__ import main; main()", "preview", "--all", "--format", "markdown")
_REPLAY = ("--trace", "openb2023-a")


def measured() -> dict[str, Figures]:
    figures: dict[str, Figures] = {}
    for name, customers, runs, more in (("one", 1, 3, ()), ("replayed", 1, 3, _REPLAY), ("fifty", CUSTOMERS, 1, ())):
        seconds, peaks, sockets = zip(*[_run(customers, more) for _ in range(runs)], strict=True)
        figures[f"preview_{name}_wall_s"] = spread(seconds)
        figures[f"preview_{name}_peak_mib"] = spread(peaks, 0)
        figures[f"preview_{name}_sockets"] = spread(sockets, 0)
    return figures


def _run(customers: int, more: Sequence[str]) -> tuple[float, float, float]:
    """Wall seconds, peak MiB, sockets. `more` are further options of the command."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        root = folder / "repository"
        _repository(root, customers)
        (folder / "sitecustomize.py").write_text(_WATCH)
        seen = folder / "sockets"
        seen.touch()
        environment = {"PYTHONPATH": temporary, "SOCKETS_SEEN": str(seen), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        began, peak = time.perf_counter(), 0.0
        with (folder / "page.md").open("w") as page:
            command = [sys.executable, *_COMMAND, "--against", "HEAD", *more]
            process = subprocess.Popen(command, cwd=root, env=environment, stdout=page)
            while process.poll() is None:
                peak = max(peak, _tree_mib(process.pid))
                time.sleep(0.1)
        wall = time.perf_counter() - began
        comment = (folder / "page.md").read_text()
        if process.returncode not in {0, 1} or len(comment) > 64_000 or f"x{customers - 1:02}" not in comment:
            raise AssertionError(
                f"no page of {customers} customers: it ended with {process.returncode}\n{comment[:500]}"
            )
        return wall, peak, len(seen.read_text().splitlines())


def _repository(root: Path, customers: int) -> None:
    stacks = root / "stacks"
    stacks.mkdir(parents=True)
    demo = Path("stacks/Pulumi.demo.yaml").read_text(encoding="utf-8")
    for number in range(customers):
        text = demo.replace("ebbtide:customer: demo", f"ebbtide:customer: x{number:02}")
        (stacks / f"Pulumi.x{number:02}.yaml").write_text(text, encoding="utf-8")
    author = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    for arguments in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message", "before")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    for path in stacks.iterdir():
        changed = path.read_text(encoding="utf-8").replace("api:1.4.2", "api:1.5.0").replace("max: 40", "max: 30")
        path.write_text(changed, encoding="utf-8")


def _tree_mib(pid: int) -> float:
    """The resident memory of a process and its descendants; shared pages count for each."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        parents[int(entry.name)], pages[int(entry.name)] = int(fields[1]), int(fields[21])
    family = {pid}
    while grown := {child for child, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(pages.get(member, 0) for member in family) * 4096 / 2**20
