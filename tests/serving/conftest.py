"""One site for the session: it takes half a minute to come up."""

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest
from control_plane.plane.binaries import OF_MONITORING, OF_SERVING, how_to_get, missing

from tests.serving.support.network import is_inside
from tests.serving.support.site import Serving, site


def _go_without(lacking: str) -> NoReturn:
    """On GitHub the workflow brings all of it."""
    if os.environ.get("GITHUB_ACTIONS"):
        pytest.fail(lacking, pytrace=False)
    pytest.skip(lacking)


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Shared: what a test applies it deletes."""
    if not is_inside():
        _go_without("not in a network of its own: run `make test-serving`, or `python -m tests.serving`")
    if lacking := [*missing(), *missing(OF_MONITORING), *missing(OF_SERVING)]:
        _go_without(how_to_get(lacking))
    with site(tmp_path_factory.mktemp("serving")) as made:
        yield made
