"""A tier's second try in `.ci/run`: what passed in the first is left out, so that every test has passed in one of them.

`EBBTIDE_PASSED` names the file that is to list the tests that pass, `EBBTIDE_PASSED_BEFORE` one of an earlier run.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

WRITTEN, READ = "EBBTIDE_PASSED", "EBBTIDE_PASSED_BEFORE"


def register(config: pytest.Config, environment: Mapping[str, str] = os.environ) -> None:
    if before := environment.get(READ):
        config.pluginmanager.register(_LeaveOut(_lines(Path(before))))
    of_xdist = hasattr(config, "workerinput")  # its controller hears of every test too
    if (written := environment.get(WRITTEN)) and not of_xdist:
        config.pluginmanager.register(_Remember(Path(written)))


def _lines(file: Path) -> frozenset[str]:
    """None when the first try ended before its first test."""
    return frozenset(file.read_text(encoding="utf-8").splitlines()) if file.exists() else frozenset()


class _LeaveOut:
    def __init__(self, passed: frozenset[str]) -> None:
        self._passed = passed

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self._passed])
        items[:] = [item for item in items if item.nodeid not in self._passed]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A tier of several runs of pytest goes on to the next one."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._passed:
            session.exitstatus = pytest.ExitCode.OK


class _Remember:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")
