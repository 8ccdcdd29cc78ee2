"""Observe, decide, act: the one loop, in production and in the simulator.

Level-based: every turn derives the wanted state from clock, policy and readings. Memory holds only since-when and what
was asked and not yet seen, so a restart at any instant wants the same and at most lowers later.
"""

from collections.abc import Set
from datetime import datetime, timedelta

from controllers.asked import Ask, Asks
from controllers.budgets.decision import CLOSED, OPEN, BudgetDecision, Reason, WindowNow, decide_budget, window_at
from controllers.pool_turn import PoolTurn, PoolVerdict
from controllers.ports import (
    NO_LONGER,
    Action,
    BudgetReport,
    ClusterSeen,
    Outcome,
    Ports,
    SetBudget,
    TurnReport,
    Unknown,
)
from ebbtide.vocabulary.controller_config import ControllerConfig

RETRY = timedelta(seconds=1)  # after a write that was not done, and while one is not seen yet
_MEMO = timedelta(days=1)  # how long a window that never changes is believed
_AT_ONCE = timedelta(milliseconds=1)
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
        self._window: tuple[datetime, WindowNow] | None = None
        self._last_known: dict[str, int] = {}
        self._unsettled: dict[str, datetime] = {}  # since when
        self._notes: dict[str, str] = {}
        self._edges: list[datetime | None] = []  # when the next turn must happen at the latest

    def turn(self, now: datetime) -> timedelta:
        """One pass; returns after how long the next one must happen, at most the sweep."""
        self._edges = [now + self._config.sweep]
        window, doubt = self._window_now(now), self._ports.doubt()
        self._note(now, _DOUBT, doubt and f"nothing is opened or lowered: {doubt}")
        opens = window.decision.max_unavailable == OPEN
        wanted = BudgetDecision(CLOSED, Reason.DOUBT) if doubt and opens else window.decision
        cluster = self._ports.cluster.observe()
        if isinstance(cluster, Unknown):
            self._note(now, _CLUSTER, f"cluster unknown, holding: {cluster.why}")
            budgets = [self._close_unseen(now, policy.name, wanted) for policy in self._config.budgets]
            pools = [pool.blind(cluster) for pool in self._pools.values()]
        else:
            self._note(now, _CLUSTER, "")
            budgets = [self._turn_budget(now, policy.name, wanted, cluster) for policy in self._config.budgets]
            pools = [verdict.report for verdict in self._turn_pools(now, cluster, doubt)]
        self._edges.append(window.until)
        if self._asks:
            self._edges.append(now + RETRY)
        self._ports.journal.turned(
            TurnReport(
                at=now,
                window_open=opens,
                window_reason=window.decision.reason,
                window_until=window.until,
                trouble=tuple(self._notes[about] for about in (_CLUSTER, _DOUBT, _CALENDAR) if self._notes.get(about)),
                pools=tuple(pools),
                budgets=tuple(budgets),
            )
        )
        return max(min(edge for edge in self._edges if edge is not None) - now, _AT_ONCE)

    def stop(self, now: datetime, keep: Set[str] = frozenset()) -> None:
        """On the way out: budgets closed, but those to `keep`; replicas and marks stay. No field is ever released."""
        cluster = self._ports.cluster.observe()
        for name in (policy.name for policy in self._config.budgets if policy.name not in keep):
            known = None if isinstance(cluster, Unknown) else cluster.budgets.get(name)
            shown_open = isinstance(cluster, Unknown) or (known is not None and known.max_unavailable != CLOSED)
            if shown_open or self._last_known.get(name):
                self._set_budget(now, name, BudgetDecision(CLOSED, Reason.STOPPING))

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

    def _turn_budget(self, now: datetime, name: str, wanted: BudgetDecision, cluster: ClusterSeen) -> BudgetReport:
        seen = cluster.budgets.get(name)
        if seen is None:
            note = "not in the cluster"
            self._note(now, f"budget {name}", note)
            return BudgetReport(name=name, max_unavailable=None, wanted=CLOSED, reason=Reason.MISSING, note=note)
        hold = seen.hold if seen.hold is not None and seen.hold.holds_at(now) else None
        if hold is not None:
            self._edges.append(hold.until)
            wanted = BudgetDecision(CLOSED, Reason.HELD) if wanted.max_unavailable == OPEN else wanted
        asked = self._asks.outstanding("budget", name, (seen.version, seen.max_unavailable), now)
        believed = self._last_known[name] = seen.max_unavailable if asked is None else asked.value
        decision = decide_budget(wanted, seen)
        opens = decision.max_unavailable > believed
        # An opening waits until the version to be bound to is seen; a close waits for nothing.
        if decision.max_unavailable != believed and not (opens and asked is not None):
            self._set_budget(now, name, decision, version=seen.version if opens else None, before=seen.version)
        shown, value = seen.max_unavailable, wanted.max_unavailable
        settled = seen.settled and shown == value
        note = self._unsettled_note(now, name, settled=settled) or ("" if hold is None else hold.why)
        self._note(now, f"budget {name}", note)
        return BudgetReport(
            name=name, max_unavailable=shown, wanted=value, reason=decision.reason, settled=settled, note=note
        )

    def _unsettled_note(self, now: datetime, name: str, *, settled: bool) -> str:
        """A flip counts when the budget's status shows it."""
        if settled:
            self._unsettled.pop(name, None)
            return ""
        overdue = self._unsettled.setdefault(name, now) + SETTLES_WITHIN
        if now < overdue:
            self._edges.append(overdue)
            return ""
        return f"its status has not caught up within {SETTLES_WITHIN.seconds} s"

    def _close_unseen(self, now: datetime, name: str, wanted: BudgetDecision) -> BudgetReport:
        """A close needs no reading: what is not known to be closed is closed, once."""
        value, reason = wanted.max_unavailable, wanted.reason
        if value == CLOSED and self._last_known.get(name) != CLOSED:
            self._set_budget(now, name, wanted)
        return BudgetReport(name=name, max_unavailable=None, wanted=value, reason=reason, settled=False)

    def _set_budget(
        self, now: datetime, name: str, decision: BudgetDecision, version: str | None = None, before: str = ""
    ) -> None:
        value = decision.max_unavailable
        action = SetBudget(budget=name, max_unavailable=value, version=version, reason=decision.reason)
        if self._act(now, action) is Outcome.DONE:
            self._last_known[name] = value
            self._asks.record("budget", name, Ask(value=value, before=before, at=now))

    def _turn_pools(self, now: datetime, cluster: ClusterSeen, doubt: str) -> list[PoolVerdict]:
        readings = self._ports.demand.read(tuple(self._pools))
        now = self._ports.clock.now()  # writes to budgets may have taken long; calm windows count from the reading
        missing = Unknown("the demand source gave no reading")
        verdicts: list[PoolVerdict] = []
        for name, pool in self._pools.items():
            verdict = pool.turn(now, cluster.pools.get(name), readings.get(name, missing), self._asks, doubt)
            self._note(now, pool.subject, verdict.report.note)
            for action in verdict.actions:
                pool.took(action, self._act(now, action), now, self._asks)
            self._edges.append(verdict.due)
            verdicts.append(verdict)
        return verdicts

    def _act(self, now: datetime, action: Action) -> Outcome:
        outcome = self._ports.cluster.act(action)
        if outcome not in (Outcome.DONE, Outcome.REFUSED):  # what was refused is tried again at the sweep
            self._edges.append(now + RETRY)
        self._ports.journal.acted(now, action, outcome)
        return outcome

    def _note(self, now: datetime, subject: str, message: str) -> None:
        """Tell a condition when it begins, changes or ends; `message` is empty when there is none."""
        before = self._notes.get(subject, "")
        if message != before:
            self._notes[subject] = message
            self._ports.journal.noted(now, subject, message or f"{NO_LONGER}{before}")
