"""The processes behind a kubelet's pods, without a control plane."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from control_plane.plane.containers import Container, Containers, What

from tests.processes import lives

LONG = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(1000)"]
DEADLINE = 30.0  # seconds


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    containers = Containers(tmp_path)
    yield containers
    containers.close()


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline, f"still waiting for {what}"
        time.sleep(0.01)


def started(containers: Containers) -> Container:
    container = containers.new("one")
    container.start(LONG, os.environ)
    return container


def test_an_exit_is_told_once(containers: Containers) -> None:
    container = started(containers)

    container.kill(What.STRUCK)
    container.kill(What.OUT_OF_GRACE)
    until(container.reap, "the exit")

    assert not container.reap()
    assert [entry.what for entry in containers.history()] == [What.STARTED, What.STRUCK, What.EXITED]
    assert (container.pid, container.code) == (None, -signal.SIGKILL)


def test_after_the_end_nothing_starts(tmp_path: Path) -> None:
    containers = Containers(tmp_path)
    container = started(containers)
    pid = container.pid
    containers.close()
    container.start(LONG, os.environ)

    assert container.pid is None
    assert pid is not None
    assert not lives(pid)


def test_what_cannot_be_started_says_why_and_may_be_tried_again(containers: Containers) -> None:
    container = containers.new("one")

    container.start(["/no/such/program"], os.environ)
    assert "/no/such/program" in container.trouble
    container.start(LONG, os.environ)

    assert container.trouble == ""
    assert [entry.what for entry in containers.history()] == [What.NOT_STARTED, What.STARTED]


OWNER = """
import os, time
from pathlib import Path
from control_plane.plane.containers import Containers

container = Containers(None).new("one")
container.start(["sleep", "1000"], os.environ)
print(container.pid, flush=True)
time.sleep(1000)
"""


def test_when_their_owner_is_killed_they_end_too() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert lives(pid)
        owner.kill()

    until(lambda: not lives(pid), "the process to end")
