"""The controller as process 1 of a container, where signals without a handler do nothing and no parent reaps."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.redis import wait_until
from tests.paths import ROOT

pytestmark = pytest.mark.process

NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]

# The real handler, in a process whose own work hangs for good.
HANGS = """
import os, signal, time
from types import SimpleNamespace
from controllers.process import Process

process = SimpleNamespace(waker=SimpleNamespace(stop=lambda: None))
signal.signal(signal.SIGTERM, lambda *_: Process.stop(process))
print(os.getpid(), flush=True)
while True:
    time.sleep(60)
"""


def can_make_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_make_namespaces(), reason="needs the right to make a PID namespace (unshare, as root)")
def test_a_controller_that_hangs_on_its_way_out_is_ended_even_as_process_one() -> None:
    started = subprocess.Popen(
        [*NAMESPACE, sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "1\n"  # it is process 1 in there
        (child,) = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()

        os.kill(int(child), signal.SIGTERM)

        wait_until(lambda: started.poll() is not None, "the controller to be ended")
        assert "Timeout" in started.communicate()[1]  # what hung is shown
    finally:
        started.kill()
        started.wait()
