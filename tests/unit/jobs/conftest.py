"""Fixtures of the real Redis, and of the RQ whose workers run on it."""

import sys
from pathlib import Path

import pytest

from tests.backends.environments import NoEnvironment, environment
from tests.builders.redis import client, server, shared_server

__all__ = ["client", "server", "shared_server"]


@pytest.fixture(params=["own", pytest.param("newest", marks=pytest.mark.backends)])
def rq_program(request: pytest.FixtureRequest) -> Path:
    """The `rq` of workers: of the oldest version that is supported, which tests import too, or of the newest."""
    if request.param == "own":
        return Path(sys.executable).with_name("rq")
    try:
        return environment("rq") / "rq"
    except NoEnvironment as error:
        pytest.skip(str(error))
