"""One process of the provider for the session: it takes two seconds to start, and answers in milliseconds."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.aws.support.engine import CLI
from tests.aws.support.imitation import PYTHON
from tests.aws.support.lived import Lives
from tests.aws.support.provider import HOW, Provider, found


def pytest_runtest_setup(item: pytest.Item) -> None:
    """From one place, so that a session tells what it lacks in one line. On GitHub the workflow brings the provider."""
    if item.get_closest_marker("aws"):
        if found(os.environ, Path.home()) is None:
            _go_without(HOW)
        if not PYTHON.exists() and item.get_closest_marker("imitation"):
            _go_without("needs the imitation of AWS in .venvs/aws: `make test-aws`")
        if item.get_closest_marker("pulumi_cli") and shutil.which("pulumi") is None:
            _go_without(CLI)


def _go_without(lacking: str) -> NoReturn:
    if os.environ.get("GITHUB_ACTIONS"):
        pytest.fail(lacking, pytrace=False)
    pytest.skip(lacking)


@pytest.fixture(scope="session", autouse=True)
def lives(request: pytest.FixtureRequest) -> Iterator[Lives]:
    """Start the requested life cycles before the first test, since they mostly wait. With workers, tests start them."""
    lives = Lives()
    alone = not hasattr(request.config, "workerinput")
    if alone and PYTHON.exists() and found(os.environ, Path.home()) is not None:
        for name in filter(None, map(_stack_of, request.session.items)):
            lives.begin(name)
    yield lives
    lives.end()


def _stack_of(item: pytest.Item) -> str:
    parameters: Mapping[str, str] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("stack", "") if item.get_closest_marker("aws") else ""


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    program = found(os.environ, Path.home())
    assert program is not None
    with Provider(program) as provider:
        yield provider
