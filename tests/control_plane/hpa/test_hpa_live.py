"""A short take of the real HorizontalPodAutoscaler, anew: whether this Kubernetes still does what was recorded."""

from pathlib import Path

import pytest
from control_plane.plane.binaries import how_to_get, missing

from tests.control_plane.hpa.recorder import recorder
from tests.control_plane.hpa.scenarios import quick_scenarios
from tests.fidelity.hpa import alone, differences, instants, written

pytestmark = pytest.mark.control_plane


def test_the_model_writes_what_the_real_one_writes_now(tmp_path: Path) -> None:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    scenarios = quick_scenarios()
    with recorder(tmp_path) as own:
        take = own.take(scenarios, "live")

    assert [line for one in scenarios for line in differences(one, take[one.name])] == []
    numbers = {one.name: [number for _, number in written(take[one.name])] for one in scenarios}
    model = {one.name: [number for _, number in alone(one, instants(take[one.name]))] for one in scenarios}
    assert numbers == model
    assert all(numbers.values())
