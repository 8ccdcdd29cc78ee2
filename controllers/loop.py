"""Observe, decide, act: the one loop, in production and in the simulator.

Level-based: every turn derives the wanted state from clock, policy and readings. Memory holds only since-when and what
was asked and not yet seen, so a restart at any instant wants the same and at most lowers later.
"""

from collections.abc import Mapping, Set
from datetime import UTC, datetime, timedelta

from controllers.asked import Ask, Asks
from controllers.budgets.decision import CLOSED, OPEN, BudgetDecision, Reason, WindowNow, decide_budget, window_at
from controllers.pool_turn import PoolTurn
from controllers.ports import (
    Action,
    BudgetName,
    BudgetReport,
    BudgetSeen,
    ClusterSeen,
    Outcome,
    PoolReport,
    Ports,
    SetBudget,
    TurnReport,
    Unknown,
)
from ebbtide.vocabulary.controller_config import ControllerConfig

RETRY = timedelta(seconds=1)  # after a refused or failed write, and while one is not seen yet
_MEMO = timedelta(days=1)  # how long a window that never changes is believed
_AT_ONCE = timedelta(milliseconds=1)
_NEVER = datetime.max.replace(tzinfo=UTC)
SETTLES_WITHIN = timedelta(seconds=10)  # what the disruption controller does in well under a second
_CLUSTER, _DOUBT, _CALENDAR = "cluster", "doubt", "calendar"


def run(config: ControllerConfig, ports: Ports) -> None:
    """Turn until the waker says stop, then close the budgets and leave everything else as it is."""
    loop = Loop(config, ports)
    while ports.waker.wait(loop.turn(ports.clock.now())):
        pass
    loop.stop(ports.clock.now())


class Loop:
    """One turn at a time. Holds no decision, only what turns must remember."""

    def __init__(self, config: ControllerConfig, ports: Ports) -> None:
        self._config = config
        self._ports = ports
        self._asks = Asks()
        self._pools = {policy.name: PoolTurn(policy, config) for policy in config.pools}
        self._names = tuple(self._pools)
        self._window: tuple[datetime, WindowNow] | None = None
        self._last_known: dict[BudgetName, int] = {}
        self._unsettled: dict[BudgetName, datetime] = {}  # since when
        self._notes: dict[str, str] = {}
        self._failed = False
        self._due = _NEVER

    def turn(self, now: datetime) -> timedelta:
        """One pass; returns after how long the next one must happen, at most the sweep."""
        self._failed = False
        self._due = now + self._config.sweep
        window, doubt = self._window_now(now), self._ports.doubt()
        self._note(now, _DOUBT, doubt and f"nothing is opened or lowered: {doubt}")
        wanted = BudgetDecision(CLOSED, Reason.DOUBT) if doubt and window.is_open else window.decision
        cluster = self._ports.cluster.observe()
        if isinstance(cluster, Unknown):
            self._note(now, _CLUSTER, f"cluster unknown, holding: {cluster.why}")
            budgets = self._close_unseen(now, wanted)
            pools = [pool.unseen(cluster.why) for pool in self._pools.values()]
        else:
            self._note(now, _CLUSTER, "")
            seen = cluster.budgets
            budgets = [self._turn_budget(now, policy.name, wanted, seen) for policy in self._config.budgets]
            pools = self._turn_pools(now, cluster, doubt)
        self._look_again(window.until)
        if self._failed or self._asks:
            self._look_again(now + RETRY)
        self._ports.journal.turned(
            TurnReport(
                at=now,
                window_open=window.is_open,
                window_reason=window.decision.reason,
                window_until=window.until,
                trouble=tuple(self._notes[about] for about in (_CLUSTER, _DOUBT, _CALENDAR) if self._notes.get(about)),
                pools=tuple(pools),
                budgets=tuple(budgets),
            )
        )
        return max(self._due - now, _AT_ONCE)

    def stop(self, now: datetime, keep: Set[BudgetName] = frozenset()) -> None:
        """On the way out: budgets closed, but those to `keep`; replicas and marks stay. No field is ever released."""
        cluster = self._ports.cluster.observe()
        for name in (policy.name for policy in self._config.budgets if policy.name not in keep):
            known = None if isinstance(cluster, Unknown) else cluster.budgets.get(name)
            shown_open = isinstance(cluster, Unknown) or (known is not None and known.max_unavailable != CLOSED)
            if shown_open or self._last_known.get(name):
                self._set_budget(now, name, BudgetDecision(CLOSED, Reason.STOPPING))

    def _look_again(self, at: datetime | None) -> None:
        if at is not None:
            self._due = min(self._due, at)

    # --- budgets --------------------------------------------------------------------------------------------------

    def _window_now(self, now: datetime) -> WindowNow:
        if self._window is not None:
            since, window = self._window
            if since <= now < (window.until or since + _MEMO):
                return window
        window = window_at(now, self._config.window)
        self._window = (now, window)
        known = self._config.hours.knows_holidays_at(now)
        self._note(now, _CALENDAR, "" if known else "the holiday list has ended: every day counts as ordinary")
        return window

    def _turn_budget(
        self, now: datetime, name: BudgetName, wanted: BudgetDecision, budgets: Mapping[BudgetName, BudgetSeen]
    ) -> BudgetReport:
        seen = budgets.get(name)
        if seen is None:
            self._note(now, f"budget {name}", "not in the cluster")
            missing = "not in the cluster"
            return BudgetReport(name=name, max_unavailable=None, wanted=CLOSED, reason=Reason.MISSING, note=missing)
        hold = seen.hold if seen.hold is not None and seen.hold.holds_at(now) else None
        if hold is not None:
            self._look_again(hold.until)
            wanted = BudgetDecision(CLOSED, Reason.HELD) if wanted.max_unavailable == OPEN else wanted
        asked = self._asks.outstanding("budget", name, (seen.version, seen.max_unavailable), now)
        believed = self._last_known[name] = seen.max_unavailable if asked is None else asked.value
        decision = decide_budget(wanted, seen)
        opens = decision.max_unavailable > believed
        # An opening waits until the version to be bound to is seen; a close waits for nothing.
        if decision.max_unavailable != believed and not (opens and asked is not None):
            self._set_budget(now, name, decision, version=seen.version if opens else None, before=seen.version)
        settled = seen.settled and seen.max_unavailable == wanted.max_unavailable
        note = self._unsettled_note(now, name, settled=settled) or ("" if hold is None else hold.why)
        self._note(now, f"budget {name}", note)
        return BudgetReport(
            name=name,
            max_unavailable=seen.max_unavailable,
            wanted=wanted.max_unavailable,
            reason=decision.reason,
            settled=settled,
            note=note,
        )

    def _unsettled_note(self, now: datetime, name: BudgetName, *, settled: bool) -> str:
        """A flip counts when the budget's status shows it."""
        if settled:
            self._unsettled.pop(name, None)
            return ""
        overdue = self._unsettled.setdefault(name, now) + SETTLES_WITHIN
        if now < overdue:
            self._look_again(overdue)
            return ""
        return f"its status has not caught up within {SETTLES_WITHIN.seconds} s"

    def _close_unseen(self, now: datetime, wanted: BudgetDecision) -> list[BudgetReport]:
        """A close needs no reading: what is not known to be closed is closed, once."""
        names = [policy.name for policy in self._config.budgets]
        for name in names if wanted.max_unavailable == CLOSED else ():
            if self._last_known.get(name) != CLOSED:
                self._set_budget(now, name, wanted)
        value, reason = wanted.max_unavailable, wanted.reason
        return [
            BudgetReport(name=name, max_unavailable=None, wanted=value, reason=reason, settled=False) for name in names
        ]

    def _set_budget(
        self, now: datetime, name: BudgetName, decision: BudgetDecision, version: str | None = None, before: str = ""
    ) -> None:
        value = decision.max_unavailable
        action = SetBudget(budget=name, max_unavailable=value, version=version, reason=decision.reason)
        if self._act(now, action) is Outcome.DONE:
            self._last_known[name] = value
            self._asks.record("budget", name, Ask(value=value, before=before, at=now))

    # --- pools ----------------------------------------------------------------------------------------------------

    def _turn_pools(self, now: datetime, cluster: ClusterSeen, doubt: str) -> list[PoolReport]:
        if not self._names:
            return []
        readings = self._ports.demand.read(self._names)
        now = self._ports.clock.now()  # writes to budgets may have taken long; calm windows count from the reading
        missing = Unknown("the demand source gave no reading")
        reports: list[PoolReport] = []
        for name, pool in self._pools.items():
            verdict = pool.turn(now, cluster.pools.get(name), readings.get(name, missing), self._asks, doubt)
            self._note(now, pool.subject, verdict.report.note)
            for action in verdict.actions:
                pool.took(action, self._act(now, action), now, self._asks)
            self._look_again(verdict.due)
            reports.append(verdict.report)
        return reports

    # --- doing and telling ----------------------------------------------------------------------------------------

    def _act(self, now: datetime, action: Action) -> Outcome:
        outcome = self._ports.cluster.act(action)
        self._failed = self._failed or outcome is not Outcome.DONE
        self._ports.journal.acted(now, action, outcome)
        return outcome

    def _note(self, now: datetime, subject: str, message: str) -> None:
        """Tell a condition when it begins, changes or ends; `message` is empty when there is none."""
        before = self._notes.get(subject, "")
        if message != before:
            self._notes[subject] = message
            self._ports.journal.noted(now, subject, message or f"no longer: {before}")
