"""The decision about flexible budgets, instant by instant around the edges."""

from datetime import UTC, datetime, timedelta

import pytest

from controllers.doubt import TRUST, Doubt
from controllers.ports import ObservedBudget
from controllers.scaler.budgets import BudgetDecision, BudgetReason, decide_budget, target_of, window_at
from ebbtide.vocabulary.windows import DisruptionWindow
from tests.builders.controllers import OFFICE

WINDOW = DisruptionWindow(hours=OFFICE, closing_guard=timedelta(minutes=15))
INSTANT = timedelta(microseconds=1)
CLOSING = datetime(2026, 3, 4, 19, 0, tzinfo=UTC)
GUARD = datetime(2026, 3, 5, 7, 45, tzinfo=UTC)
OPENING = datetime(2026, 3, 5, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        (CLOSING - INSTANT, BudgetDecision(0, BudgetReason.BUSINESS_HOURS)),
        (CLOSING, BudgetDecision(1, BudgetReason.NIGHT)),
        (GUARD - INSTANT, BudgetDecision(1, BudgetReason.NIGHT)),
        (GUARD, BudgetDecision(0, BudgetReason.GUARD)),
        (OPENING - INSTANT, BudgetDecision(0, BudgetReason.GUARD)),
        (OPENING, BudgetDecision(0, BudgetReason.BUSINESS_HOURS)),
    ],
)
def test_the_window_opens_at_closing_time_and_closes_the_guard_before_opening(
    now: datetime, wanted: BudgetDecision
) -> None:
    assert window_at(now, WINDOW).decision == wanted


def test_the_window_says_until_when_it_holds() -> None:
    assert window_at(CLOSING - INSTANT, WINDOW).until == CLOSING
    assert window_at(CLOSING, WINDOW).until == GUARD


def test_a_budget_whose_status_lags_is_not_opened() -> None:
    seen = ObservedBudget(max_unavailable=0, settled=False)

    assert decide_budget(BudgetDecision(1, BudgetReason.NIGHT), seen) == BudgetDecision(0, BudgetReason.UNSETTLED)


def test_a_close_is_never_refused() -> None:
    seen = ObservedBudget(max_unavailable=1, settled=False)

    assert decide_budget(BudgetDecision(0, BudgetReason.GUARD), seen) == BudgetDecision(0, BudgetReason.GUARD)


def test_what_is_open_already_keeps_its_reason_while_its_status_lags() -> None:
    night = BudgetDecision(1, BudgetReason.NIGHT)

    assert decide_budget(night, ObservedBudget(max_unavailable=1, settled=False)) == night


DAY, OPENED = BudgetDecision(0, BudgetReason.BUSINESS_HOURS), BudgetDecision(1, BudgetReason.NIGHT)


def test_only_a_budget_that_says_always_is_open_in_business_hours() -> None:
    assert target_of(DAY, TRUST, always=False) == DAY
    assert target_of(DAY, TRUST, always=True) == BudgetDecision(1, BudgetReason.ALWAYS)
    assert target_of(OPENED, TRUST, always=False) == OPENED


def test_in_doubt_no_budget_is_open_whatever_it_says() -> None:
    closed, doubt = BudgetDecision(0, BudgetReason.DOUBT, "clocks"), Doubt("clocks")

    assert target_of(OPENED, doubt, always=False) == target_of(DAY, doubt, always=True) == closed
    assert target_of(DAY, doubt, always=False) == DAY
