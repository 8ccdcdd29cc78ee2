"""A team's namespace on the session's control plane, with the policies of a few rules."""

from collections.abc import Iterator

import pytest
from control_plane.plane.driver import ControlPlane

from tests.control_plane.support.adopted import Adopted


@pytest.fixture(scope="module")
def team(control_plane: ControlPlane) -> Iterator[Adopted]:
    team = Adopted(control_plane)
    team.adopt()
    yield team
    team.clean()
