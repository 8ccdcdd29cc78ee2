"""The cheapest fractional nodes, shown to be the cheapest by the prices that come with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.strategies.covering import Covering, NotOffered

AMOUNT = st.integers(0, 400).map(float)
SHAPE = st.tuples(st.integers(1, 64).map(float), st.integers(1, 256).map(float), st.integers(0, 8).map(float))
PRICED = st.lists(st.tuples(SHAPE, st.integers(1, 900).map(lambda cents: cents / 100)), min_size=1, max_size=5)
NEED = st.tuples(AMOUNT, AMOUNT, AMOUNT)
SOME_GPU = ((8.0, 32.0, 4.0), 3.0)


def worth(amounts: tuple[float, ...], prices: tuple[float, ...]) -> float:
    return sum(amount * price for amount, price in zip(amounts, prices, strict=True))


@given(priced=PRICED, needs=st.lists(NEED, min_size=1, max_size=8))
def test_each_answer_covers_the_need_and_is_proven_by_its_resource_prices(
    priced: list[tuple[tuple[float, float, float], float]], needs: list[tuple[float, float, float]]
) -> None:
    """If no node's content is worth more than the node, nobody gets the need for less than it is worth."""
    priced = [*priced, SOME_GPU]
    offers, prices = [offer for offer, _ in priced], tuple(price for _, price in priced)
    covering = Covering(offers, prices)

    for need in needs:
        nodes = covering.cheapest(need)
        resource_prices = covering.resource_prices()

        bought = [sum(count * offer[r] for count, offer in zip(nodes, offers, strict=True)) for r in range(3)]
        assert min(nodes) >= 0
        assert all(have >= want - 1e-6 for have, want in zip(bought, need, strict=True))
        assert min(resource_prices) >= 0
        assert all(worth(offer, resource_prices) <= price + 1e-6 for offer, price in priced)
        assert worth(nodes, prices) == pytest.approx(worth(need, resource_prices), abs=1e-6)


def test_it_forgets_nothing_after_many_changes_of_need() -> None:
    offers, prices = [(8.0, 32.0), (8.0, 64.0), (16.0, 32.0)], (1.0, 1.3, 1.6)
    covering = Covering(offers, prices)
    for i in range(3000):
        covering.cheapest((float(i * 7 % 97), float(i * 31 % 389)))

    assert covering.cheapest((40.0, 170.0)) == pytest.approx(Covering(offers, prices).cheapest((40.0, 170.0)))


def test_what_no_node_has_is_refused() -> None:
    with pytest.raises(NotOffered):
        Covering([(8.0, 0.0)], [1.0]).cheapest((1.0, 1.0))
