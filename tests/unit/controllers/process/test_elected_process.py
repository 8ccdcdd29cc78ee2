"""The frame of a process of which one replica acts, with a Lease and terms that a test scripts."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from controllers import process as frame
from controllers.adapters.lease import Lease
from controllers.process import ConfigFile, ElectedProcess
from tests.builders.monitoring.expositions import kubeconfig


class ScriptedLease:
    holder, why = "", ""

    def __init__(self) -> None:
        self.is_held, self.released = True, False

    def start(self, changed: Callable[[], None]) -> None: ...

    def held(self) -> bool:
        return self.is_held and not self.released

    def release(self) -> None:
        self.released = True

    def lose(self) -> None:
        self.is_held = False


class ScriptedTerm:
    def __init__(self, process: "Scripted", config: str) -> None:
        self._process, self._config = process, config

    def start(self) -> None:
        self._process.log.append(f"start {self._config}")

    def trouble(self) -> str:
        return self._process.trouble()

    def reconcile(self) -> timedelta:
        self._process.log.append(f"reconcile {self._config}")
        self._process.steps.pop(0)()
        return timedelta()

    def close(self) -> None:
        self._process.log.append(f"close {self._config}")


class Scripted(ElectedProcess[str, ScriptedTerm]):
    """Takes a step in each reconcile."""

    def __init__(self, folder: Path, *steps: Callable[[], object]) -> None:
        self.path = folder / "config"
        self.path.write_text("one")
        super().__init__(ConfigFile(self.path, str), kubeconfig(folder), namespace="ebbtide", lease="test")
        self.script = ScriptedLease()
        self.lease = cast("Lease", self.script)
        self.log: list[str] = []
        self.steps: list[Callable[[], object]] = [*steps]
        self.trouble: Callable[[], str] = lambda: ""

    def new_term(self) -> ScriptedTerm:
        return ScriptedTerm(self, self.file.config)

    def end_term(self, term: ScriptedTerm, successor: str | None) -> None:  # noqa: ARG002 - as the frame calls it
        self.log.append(f"end for {successor}, released: {self.script.released}")

    def silence_limit(self) -> float:
        return 60.0


def test_a_stop_ends_the_term_and_then_releases_the_lease(tmp_path: Path) -> None:
    process = Scripted(tmp_path)
    process.steps = [lambda: None, process.waker.stop]
    process.waker.notify()
    process.run()

    last = ["end for None, released: False", "close one"]
    assert process.log == ["start one", "reconcile one", "reconcile one", *last]
    assert process.script.released


def test_another_config_ends_the_term_and_begins_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "_CONFIG_INTERVAL", 0.0)
    process = Scripted(tmp_path)
    process.steps = [lambda: process.path.write_text("two"), process.waker.stop]
    process.run()

    first = ["start one", "reconcile one", "end for two, released: False", "close one"]
    assert process.log == [*first, "start two", "reconcile two", "end for None, released: False", "close two"]


def test_a_lost_lease_ends_the_term_without_a_last_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "_STANDBY", timedelta())
    process = Scripted(tmp_path)
    process.steps = [process.script.lose]

    def wait(_: timedelta) -> bool:
        return process.term is not None

    monkeypatch.setattr(process.waker, "wait", wait)
    process.run()

    assert process.log == ["start one", "reconcile one", "close one"]
    assert not process.script.released


def test_a_term_waits_for_its_caches_and_a_stop_ends_the_wait(tmp_path: Path) -> None:
    process = Scripted(tmp_path, lambda: process.waker.stop())
    answers = iter(["not listed yet", "not listed yet", ""])
    process.trouble = lambda: next(answers)
    process.run()
    assert process.log[:2] == ["start one", "reconcile one"]
    assert next(answers, "none left") == "none left"

    process = Scripted(tmp_path)
    process.trouble = lambda: process.waker.stop() or "not listed yet"
    process.run()
    assert process.log == ["start one", "end for None, released: False", "close one"]


def test_a_term_does_not_wait_forever_for_its_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "_SYNC", 0.1)
    process = Scripted(tmp_path, lambda: process.waker.stop())
    process.trouble = lambda: "not listed yet"
    process.run()

    assert "reconcile one" in process.log


def test_probes_name_a_silent_main_loop_and_caches_that_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Scripted(tmp_path)
    assert [process.pages[page]()[0] for page in ("/healthz", "/readyz")] == [200, 200]
    process.term = process.new_term()
    process.trouble = lambda: "pods: not listed yet"
    assert process.pages["/readyz"]()[::2] == (503, "pods: not listed yet\n")

    begun = process._last_turn
    monkeypatch.setattr(frame, "monotonic", lambda: begun + 61)
    assert process.pages["/healthz"]()[::2] == (503, "the main loop has not run for 61 s\n")


def test_a_bad_config_hides_no_clock_that_differs(tmp_path: Path) -> None:
    process = Scripted(tmp_path)
    assert not process.doubt()
    process.path.write_bytes(b"\xff")
    process.file.changed()
    bad = process.doubt()
    process.clocks.compare("the API server", datetime.now(UTC) + timedelta(minutes=40))
    both = process.doubt()

    assert (bool(bad), bad.leads) == (True, ())
    assert both.why.startswith(f"{bad.why}; clock skew: the API server is 2")
    assert [round(lead.total_seconds() / 60) for lead in both.leads] == [40]
