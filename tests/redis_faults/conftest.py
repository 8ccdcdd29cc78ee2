"""Skips all of it, with one clear line, where Debian's redis-server is missing."""

import pytest

from tests.redis_faults.redis_server import missing_parts


@pytest.fixture(autouse=True, scope="session")
def _parts() -> None:  # pyright: ignore[reportUnusedFunction] - used by every test here
    missing = missing_parts()
    if missing:
        pytest.skip(missing)
