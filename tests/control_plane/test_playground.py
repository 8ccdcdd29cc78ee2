"""The playground as a user starts it: a process of its own that shows a night, is looked at, and leaves nothing."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest
from control_plane.plane.binaries import binaries, how_to_get, missing

from tests.paths import ROOT
from tests.processes import lives

pytestmark = [pytest.mark.control_plane, pytest.mark.redis, pytest.mark.timeout(400)]

PATIENCE = 100.0  # seconds, for what takes ten on a quiet machine


@dataclass
class Run:
    """One playground; what it says is collected as it comes."""

    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            self.lines.extend(line.rstrip() for line in said)

    def until(self, pattern: str) -> "re.Match[str]":
        """The first line that holds it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for line in self.lines.copy():
                if found := re.search(pattern, line):
                    return found
            assert self.process.poll() is None or self._reader.is_alive(), self.lines
            time.sleep(0.05)
        raise AssertionError(f"nothing said {pattern}: {self.lines}")

    def end(self) -> tuple[int, str]:
        """Exit code and all that was said."""
        code = self.process.wait(PATIENCE)
        self._reader.join()
        return code, "\n".join(self.lines)


def started(*arguments: str) -> Run:
    command = [sys.executable, "-u", "-m", "control_plane.playground", *arguments]
    return Run(
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    )


@pytest.fixture(autouse=True)
def programs() -> None:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))


@pytest.fixture
def kept(programs: None) -> Iterator[Run]:
    """Sixteen hours in a minute, night after night."""
    run = started("demo", "--minutes", "1", "--keep")
    yield run
    if run.process.poll() is None:
        run.process.terminate()
        run.end()


def belonging_to(folder: str) -> list[str]:
    """Command lines of the processes that were told about that folder."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if folder in command:
            found.append(command)
    return found


def children_of(parent: int) -> list[int]:
    """And theirs."""
    direct: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == parent:
            direct.append(int(entry.parent.name))
    return [*direct, *(pid for child in direct for pid in children_of(child))]


def test_a_night_is_shown_and_others_may_look_and_ctrl_c_leaves_nothing(kept: Run) -> None:
    kubeconfig = kept.until(r"KUBECONFIG=(\S+)")[1]
    url = kept.until(r"EBBTIDE_CONTROLLER_URL=(\S+)")[1]
    environment = {**os.environ, "KUBECONFIG": kubeconfig}
    folder = str(Path(kubeconfig).parent)

    def asked(*command: str) -> str:
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    kept.until(r"(prep|train|train-large): 0 → \d workers?")
    kept.until(r"budgets of \d flexible workloads? open")
    ebbtide = str(Path(sys.executable).with_name("ebbtide"))
    assert "flexible" in asked(str(binaries()["kubectl"]), "get", "nodes", "--show-labels")
    assert re.search(r"^prep .* known", asked(ebbtide, "status", "--url", url), re.MULTILINE)
    assert "fixed nodes stay day and night" in asked(ebbtide, "why", "node", "fixed-1")
    everyone = children_of(kept.process.pid)
    assert belonging_to(folder)

    kept.process.send_signal(signal.SIGINT)
    code, said = kept.end()

    assert code == 130
    assert "Traceback" not in said
    assert " 0 interrupted" in said
    assert "playground: interrupted, and everything is ended" in said
    assert not Path(folder).exists()
    assert belonging_to(folder) == []
    assert [pid for pid in everyone if lives(pid)] == []


def test_a_show_ends_by_itself_with_its_sums(tmp_path: Path) -> None:
    picture = tmp_path / "screen.svg"

    code, said = started("demo", "--minutes", "0.1", "--hours", "1", "--picture", str(picture)).end()

    assert code == 0, said
    assert re.search(r"nodes +\d+ at the peak, \d+ at the lowest", said)
    assert re.search(r"evictions +\d+ in the window, 0 outside it", said)
    assert "no process and no folder is left" in said
    assert "America/New_York" in picture.read_text()
