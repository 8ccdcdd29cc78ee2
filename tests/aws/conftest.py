"""One process of the provider for the session: it takes two seconds to start, and answers in milliseconds."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aws.support.provider import HOW, Provider, found


def pytest_runtest_setup(item: pytest.Item) -> None:
    """From one place, so that a session tells what it lacks in one line. On GitHub the workflow brings the provider."""
    if item.get_closest_marker("aws") and found(os.environ, Path.home()) is None:
        if os.environ.get("GITHUB_ACTIONS"):
            pytest.fail(HOW, pytrace=False)
        pytest.skip(HOW)


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    program = found(os.environ, Path.home())
    assert program is not None
    with Provider(program) as provider:
        yield provider
