"""When workloads sleep, and the dollars of the nodes that go meanwhile."""

from datetime import UTC, datetime

import pytest

from ebbtide.preview.cost.monthly import disk_usd_per_node_hour, group_costs
from ebbtide.preview.nights.sleep import sleep_lines
from ebbtide.units.money import HOURS_PER_MONTH, dollars
from tests.builders.workloads.sleeping import BUNDLED, sleeping_stack

NOON, NIGHT = datetime(2026, 11, 30, 12, tzinfo=UTC), datetime(2026, 11, 28, 12, tzinfo=UTC)  # a Monday, a Saturday
AWAKE = "labels: {}"


def test_each_workload_names_its_next_sleep_in_local_time() -> None:
    board, _, rank, _ = sleep_lines(sleeping_stack(), NOON)

    assert board == "board sleeps from Mon 30 Nov 18:00 to Tue 1 Dec 07:45 with 0 of 1 pods"
    assert rank.endswith("to Tue 1 Dec 07:35 with 0 of 1 pods")
    assert next(iter(sleep_lines(sleeping_stack(), NIGHT))) == "board sleeps now to Mon 30 Nov 07:45 with 0 of 1 pods"


def test_the_saving_is_the_node_that_no_pod_needs_at_night() -> None:
    """All pods but one fixed one fit one flexible node; it is needed until the last one sleeps, at 07:35 to 18:00."""
    settings = sleeping_stack()
    flexible = next(line for line in group_costs(settings) if line.name == "flexible")
    assert flexible.rate is not None
    hourly = flexible.rate.above_usd + disk_usd_per_node_hour(settings, settings.node_groups["flexible"])
    hours = (7 * 24 - 5 * (10 + 25 / 60)) / (7 * 24) * HOURS_PER_MONTH

    (*_, saving) = sleep_lines(settings, NOON)
    assert f"{dollars(hours * hourly)}, {hours:,.0f} node-hours of flexible" in saving


def test_what_sleeps_when_idle_saves_that_at_most() -> None:
    idle = sleeping_stack(notes="sleep: { when: idle }", more=BUNDLED)
    (_, notes, _, saving), (*_, by_the_clock) = sleep_lines(idle, NOON), sleep_lines(sleeping_stack(), NOON)

    assert notes == "notes, once idle for 2h, sleeps from Mon 30 Nov 18:00 to Tue 1 Dec 07:45 with 0 of 2 pods"
    assert saving == by_the_clock.replace("saves about", "saves at most about")


@pytest.mark.parametrize("keys", [{"notes": AWAKE}, {"rank": AWAKE}, {"notes": AWAKE, "rank": AWAKE}])
def test_where_other_pods_or_the_minimum_keep_the_nodes_it_saves_nothing(keys: dict[str, str]) -> None:
    (*_, saving) = sleep_lines(sleeping_stack(**keys), NOON)

    assert "saves no node" in saving


def test_a_stack_without_sleep_has_no_line() -> None:
    assert [*sleep_lines(sleeping_stack(board=AWAKE, notes=AWAKE, rank=AWAKE), NOON)] == []
