"""One recording of a whole stack, shared: nobody changes it. And what a program asks for that ends in an error."""

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
    """The names of all resources that anybody asks for, the stack itself aside."""
    names: list[str] = []
    original = RecordingMonitor.RegisterResource

    def noted(self: RecordingMonitor, request: Any) -> Any:
        if request.type != "pulumi:pulumi:Stack":
            names.append(request.name)
        return original(self, request)

    monkeypatch.setattr(RecordingMonitor, "RegisterResource", noted)
    return names
