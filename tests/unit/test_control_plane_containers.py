"""The processes behind a kubelet's pods: none outlives the one that started it, however it ends."""

import subprocess
import sys
import time

import pytest

from tests.processes import lives

DEADLINE = 30.0  # seconds

pytestmark = pytest.mark.process

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

    deadline = time.monotonic() + DEADLINE
    while lives(pid):
        assert time.monotonic() < deadline, "the process goes on"
        time.sleep(0.01)
