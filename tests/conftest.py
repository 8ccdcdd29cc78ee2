"""What every test may rely on."""

import gc
import signal
import sys
from collections.abc import Generator, Iterator

import hypothesis
import pytest

from tests.counts import examples

# How long an example takes says nothing on a machine that others use too.
hypothesis.settings.register_profile("any-machine", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("any-machine")

TIERS = {
    "process",
    "redis",
    "redis_server",
    "control_plane",
    "backends",
    "ray",
    "node",
    "serving",
    "engine",
    "aws",
    "long",
}
_STARTING = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "socket.bind"}
_held_to_python: bool = False


def _refuse_to_start(event: str, arguments: tuple[object, ...]) -> None:
    if _held_to_python and event in _STARTING:
        raise AssertionError(f"a test of `make test` starts nothing, and this one does: mark it `process` ({event})")


sys.addaudithook(_refuse_to_start)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test without a marker of a tier may start no program and no server."""
    global _held_to_python
    tiers = {mark.name for mark in item.iter_markers()} & TIERS
    _held_to_python = not tiers
    try:
        return (yield)
    finally:
        _held_to_python = False


def pytest_collection_finish() -> None:
    """Keep the garbage collector from what lives as long as the session: the SDKs' half a million objects."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Save what `make coverage` measured: xdist kills a worker that takes over ten seconds to save it at its exit."""
    measuring = sys.modules["coverage"].Coverage.current() if "coverage" in sys.modules else None
    if measuring is not None:
        measuring.stop()
        measuring.save()


@pytest.fixture(autouse=True)
def _signals_arrive() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - used by every test
    """Processes that a test starts inherit ignored signals: a shell's background job ignores two, `nohup` a third."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
