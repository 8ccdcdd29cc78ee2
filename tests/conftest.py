"""What every test may rely on."""

import signal
import sys
from collections.abc import Iterator

import hypothesis
import pytest

from tests import second_try

# How long an example takes says nothing on a machine that others use too.
hypothesis.settings.register_profile("any-machine", deadline=None)
hypothesis.settings.load_profile("any-machine")


def pytest_configure(config: pytest.Config) -> None:
    second_try.register(config)


def pytest_sessionfinish() -> None:
    """Save what `make coverage` measured: xdist kills a worker that takes over ten seconds to save it at its exit."""
    measuring = sys.modules["coverage"].Coverage.current() if "coverage" in sys.modules else None
    if measuring is not None:
        measuring.stop()
        measuring.save()


@pytest.fixture(autouse=True)
def _interrupts_arrive() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - used by every test
    """A shell starts background jobs with Ctrl-C ignored, and processes started here would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
