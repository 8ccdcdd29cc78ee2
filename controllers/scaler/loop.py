"""Observe, decide, act: the one loop, in production and in the simulator.

Level-based: every reconcile derives the wanted state from clock, policy and readings. Memory holds only since-when and
what was written and is not seen yet, so a restart at any instant wants the same and at most lowers later.
"""

from collections.abc import Set
from datetime import datetime, timedelta
from typing import TypeAlias

from controllers.ports import Action, ObservedCluster, Outcome, PoolReport, Ports, ReconcileReport, Unknown
from controllers.reconciling import Expectations, Notes, ReportT, Result
from controllers.scaler.budgets.decision import OPEN, WindowNow, wanted_of, window_at
from controllers.scaler.budgets.reconcile import BudgetReconciler
from controllers.scaler.workers.reconcile import PoolReconciler
from ebbtide.vocabulary.controller_config import ControllerConfig

RETRY = timedelta(seconds=1)  # after a write that was not done, and while one is not seen yet
_MEMO = timedelta(days=1)  # how long a window that never changes is believed
_AT_ONCE = timedelta(milliseconds=1)
_CLUSTER, _DOUBT, _CALENDAR = "cluster", "doubt", "calendar"
_Reconciler: TypeAlias = BudgetReconciler | PoolReconciler


def run(config: ControllerConfig, ports: Ports) -> None:
    """Reconcile until the waker says stop, then close the budgets and leave everything else as it is."""
    loop = Loop(config, ports)
    while ports.waker.wait(loop.reconcile(ports.clock.now())):
        pass
    loop.stop(ports.clock.now())


class Loop:
    """One reconcile at a time. Holds no decision, only what reconciles must remember."""

    def __init__(self, config: ControllerConfig, ports: Ports) -> None:
        self._config = config
        self._ports = ports
        self._expectations = Expectations[int]()
        self._budgets = [BudgetReconciler(it.name, self._expectations, always=it.always) for it in config.budgets]
        self._pools = {policy.name: PoolReconciler(policy, config, self._expectations) for policy in config.pools}
        self._window: tuple[datetime, WindowNow] | None = None
        self._notes = Notes(ports.journal.noted)
        self._edges: list[datetime | None] = []  # when the next reconcile must happen at the latest

    def reconcile(self, now: datetime) -> timedelta:
        """All objects once; returns after how long the next one must happen, at most the resync."""
        self._edges = [now + self._config.resync]
        window, doubt = self._window_now(now), self._ports.doubt()
        self._notes.note(now, _DOUBT, doubt and f"nothing is opened or lowered: {doubt}")
        opens = window.decision.max_unavailable == OPEN
        wanted = [(it, wanted_of(window.decision, doubt, always=it.always)) for it in self._budgets]
        cluster = self._ports.cluster.observe()
        if isinstance(cluster, Unknown):
            self._notes.note(now, _CLUSTER, f"cluster unknown, holding: {cluster.why}")
            budgets = [self._carry_out(now, it, it.reconcile_unobserved(want)) for it, want in wanted]
            pools = [pool.undecided(cluster) for pool in self._pools.values()]
        else:
            self._notes.note(now, _CLUSTER, "")
            seen = cluster.budgets
            budgets = [self._carry_out(now, it, it.reconcile(now, seen.get(it.name), want)) for it, want in wanted]
            pools = self._reconcile_pools(cluster, doubt)
        self._edges.append(window.until)
        if self._expectations:
            self._edges.append(now + RETRY)
        self._ports.journal.reconciled(
            ReconcileReport(
                at=now,
                window_open=opens,
                window_reason=window.decision.reason,
                window_until=window.until,
                trouble=tuple(filter(None, map(self._notes.condition, (_CLUSTER, _DOUBT, _CALENDAR)))),
                pools=tuple(pools),
                budgets=tuple(budgets),
            )
        )
        return max(min(edge for edge in self._edges if edge is not None) - now, _AT_ONCE)

    def stop(self, now: datetime, keep: Set[str] = frozenset()) -> None:
        """On the way out: budgets closed, but those to `keep`; replicas and marks stay. No field is ever released."""
        cluster = self._ports.cluster.observe()
        for budget in self._budgets:
            if budget.name not in keep:
                self._carry_out(now, budget, budget.stop(cluster))

    def _window_now(self, now: datetime) -> WindowNow:
        if self._window is not None:
            since, window = self._window
            if since <= now < (window.until or since + _MEMO):
                return window
        window = window_at(now, self._config.window)
        self._window = (now, window)
        known = self._config.hours.knows_holidays_at(now)
        self._notes.note(now, _CALENDAR, "" if known else "the holiday list has ended: every day counts as ordinary")
        return window

    def _reconcile_pools(self, cluster: ObservedCluster, doubt: str) -> list[PoolReport]:
        readings = self._ports.demand.read(tuple(self._pools))
        now = self._ports.clock.now()  # writes to budgets may take long; stabilization windows count from the reading
        missing = Unknown("the demand source gave no reading")
        reports: list[PoolReport] = []
        for name, pool in self._pools.items():
            result = pool.reconcile(now, cluster.pools.get(name), readings.get(name, missing), doubt)
            reports.append(self._carry_out(now, pool, result))
        return reports

    def _carry_out(self, now: datetime, reconciler: _Reconciler, result: Result[ReportT]) -> ReportT:
        if result.noted:
            self._notes.note(now, reconciler.subject, result.report.note)
        for action in result.actions:
            reconciler.record_outcome(action, self._act(now, action), now)
        self._edges.append(result.due)
        return result.report

    def _act(self, now: datetime, action: Action) -> Outcome:
        outcome = self._ports.cluster.act(action)
        if outcome not in (Outcome.DONE, Outcome.REFUSED):  # what was refused is tried again at the resync
            self._edges.append(now + RETRY)
        self._ports.journal.acted(now, action, outcome)
        return outcome
