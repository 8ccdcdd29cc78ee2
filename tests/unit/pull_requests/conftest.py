"""GitHub, for each test anew."""

from collections.abc import Generator

import pytest

from tests.unit.pull_requests.github_stand_in import FastClock, Hub, github


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Generator[Hub]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")  # the proxy of whoever runs this is not asked
    with github() as standing_in:
        yield standing_in


@pytest.fixture
def clock() -> FastClock:
    return FastClock()
