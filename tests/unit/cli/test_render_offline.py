"""`ebbtide render` in a process that cannot reach any other machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.offline import OFFLINE
from tests.builders.settings import SHORTEST

pytestmark = pytest.mark.process


def offline(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_a_customer_is_rendered_with_no_network(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.acme.yaml"
    file.write_text(SHORTEST)

    done = offline(OFFLINE, "render", str(file))

    assert (done.returncode, done.stderr) == (0, "")
    assert "US dollars per month" in done.stdout


def test_the_guard_would_notice_a_connection() -> None:
    asking = OFFLINE.split("from ebbtide")[0] + "socket.socket().connect(('127.0.0.1', 9))"

    assert "Reached: a connection to ('127.0.0.1', 9)" in offline(asking).stderr
