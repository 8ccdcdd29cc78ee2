"""A shared recording of an entire stack, which no test changes, and the requests of a program that fails."""

from typing import Any

import pytest

from ebbtide.recording.record import RecordingMonitor
from tests.builders.recorded import record
from tests.builders.stack import Recorded, stack_settings


@pytest.fixture(scope="session")
def stack() -> Recorded:
    return Recorded(record(stack_settings()))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all requested resources, without the stack itself."""
    names: list[str] = []
    original = RecordingMonitor.RegisterResource

    def noted(self: RecordingMonitor, request: Any) -> Any:
        if request.type != "pulumi:pulumi:Stack":
            names.append(request.name)
        return original(self, request)

    monkeypatch.setattr(RecordingMonitor, "RegisterResource", noted)
    return names
