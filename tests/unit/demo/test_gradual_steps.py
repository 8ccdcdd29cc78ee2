"""How steps of load are judged on the serving site: by the wanted replicas over one period of the policy."""

import pytest

from tests.serving.support.steps import Seen, changes, is_gradual


def observations(*wanted: tuple[int, int]) -> list[Seen]:
    """Observe four times a second; each pair is (seconds, replicas)."""
    numbers = [number for seconds, number in wanted for _ in range(4 * seconds)]
    return [Seen(place / 4, number, number) for place, number in enumerate(numbers)]


@pytest.mark.parametrize(
    ("wanted", "gradual"),
    [
        (((10, 1), (15, 5), (15, 10)), True),
        (((10, 1), (15, 6)), False),
        (((10, 1), (8, 5), (15, 8)), False),  # seven more within a period
        (((10, 8), (30, 6), (30, 4)), True),
        (((10, 8), (30, 5)), False),
    ],
)
def test_at_most_doubled_or_four_more_in_a_period_and_down_by_a_quarter(
    wanted: tuple[tuple[int, int], ...], gradual: bool
) -> None:
    assert all(map(is_gradual, changes(observations(*wanted)))) == gradual
