"""One process per mutant: the fault is put into the imported code, then pytest runs until a test notices it.

The working tree is not changed. A process forks from one that has imported the large packages, which would take longer
than most tests.
"""

import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from tools.mutants.fault import Unpatchable, load_with_fault, patch
from tools.mutants.product import modules
from tools.mutants.sites import Site

_THIRD = ("pulumi", "pulumi_aws", "pulumi_kubernetes", "pydantic", "hypothesis", "rich", "typer", "yaml", "jsonschema")
_OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=600"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # the plugins' modules are imported already
)
_WAIT_S = 1800
_HELPED = ["long", "redis_server", "control_plane", "backends", "engine", "aws", "node", "ray", "serving"]
_ALONE = " and ".join(f"not {name}" for name in _HELPED)
# The tiers of the Makefile that need only Python.
MARKERS = {
    "fast": f"not process and not whole and not redis and {_ALONE}",
    "process or whole": f"(process or redis or whole) and {_ALONE}",
}


@dataclass(slots=True)
class Run:
    """What one process saw."""

    test: str = ""  # the first that failed
    file: str = ""  # of the last test
    cut: bool = False  # the time was over before the last test
    broken: bool = False  # the process ended before the tests
    seconds: dict[str, float] = field(default_factory=dict[str, float])  # of test files that ran to their end


class Watch:
    """A pytest plugin: the first failure, the CPU seconds of each file, and an end after a time."""

    def __init__(self, run: Run, path: Path, until: float) -> None:
        self._run = run
        self._path = path
        self._until = until
        self._begun = 0.0

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        file = item.nodeid.partition("::")[0]
        if file != self._run.file:
            self._file_ended()
            self._run.file, self._begun = file, time.process_time()
            self.save()
        if time.process_time() > self._until:
            self._run.cut = True
            item.session.shouldstop = "the time is over"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._failed(report)

    def pytest_sessionfinish(self) -> None:
        if not self._run.test and not self._run.cut:
            self._file_ended()

    def save(self) -> None:
        self._path.write_text(json.dumps(asdict(self._run)))

    def _failed(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            self._run.test = self._run.test or report.nodeid
            self.save()

    def _file_ended(self) -> None:
        if self._run.file:
            self._run.seconds[self._run.file] = round(time.process_time() - self._begun, 2)


def prepare(root: Path) -> None:
    """Import what every test imports, but nothing of the product."""
    sys.path[:0] = [str(root), str(root / "tools/control-plane")]
    for name in _THIRD:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def import_product(root: Path) -> None:
    for path in modules(root):
        if not path.endswith("__main__.py"):
            try:
                importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
            except ImportError:
                continue
    gc.collect()
    gc.freeze()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    tests: Sequence[str]
    marker: str
    most_s: float
    fault: tuple[Path, str, Site] | None = None  # root, module and site
    imported: bool = False  # the fault goes into functions that this process has imported


def run_tests(path: Path, attempt: Attempt) -> Run:
    """Fork, and wait for what the process saw."""
    path.unlink(missing_ok=True)
    process = os.fork()
    if process == 0:
        try:
            _quiet(path.with_suffix(".log"))
            _run_tests_here(path, attempt)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    until = time.monotonic() + _WAIT_S
    while (ended := os.waitpid(process, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            os.kill(process, signal.SIGKILL)
            until += _WAIT_S
        time.sleep(0.05)
    if not path.exists():
        return Run(broken=True)
    run = Run(**json.loads(path.read_text()))
    if ended[1] and not run.test:
        run.test = f"{run.file}: no end"
    return run


def _quiet(log: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _run_tests_here(path: Path, attempt: Attempt) -> None:
    hard = int(attempt.most_s) + 40
    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard + 5))
    run = Run()
    watch = Watch(run, path, time.process_time() + attempt.most_s)
    try:
        if attempt.fault is not None:
            (patch if attempt.imported else load_with_fault)(*attempt.fault)
    except Unpatchable:
        watch.save()
        return
    status = pytest.main([*_OPTIONS, "-m", attempt.marker, *attempt.tests], plugins=[watch])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and not run.cut:
        run.test = run.test or f"{run.file or attempt.tests[0]}: {status!r}"
    watch.save()
