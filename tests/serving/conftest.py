"""One site for the session: it takes half a minute to come up."""

from collections.abc import Iterator

import pytest
from control_plane.plane.binaries import OF_MONITORING, OF_SERVING, how_to_get, missing

from tests.serving.support.network import is_inside
from tests.serving.support.site import Serving, site


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Shared: what a test applies it deletes."""
    if not is_inside():
        pytest.skip("not in a network of its own: run `make test-serving`, or `python -m tests.serving`")
    if lacking := [*missing(), *missing(OF_MONITORING), *missing(OF_SERVING)]:
        pytest.skip(how_to_get(lacking))
    with site(tmp_path_factory.mktemp("serving")) as made:
        yield made
