"""One budget's part of a reconcile: what is wanted and what is observed in, actions and a report out."""

from datetime import datetime, timedelta

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
from controllers.scaler.budgets.decision import CLOSED, OPEN, BudgetDecision, Reason, decide_budget

SETTLES_WITHIN = timedelta(seconds=10)  # what the disruption controller does in well under a second


class BudgetReconciler:
    """Decides for one budget, reconcile after reconcile."""

    def __init__(self, name: BudgetName, expectations: Expectations[int], *, always: bool = False) -> None:
        self.name, self.subject, self._expectations = name, f"budget {name}", expectations
        self.always = always  # whether it is open in business hours, too
        self._last_known: int | None = None
        self._version = ""  # as last observed
        self._unsettled_since: datetime | None = None

    def reconcile(self, now: datetime, observed: ObservedBudget | None, wanted: BudgetDecision) -> Result[BudgetReport]:
        if observed is None:
            note = "not in the cluster"
            missing = BudgetReport(
                name=self.name, max_unavailable=None, wanted=CLOSED, reason=Reason.MISSING, note=note
            )
            return Result((), None, missing)
        hold = observed.hold if observed.hold is not None and observed.hold.holds_at(now) else None
        if hold is not None and wanted.max_unavailable == OPEN:
            wanted = BudgetDecision(CLOSED, Reason.HELD)
        shown, value, self._version = observed.max_unavailable, wanted.max_unavailable, observed.version
        pending = self._expectations.outstanding("budget", self.name, (observed.version, shown), now)
        believed = self._last_known = shown if pending is None else pending.value
        decision = decide_budget(wanted, observed)
        opens = decision.max_unavailable > believed
        # An opening waits until the version to be bound to is seen; a close waits for nothing.
        changes = decision.max_unavailable != believed and not (opens and pending is not None)
        actions = (self._set(decision, observed.version if opens else None),) if changes else ()
        settled = observed.settled and shown == value
        due, note = self._settling(now, settled=settled)
        if hold is not None:
            due, note = min(filter(None, (due, hold.until)), default=None), note or hold.why
        report = BudgetReport(
            name=self.name, max_unavailable=shown, wanted=value, reason=decision.reason, settled=settled, note=note
        )
        return Result(actions, due, report)

    def reconcile_unobserved(self, wanted: BudgetDecision) -> Result[BudgetReport]:
        """A close needs no reading: what is not known to be closed is closed, once."""
        return self._unobserved(wanted, closes=wanted.max_unavailable == CLOSED and self._last_known != CLOSED)

    def stop(self, cluster: ObservedCluster | Unknown) -> Result[BudgetReport]:
        """Closed on the way out, unless it is known to be closed."""
        observed = None if isinstance(cluster, Unknown) else cluster.budgets.get(self.name)
        shown_open = isinstance(cluster, Unknown) or (observed is not None and observed.max_unavailable != CLOSED)
        return self._unobserved(BudgetDecision(CLOSED, Reason.STOPPING), closes=shown_open or bool(self._last_known))

    def record_outcome(self, action: Action, outcome: Outcome, now: datetime) -> None:
        """Remember what was written until the caches show it."""
        if outcome is Outcome.DONE and isinstance(action, SetBudget):
            self._last_known = action.max_unavailable
            written = Expectation(value=action.max_unavailable, before=self._version, at=now)
            self._expectations.record("budget", self.name, written)

    def _unobserved(self, wanted: BudgetDecision, *, closes: bool) -> Result[BudgetReport]:
        value, self._version = wanted.max_unavailable, ""
        report = BudgetReport(name=self.name, max_unavailable=None, wanted=value, reason=wanted.reason, settled=False)
        return Result((self._set(wanted),) if closes else (), None, report, noted=False)

    def _settling(self, now: datetime, *, settled: bool) -> tuple[datetime | None, str]:
        """A change counts when the budget's status shows it: until when that has time, and a note once it is late."""
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
