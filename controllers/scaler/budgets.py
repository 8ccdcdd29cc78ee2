"""Budgets of flexible workloads: when they are open, and one budget's part of a reconcile. Pure.

Closing is always allowed. Opening requires that the budget has been observed and that its status has caught up, so that
the write can be bound to the version on which it was decided.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from controllers.doubt import Doubt
from controllers.ports import (
    Action,
    BudgetName,
    BudgetReport,
    ObservedBudget,
    ObservedCluster,
    Outcome,
    SetBudget,
    Unknown,
)
from controllers.reconciling import Expectation, Expectations, Result
from ebbtide.vocabulary.windows import DisruptionWindow

CLOSED, OPEN = 0, 1
SETTLES_WITHIN = timedelta(seconds=10)  # the disruption controller needs well under a second


class BudgetReason(StrEnum):
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
    reason: BudgetReason
    why: str = ""  # the doubt that keeps the budget closed


@dataclass(frozen=True, slots=True)
class WindowNow:
    """The window's present decision, and the end of that decision; `until` is None if it never changes."""

    decision: BudgetDecision
    until: datetime | None


def target_of(window: BudgetDecision, doubt: Doubt, *, always: bool) -> BudgetDecision:
    """Return one budget's target, given the window's decision for all budgets. In doubt, the budget is closed."""
    target = BudgetDecision(OPEN, BudgetReason.ALWAYS) if always else window
    return BudgetDecision(CLOSED, BudgetReason.DOUBT, doubt.why) if doubt and target.max_unavailable == OPEN else target


def window_at(now: datetime, window: DisruptionWindow) -> WindowNow:
    """Return the decision for every flexible budget at `now` (aware)."""
    until = window.next_change(now)
    if window.is_open(now):
        return WindowNow(BudgetDecision(OPEN, BudgetReason.NIGHT), until)
    reason = BudgetReason.BUSINESS_HOURS if window.hours.is_open(now) else BudgetReason.GUARD
    return WindowNow(BudgetDecision(CLOSED, reason), until)


def closed_by_any(ours: WindowNow, now: datetime, window: DisruptionWindow, doubt: Doubt) -> WindowNow:
    """Return the decision by the first clock that closes the window. `ours` is the decision by this process's clock."""
    if ours.decision.max_unavailable == OPEN:
        for other in (window_at(instant, window) for instant in doubt.others(now)):
            if other.decision.max_unavailable == CLOSED:
                return replace(other, decision=replace(other.decision, why=doubt.why))
    return ours


def decide_budget(target: BudgetDecision, observed: ObservedBudget) -> BudgetDecision:
    """Return the value to set: the present value if the budget must not change yet."""
    if target.max_unavailable > observed.max_unavailable and not observed.settled:
        return BudgetDecision(observed.max_unavailable, BudgetReason.UNSETTLED)
    return target


class BudgetReconciler:
    """Decides for one budget, reconcile after reconcile."""

    def __init__(self, name: BudgetName, expectations: Expectations[int], *, always: bool = False) -> None:
        self.name, self.subject, self._expectations = name, f"budget {name}", expectations
        self.always = always  # True: open in business hours, too
        self._last_known: int | None = None
        self._version = ""  # as last observed
        self._unsettled_since: datetime | None = None

    def reconcile(self, now: datetime, observed: ObservedBudget | None, target: BudgetDecision) -> Result[BudgetReport]:
        if observed is None:
            note = "not in the cluster"
            missing = BudgetReport(
                name=self.name, max_unavailable=None, wanted=CLOSED, reason=BudgetReason.MISSING, note=note
            )
            return Result((), None, missing)
        hold = observed.hold if observed.hold is not None and observed.hold.holds_at(now) else None
        if hold is not None and target.max_unavailable == OPEN:
            target = BudgetDecision(CLOSED, BudgetReason.HELD)
        shown, self._version = observed.max_unavailable, observed.version
        pending = self._expectations.outstanding("budget", self.name, (observed.version, shown), now)
        present = self._last_known = shown if pending is None else pending.value
        decision = decide_budget(target, observed)
        opens = decision.max_unavailable > present
        # An opening waits until the caches show the version to which it is bound; a close waits for nothing.
        changes = decision.max_unavailable != present and not (opens and pending is not None)
        actions = (self._set(decision, observed.version if opens else None),) if changes else ()
        settled = observed.settled and shown == target.max_unavailable
        due, note = self._settling(now, settled=settled)
        note = note or target.why
        if hold is not None:
            due, note = min(filter(None, (due, hold.until)), default=None), note or hold.why
        report = BudgetReport(
            name=self.name,
            max_unavailable=shown,
            wanted=target.max_unavailable,
            reason=decision.reason,
            settled=settled,
            note=note,
        )
        return Result(actions, due, report)

    def reconcile_unobserved(self, target: BudgetDecision) -> Result[BudgetReport]:
        """Close the budget once, unless it is known to be closed: a close needs no reading."""
        return self._unobserved(target, closes=target.max_unavailable == CLOSED and self._last_known != CLOSED)

    def stop(self, cluster: ObservedCluster | Unknown) -> Result[BudgetReport]:
        """Close the budget before the process stops, unless it is known to be closed."""
        observed = None if isinstance(cluster, Unknown) else cluster.budgets.get(self.name)
        shown_open = isinstance(cluster, Unknown) or (observed is not None and observed.max_unavailable != CLOSED)
        return self._unobserved(
            BudgetDecision(CLOSED, BudgetReason.STOPPING), closes=shown_open or bool(self._last_known)
        )

    def record_outcome(self, action: Action, outcome: Outcome, now: datetime) -> None:
        """Remember the write until the caches show it."""
        if outcome is Outcome.DONE and isinstance(action, SetBudget):
            self._last_known = action.max_unavailable
            written = Expectation(value=action.max_unavailable, before=self._version, at=now)
            self._expectations.record("budget", self.name, written)

    def _unobserved(self, target: BudgetDecision, *, closes: bool) -> Result[BudgetReport]:
        value, self._version = target.max_unavailable, ""
        report = BudgetReport(name=self.name, max_unavailable=None, wanted=value, reason=target.reason, settled=False)
        return Result((self._set(target),) if closes else (), None, report, noted=False)

    def _settling(self, now: datetime, *, settled: bool) -> tuple[datetime | None, str]:
        """Return the time by which the budget's status must show a change, and a note if it is overdue."""
        if settled:
            self._unsettled_since = None
            return None, ""
        self._unsettled_since = self._unsettled_since or now
        overdue = self._unsettled_since + SETTLES_WITHIN
        if now < overdue:
            return overdue, ""
        return None, f"its status has not caught up within {SETTLES_WITHIN.seconds} s"

    def _set(self, decision: BudgetDecision, version: str | None = None) -> SetBudget:
        value, reason = decision.max_unavailable, decision.reason
        return SetBudget(budget=self.name, max_unavailable=value, version=version, reason=reason)
