"""Whether budgets are open. Pure: window and clock in, 0 or 1 out.

Closing is never refused. Opening asks for more: the budget must have been seen, with its status caught up, so that the
write can be bound to the version it was decided on.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from controllers.ports import ObservedBudget
from ebbtide.vocabulary.windows import DisruptionWindow

CLOSED, OPEN = 0, 1


class Reason(StrEnum):
    NIGHT = "disruption-window-open"
    ALWAYS = "jobs-may-be-interrupted-at-any-time"
    BUSINESS_HOURS = "business-hours"
    GUARD = "closing-guard-before-opening"
    UNSETTLED = "budget-status-not-caught-up"
    STOPPING = "controller-stops"
    HELD = "held-by-an-operator"
    DOUBT = "clock-or-config-in-doubt"
    MISSING = "not-in-the-cluster"


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    max_unavailable: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class WindowNow:
    """What the window says now, and until when; `until` is None if it never changes."""

    decision: BudgetDecision
    until: datetime | None


def wanted_of(window: BudgetDecision, doubt: str, *, always: bool) -> BudgetDecision:
    """What one budget should be, given what the window says of all of them; nothing is opened in doubt."""
    wanted = BudgetDecision(OPEN, Reason.ALWAYS) if always else window
    return BudgetDecision(CLOSED, Reason.DOUBT) if doubt and wanted.max_unavailable == OPEN else wanted


def window_at(now: datetime, window: DisruptionWindow) -> WindowNow:
    """What every flexible budget should be at `now` (aware)."""
    until = window.next_change(now)
    if window.is_open(now):
        return WindowNow(BudgetDecision(OPEN, Reason.NIGHT), until)
    reason = Reason.BUSINESS_HOURS if window.hours.is_open(now) else Reason.GUARD
    return WindowNow(BudgetDecision(CLOSED, reason), until)


def decide_budget(wanted: BudgetDecision, seen: ObservedBudget) -> BudgetDecision:
    """What to set this budget to; its present value when it has to stay."""
    if wanted.max_unavailable > seen.max_unavailable and not seen.settled:
        return BudgetDecision(seen.max_unavailable, Reason.UNSETTLED)
    return wanted
