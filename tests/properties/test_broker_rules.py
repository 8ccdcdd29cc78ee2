"""Laws of pools in a message broker: counts that are late, missing or wrong stop no busy worker."""

from collections.abc import Callable

import pytest

from controllers.adapters.broker_rules import BrokerRules
from tests.builders.brokers import BrokerWorld
from tests.counts import count

STEPS = 150
FEW = 60
MANY = 10_000


def stopped_busy(seed: int, rules: Callable[[], BrokerRules] | None = None) -> tuple[list[str], int]:
    """The busy or unreported pods that a run has removed, and the number of workers that it stopped."""
    world = BrokerWorld(seed, rules=rules)
    for _ in range(STEPS):
        world.step()
        world.look()
    return [*world.cluster.removed_busy, *world.unreported], world.stopped


def test_no_sequence_of_answers_stops_a_worker_that_is_busy_or_does_not_report_idle() -> None:
    removed = 0
    for seed in range(FEW):
        wronged, gone = stopped_busy(seed)
        assert wronged == [], f"seed {seed}"
        removed += gone

    assert removed > FEW / 4  # the runs do shrink: otherwise the law would say nothing


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_ten_thousand_runs_stop_no_busy_worker(block: int) -> None:
    each = count(MANY, MANY // 10) // 10
    for seed in range(block * each, block * each + each):
        assert stopped_busy(seed)[0] == [], f"seed {seed}"
