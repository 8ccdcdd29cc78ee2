"""What a worker reports about its handlers and about the first process of its container."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ebbtide.jobs.stop_signals import stop_report

NO_TRAP, TRAP = "0000000000000002", "0000000000004002"  # SIGTERM is the fifteenth bit


@pytest.fixture
def handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def processes(proc: Path, *chain: tuple[str, str, str]) -> Path:
    """A folder like /proc: names, caught signals and command lines, from the first process to this one."""
    for number, (name, caught, command) in enumerate(chain, start=1):
        folder = proc / ("self" if number == len(chain) else str(number))
        folder.mkdir()
        (folder / "status").write_text(f"Name:\t{name}\nPPid:\t{number - 1}\nSigCgt:\t{caught}\n")
        (folder / "cmdline").write_text("\0".join(command.split()) + "\0")
    return proc


def own(handler: Any) -> str | None:
    return "warm" if handler is stop else None


def stop(_number: int, _frame: object) -> None: ...


@pytest.mark.usefixtures("handlers")
def test_handlers_are_reported_as_they_are(tmp_path: Path) -> None:
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    assert stop_report(own, tmp_path) == {"signals": {"SIGTERM": "warm", "SIGQUIT": "ignored", "SIGINT": "default"}}

    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    assert stop_report(own, tmp_path)["signals"]["SIGTERM"].startswith(f"{__name__}.test_handlers_are_reported")


DUMB = {"group": "dumb-init without --single-child"}
WORKER = ("python", TRAP, "python rq worker")


@pytest.mark.parametrize(
    ("chain", "told"),
    [
        ([WORKER], {}),
        ([("sh", NO_TRAP, "sh -c rq"), WORKER], {"shell": "sh"}),
        ([("bash", TRAP, "bash start.sh"), WORKER], {}),  # it may pass the signal on
        ([("tini", TRAP, "tini -- sh"), ("sh", NO_TRAP, "sh -c rq"), WORKER], {}),
        ([("tini", TRAP, "tini -g -- celery"), WORKER], {"group": "tini -g"}),
        ([("tini-static", TRAP, "tini-static -s -p SIGTERM -vg celery"), WORKER], {"group": "tini -g"}),
        ([("tini", TRAP, "tini -s -- celery -g"), WORKER], {}),
        ([("python", TRAP, "python rq worker-pool"), WORKER], {}),
        ([("dumb-init", TRAP, "dumb-init rq worker -c"), WORKER], DUMB),
        ([("dumb-init", TRAP, "dumb-init --single-child rq worker"), WORKER], {}),
        ([("dumb-init", TRAP, "dumb-init -r 1:15 -vc -- rq worker"), WORKER], {}),
        ([("dumb-init", TRAP, "dumb-init --rewrite 15:3 rq worker"), WORKER], DUMB | {"stop_signal": "SIGQUIT"}),
        ([("dumb-init", TRAP, "dumb-init -r15:2 rq worker"), WORKER], DUMB | {"stop_signal": "SIGINT"}),
        ([("dumb-init", TRAP, "dumb-init -r 1:15 rq worker"), WORKER], DUMB),
        ([("dumb-init", TRAP, "dumb-init -r 15:0 rq worker"), WORKER], DUMB | {"stop_signal": "0"}),
    ],
)
def test_the_first_process_of_the_container_is_reported_if_it_keeps_changes_or_spreads_the_signal(
    chain: list[tuple[str, str, str]], told: dict[str, str], tmp_path: Path
) -> None:
    report = stop_report(own, processes(tmp_path, *chain))

    assert {name: value for name, value in report.items() if name != "signals"} == told


@pytest.mark.parametrize(
    ("command", "variable", "told"),
    [
        ("tini -- celery", ("TINI_KILL_PROCESS_GROUP", "1"), {"group": "tini -g"}),
        ("dumb-init celery", ("DUMB_INIT_SETSID", "0"), {}),
    ],
)
def test_the_variables_of_an_init_count_as_its_options(
    command: str, variable: tuple[str, str], told: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*variable)
    report = stop_report(own, processes(tmp_path, (command.split()[0], TRAP, command), WORKER))

    assert {name: value for name, value in report.items() if name != "signals"} == told


def test_this_machines_own_processes_can_be_read() -> None:
    assert {"SIGTERM", "SIGQUIT", "SIGINT"} == {*stop_report(own)["signals"]}
