"""Runs the tests of each mutant in a copy of the tree; the tree itself is never written to."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from tools.mutation.given import Target
from tools.mutation.results import Case, Kind, Result
from tools.mutation.server import ELSEWHERE, TIMEOUT

_PASSED, _FAILED, _INTERRUPTED, _INTERNAL = (
    0,
    1,
    2,
    3,
)  # pytest's own; the last two are what a module that cannot be imported ends in
_COPIED = ("benchmarks", "components", "controllers", "docs", "ebbtide", "infra", "stacks", "tests", "tools")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "*.pyc")
_BASELINE_S = 600.0


class BaselineFails(Exception):
    """The tests of a module do not pass as it is, so they prove nothing about its mutants."""


class Copy:
    """A copy of the tree with a process that runs tests in it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder = folder
        for name in filter(lambda one: (root / one).is_dir(), _COPIED):
            shutil.copytree(root / name, folder / name, ignore=_LEFT_OUT, symlinks=True)
        for path in root.iterdir():
            if path.is_file():
                shutil.copy2(path, folder / path.name)
            elif path.name in (".github", ".ci"):
                shutil.copytree(path, folder / path.name)
        if (root / ".venvs").is_dir():  # the job frameworks' environments, which take a minute to make
            (folder / ".venvs").symlink_to(root / ".venvs")
        # Bytecode is believed by content, not by date: a mutant is written within the second of its predecessor.
        compiled = [
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "checked-hash",
            "controllers",
            "ebbtide",
            "components",
        ]
        subprocess.run([sys.executable, *compiled], cwd=folder, check=False)
        search = os.pathsep.join((str(folder), str(folder / "tools" / "control-plane")))
        environment = {**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1", "EBBTIDE_PATIENCE": "3"}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tools.mutation.server"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tested(self, module: str, tests: Sequence[str], limit_s: float) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        log = str(self._folder / "log")
        request = {"module": module, "tests": tests, "limit_s": limit_s, "inside": str(self._folder), "log": log}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    @contextmanager
    def with_text(self, file: str, text: str) -> Generator[None]:
        path = self._folder / file
        before = path.read_text()
        path.write_text(text)
        try:
            yield
        finally:
            path.write_text(before)

    def log(self) -> str:
        path = self._folder / "log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        self._server.communicate()


def run_all(root: Path, cases: Sequence[Case], targets: Mapping[str, Target], workers: int) -> list[Result]:
    """In the order given. Raises `BaselineFails`."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        made = [Copy(root, Path(folder) / str(number)) for number in range(workers)]
        for copy in made:
            copies.put(copy)
        try:
            runs = _Runs(root, targets, copies)
            with ThreadPoolExecutor(workers) as pool:
                for _ in pool.map(runs.baseline, dict.fromkeys(case.file for case in cases)):
                    pass
                return list(pool.map(runs.judged, cases))
        finally:
            for copy in made:
                copy.close()


class _Runs:
    def __init__(self, root: Path, targets: Mapping[str, Target], copies: "SimpleQueue[Copy]") -> None:
        self._root = root
        self._targets = targets
        self._copies = copies
        self._limits: dict[tuple[str, ...], float] = {}

    def baseline(self, file: str) -> None:
        """How long the tests take when nothing is wrong; three times that, and five seconds, is too long."""
        target = self._targets[file]
        with self._copy() as copy:
            for tests in filter(None, (target.tests, target.wider)):
                began = time.monotonic()
                code = copy.tested(target.module, tests, _BASELINE_S)
                if code != _PASSED:
                    why = {ELSEWHERE: "the module is not taken from the copy", TIMEOUT: "no end"}.get(
                        code, f"code {code}"
                    )
                    raise BaselineFails(f"{file}: its tests fail without a mutant ({why}):\n{copy.log()[-3000:]}")
                self._limits[tests] = 3 * (time.monotonic() - began) + 5

    def judged(self, case: Case) -> Result:
        target = self._targets[case.file]
        before = (self._root / case.file).read_text()
        with self._copy() as copy, copy.with_text(case.file, case.text):
            kind = Kind.SURVIVED
            for tests in filter(None, (target.tests, target.wider)):
                kind = self._kind(copy.tested(target.module, tests, self._limits[tests]), copy, case)
                if kind is not Kind.SURVIVED:
                    break
        if kind is Kind.SURVIVED and not case.why:
            print(f"survived: {case.file}:{case.line}: {case.key}", file=sys.stderr, flush=True)
        return Result(case, kind, before)

    def _kind(self, code: int, copy: Copy, case: Case) -> Kind:
        if code in (_PASSED, TIMEOUT, _FAILED):
            return {_PASSED: Kind.SURVIVED, TIMEOUT: Kind.SLOW, _FAILED: Kind.KILLED}[code]
        if code in (_INTERRUPTED, _INTERNAL) and ("Error" in copy.log() or "SystemExit" in copy.log()):
            return Kind.BROKEN
        if code < 0:
            return Kind.KILLED  # the process itself died
        raise BaselineFails(f"{case.file}: {case.key}: pytest ended with {code}:\n{copy.log()[-3000:]}")

    @contextmanager
    def _copy(self) -> Generator[Copy]:
        copy = self._copies.get()
        try:
            yield copy
        finally:
            self._copies.put(copy)
