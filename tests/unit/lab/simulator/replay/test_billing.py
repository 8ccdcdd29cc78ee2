"""A bill worked by hand, and the same money however it is cut into days."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.billing import usd_per_day
from ebbtide.lab.simulator.results import ClusterSeries
from ebbtide.prices import GroupRate

HOUR = 3600.0
RATES = {
    "fixed": GroupRate(floor=2, floor_usd=0.3, above_usd=0.4),
    "flexible": GroupRate(floor=0, floor_usd=0.8, above_usd=0.8),
}


def test_one_bill_by_hand() -> None:
    series = ClusterSeries(
        at=(0.0, 6 * HOUR, 20 * HOUR), nodes={"fixed": (2, 3, 1), "flexible": (0, 4, 0)}, waiting=(), running=()
    )

    bill = usd_per_day(series, RATES, (10 * HOUR, 34 * HOUR))

    # first day: 6 h x 2 x 0.30, then 4 h x (2 x 0.30 + 0.40 + 4 x 0.80)
    # second day: 10 h more of that, then 14 h x 2 x 0.30, although one of the two nodes is missing
    assert bill == pytest.approx((3.60 + 16.80, 42.00 + 8.40))


@given(
    steps=st.lists(st.tuples(st.floats(0.1, 30.0), st.integers(0, 5)), min_size=1, max_size=8),
    cuts=st.lists(st.floats(0.1, 200.0), max_size=5, unique=True),
)
def test_days_share_out_one_sum(steps: list[tuple[float, int]], cuts: list[float]) -> None:
    at = [0.0]
    for lasts, _ in steps:
        at.append(at[-1] + lasts)
    end = at.pop()
    series = ClusterSeries(at=tuple(at), nodes={"fixed": tuple(nodes for _, nodes in steps)})
    ends = (*sorted(cut for cut in cuts if cut < end), end)

    (whole,) = usd_per_day(series, RATES, (end,))
    parts = usd_per_day(series, RATES, ends)

    assert len(parts) == len(ends)
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(whole)
