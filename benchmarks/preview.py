"""Time, memory and sockets of the preview command for one customer, with and without a replay, for fifty, and for two
hundred on shared bases; and the CPU time of both sides of one customer in a process that has imported everything.

The command runs in a temporary repository. Every file differs from its commit in a few keys, so both sides of each
customer are recorded; of the two hundred a base differs. Memory is the sum over the command and its processes, sampled
ten times a second. CPU time is that of all its processes. Sockets are those of any Python process of the command,
except sockets between processes of one machine (AF_UNIX).
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figures, spread
from ebbtide.demo import STACK_FILE
from ebbtide.preview.page import PageRequest, customer_preview
from tests.builders.many import COMMON, replace_in, write_customers

CUSTOMERS = 50
ON_BASES = 200
_RUNS = 12  # of both sides of one customer
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
    figures = {"preview_both_sides_cpu_s": spread(_both_sides())}
    for name, customers, runs, write, more in (
        ("one", 1, 3, _repository, ()),
        ("replayed", 1, 3, _repository, _REPLAY),
        ("fifty", CUSTOMERS, 1, _repository, ()),
        ("on_bases", ON_BASES, 1, _on_bases, ()),
    ):
        seconds, cpu, peaks, sockets = zip(*[_run(customers, write, more) for _ in range(runs)], strict=True)
        figures[f"preview_{name}_wall_s"] = spread(seconds)
        figures[f"preview_{name}_cpu_s"] = spread(cpu)
        figures[f"preview_{name}_peak_mib"] = spread(peaks, 0)
        figures[f"preview_{name}_sockets"] = spread(sockets, 0)
    return figures


def _both_sides() -> list[float]:
    """CPU seconds of each customer after the first one, which imports the SDKs."""
    with TemporaryDirectory() as temporary:
        _repository(Path(temporary), _RUNS + 1)
        seconds: list[float] = []
        request = PageRequest(now=datetime.now(UTC), against="HEAD")
        for number in range(_RUNS + 1):
            began = time.process_time()
            customer_preview(f"x{number:02}", Path(temporary), request)
            seconds.append(time.process_time() - began)
        return seconds[1:]


def _run(
    customers: int, write: Callable[[Path, int], Sequence[str]], more: Sequence[str]
) -> tuple[float, float, float, float]:
    """Wall and CPU seconds, peak MiB, sockets. `more` are further options of the command."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        root = folder / "repository"
        names = write(root, customers)
        (folder / "sitecustomize.py").write_text(_WATCH)
        seen = folder / "sockets"
        seen.touch()
        environment = {"PYTHONPATH": temporary, "SOCKETS_SEEN": str(seen), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        began, used, peak = time.perf_counter(), _children_cpu(), 0.0
        with (folder / "page.md").open("w") as page:
            command = [sys.executable, *_COMMAND, "--against", "HEAD", *more]
            process = subprocess.Popen(command, cwd=root, env=environment, stdout=page)
            while process.poll() is None:
                peak = max(peak, _tree_mib(process.pid))
                time.sleep(0.1)
        wall, cpu = time.perf_counter() - began, _children_cpu() - used
        comment = (folder / "page.md").read_text()
        if process.returncode not in {0, 1} or len(comment) > 64_000 or names[-1] not in comment:
            raise AssertionError(
                f"no page of {customers} customers: it ended with {process.returncode}\n{comment[:500]}"
            )
        return wall, cpu, peak, len(seen.read_text().splitlines())


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _on_bases(root: Path, customers: int) -> list[str]:
    names = write_customers(root, customers)
    replace_in(root, COMMON, "api:1.4.2", "api:1.5.0")
    return names


def _repository(root: Path, customers: int) -> list[str]:
    stacks = root / "stacks"
    stacks.mkdir(parents=True)
    demo = STACK_FILE.read_text(encoding="utf-8")
    names = [f"x{number:02}" for number in range(customers)]
    for name in names:
        text = demo.replace("ebbtide:customer: demo", f"ebbtide:customer: {name}")
        (stacks / f"Pulumi.{name}.yaml").write_text(text, encoding="utf-8")
    author = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    for arguments in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message", "before")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    for path in stacks.iterdir():
        changed = path.read_text(encoding="utf-8").replace("api:1.4.2", "api:1.5.0").replace("max: 40", "max: 30")
        path.write_text(changed, encoding="utf-8")
    return names


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
