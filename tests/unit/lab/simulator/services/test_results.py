"""Figures of one strategy, from what was served."""

from array import array

import pytest

from ebbtide.lab.simulator.services.results import result_of
from ebbtide.lab.simulator.services.run import ServedRequests


def test_beyond_the_slo_are_late_ones_lost_ones_and_those_turned_away() -> None:
    latencies = array("d", [1.0, 4.0, 2.0, 3.0, 3.5, 0.5])
    served = ServedRequests(sent=10, lost=3, turned_away=1, latencies=latencies, pod_hours=5.0)
    result = result_of(served, slo_s=3.0, usd_per_pod_hour=0.2)

    assert result.beyond_slo == pytest.approx(0.6)
    assert (result.answered, result.p50_s, result.p95_s) == (6, 2.0, 4.0)
    assert result.usd == pytest.approx(1.0)
    assert result_of(served, slo_s=3.0, usd_per_pod_hour=None).usd is None


def test_without_a_request_nothing_is_beyond() -> None:
    assert result_of(ServedRequests(), slo_s=1.0, usd_per_pod_hour=None).beyond_slo == 0
