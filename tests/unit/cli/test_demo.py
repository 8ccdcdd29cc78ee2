"""`ebbtide demo` as a process: its output, its files, and Ctrl-C."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.redis import wait_until

pytestmark = pytest.mark.process

SHORT = ("--days", "1", "--jobs", "4")


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ebbtide.cli", "demo", *arguments]


def test_every_step_is_named_and_the_report_is_there(tmp_path: Path) -> None:
    done = subprocess.run(demo(*SHORT, "--output", str(tmp_path / "out")), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    steps = [line for line in done.stdout.splitlines() if line[:3] in {f"{number}/6" for number in range(1, 7)}]
    assert [step.split()[1] for step in steps] == ["check", "render", "live", "serve", "replay", "cost"]
    assert "jobs interrupted: 0" in done.stdout
    live = json.loads((tmp_path / "out" / "live.json").read_text())
    training = live["training"]
    assert f"steps repeated: {training['repeated']}\n" in done.stdout
    assert f"resumed at step {training['first_of_second']}, 12 of 12 steps done in 2 attempts" in done.stdout
    assert training["first_of_second"] > 1
    assert (live["jobs_done"], live["jobs_interrupted"]) == (4, 0)
    served = live["served"]
    assert (served["lost"], served["answered"], served["at_the_end"]) == (0, served["sent"], 1)
    assert served["peak"] > 1
    assert f"requests sent: {served['sent']}\n" in done.stdout
    assert (tmp_path / "out" / "step.svg").read_text().startswith("<svg")
    report = (tmp_path / "out" / "report.html").read_text()
    assert report.startswith("<!doctype html>")
    assert 'aria-labelledby="step-heading"' in report
    assert json.loads((tmp_path / "out" / "replay.json").read_text())["days"] == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the processes it started")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_and_no_file(tmp_path: Path, how: signal.Signals) -> None:
    process = subprocess.Popen(
        demo("--jobs", "12", "--output", str(tmp_path / "out")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "wants 1 worker" not in process.stdout.readline():
        assert process.poll() is None
    wait_until(lambda: len(descendants(process.pid)) >= 2, "a Redis and a worker")
    started = descendants(process.pid)

    process.send_signal(how)
    _, errors = process.communicate(timeout=30)

    assert process.returncode == 130
    assert errors.strip() == "interrupted"
    wait_until(lambda: not [pid for pid in started if is_alive(pid)], "the processes to end")
    assert not (tmp_path / "out").exists()


def descendants(root: int) -> set[int]:
    """Every process below `root`, from the process table."""
    parents = {pid: int(fields[1]) for pid, fields in stats().items()}
    below: set[int] = set()
    newest = {root}
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest}
        below |= newest
    return below


def is_alive(pid: int) -> bool:
    return pid in (table := stats()) and table[pid][0] != "Z"


def stats() -> dict[int, list[str]]:
    """The fields of each process from its state on."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            found[int(entry.name)] = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it ended while the table was read
            continue
    return found
