"""What every test may rely on."""

import signal
from collections.abc import Iterator

import hypothesis
import pytest

# How long an example takes says nothing on a machine that others use too.
hypothesis.settings.register_profile("any-machine", deadline=None)
hypothesis.settings.load_profile("any-machine")


@pytest.fixture(autouse=True)
def _interrupts_arrive() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - used by every test
    """A shell starts background jobs with Ctrl-C ignored, and processes started here would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
