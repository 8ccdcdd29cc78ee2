"""The serving part of the demo: a real gateway, real model servers, and the client's counts."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ebbtide.demo import serving
from ebbtide.demo.load import LoadStage
from ebbtide.demo.serving import run_serving
from tests.builders.redis import DEADLINE, wait_until
from tests.paths import ROOT
from tests.unit.demo.test_live import processes_with

pytestmark = pytest.mark.process

SHORT = (LoadStage(seconds=1, rate=6), LoadStage(seconds=5, rate=60), LoadStage(seconds=1, rate=6))


class EnoughDecisions(Exception):
    """Ends the loop of the scaler."""


def test_it_grows_with_its_load_shrinks_after_it_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "STRETCHES", SHORT)
    said: list[str] = []

    served = run_serving(said.append)

    assert served.sent == served.answered > 200
    assert served.peak >= 4
    assert (served.at_the_end, served.killed) == (1, 0)
    assert any("from 1 to 4 replicas" in line for line in said)
    assert any(line.endswith("to 1 replicas") for line in said)
    assert sum(served.step.rate) * served.step.step == served.sent
    assert max(served.step.ready) == served.peak
    assert served.facts()["requests lost"] == "0"


def test_each_decision_follows_a_second_of_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, readings, decided_after = [0.0], list[float](), list[int]()

    async def sleep(seconds: float) -> None:
        clock[0] += seconds

    def in_flight(_: str) -> int:
        readings.append(clock[0])
        return 1

    def scale(_: int) -> None:
        decided_after.append(len(readings))
        if len(decided_after) == 3:
            raise EnoughDecisions

    monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(serving, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(serving, "POLL", 0.25)
    gateway = SimpleNamespace(in_flight=in_flight, stats=Mock(return_value={}))
    scaler: Any = serving._Scaler(
        cast("Any", gateway), cast("Any", SimpleNamespace(replicas=1, ready=1, scale=scale)), Mock()
    )

    with pytest.raises(EnoughDecisions):
        asyncio.run(scaler.run())

    assert decided_after == [4, 8, 12]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to find processes by environment")
def test_no_process_is_left_when_it_is_ended_in_the_middle(tmp_path: Path) -> None:
    script = (
        "from ebbtide.demo.serving import run_serving\n"
        "try:\n"
        "    run_serving(lambda line: print(line, flush=True))\n"
        "except KeyboardInterrupt:\n"
        "    raise SystemExit(130)\n"
    )
    token = f"serving-{os.getpid()}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "EBBTIDE_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    said = tmp_path / "said"
    with said.open("wb") as output:
        running = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=output)
    wait_until(lambda: b"to 4 replicas" in said.read_bytes(), "more replicas")
    assert len(processes_with(token)) >= 6

    running.send_signal(signal.SIGINT)
    running.wait(DEADLINE)

    assert running.returncode == 130
    wait_until(lambda: not processes_with(token), "the processes to end")
    assert sorted(tmp_path.iterdir()) == [said]
