"""Observe, decide, act: the one loop, in production and in the simulator.

The loop is level-based: every reconcile derives the target state from clock, policy and readings. Its memory contains
only start times and writes that no cache shows yet, so after a restart it decides the same and at most scales down
later.
"""

from collections.abc import Set
from datetime import datetime, timedelta
from typing import TypeAlias

from controllers.doubt import Doubt
from controllers.ports import Action, ObservedCluster, Outcome, PoolReport, Ports, ReconcileReport, Unknown
from controllers.reconciling import Expectations, Notes, ReportT, Result
from controllers.scaler.budgets import OPEN, BudgetReconciler, WindowNow, closed_by_any, target_of, window_at
from controllers.scaler.workers.reconcile import PoolReconciler
from ebbtide.vocabulary.controller_config import ControllerConfig

RETRY = timedelta(seconds=1)  # after a failed write, and while no cache shows a write
_MEMO = timedelta(days=1)  # after which a window that never changes is computed again
_AT_ONCE = timedelta(milliseconds=1)
_CLUSTER, _TEAMS, _DOUBT, _CALENDAR = "cluster", "adopted namespaces", "doubt", "calendar"
_Reconciler: TypeAlias = BudgetReconciler | PoolReconciler


def run(config: ControllerConfig, ports: Ports) -> None:
    """Reconcile until the waker returns False, then close the budgets and change nothing else."""
    loop = Loop(config, ports)
    while ports.waker.wait(loop.reconcile(ports.clock.now())):
        pass
    loop.stop(ports.clock.now())


class Loop:
    """Runs one reconcile at a time. It stores no decision, only the memory of reconciles."""

    def __init__(self, config: ControllerConfig, ports: Ports) -> None:
        self._config = config
        self._ports = ports
        self._expectations = Expectations[int]()
        self._budgets = [
            BudgetReconciler(policy.name, self._expectations, always=policy.always) for policy in config.budgets
        ]
        self._pools = {policy.name: PoolReconciler(policy, config, self._expectations) for policy in config.pools}
        self._window: tuple[datetime, WindowNow] | None = None
        self._notes = Notes(ports.journal.noted)
        self._edges: list[datetime | None] = []  # latest instants of the next reconcile

    def reconcile(self, now: datetime) -> timedelta:
        """Reconcile every object once; return the longest pause until the next reconcile, at most the resync."""
        self._edges = [now + self._config.resync]
        doubt = self._ports.doubt()
        ours = self._window_now(now)
        window = closed_by_any(ours, now, self._config.window, doubt)
        self._notes.note(now, _DOUBT, f"nothing is opened or lowered: {doubt.why}" if doubt else "")
        opens = window.decision.max_unavailable == OPEN
        targets = [(budget, target_of(window.decision, doubt, always=budget.always)) for budget in self._budgets]
        cluster = self._ports.cluster.observe()
        if isinstance(cluster, Unknown):
            self._notes.note(now, _CLUSTER, f"cluster unknown, holding: {cluster.why}")
            budgets = [self._carry_out(now, budget, budget.reconcile_unobserved(target)) for budget, target in targets]
            pools = [pool.undecided(cluster) for pool in self._pools.values()]
        else:
            self._notes.note(now, _CLUSTER, "")
            troubles = ", ".join(sorted({*cluster.unknown.values()}))
            self._notes.note(now, _TEAMS, troubles and f"holding what cannot be read: {troubles}")
            budgets = [
                self._carry_out(
                    now,
                    budget,
                    budget.reconcile_unobserved(target)
                    if budget.name in cluster.unknown
                    else budget.reconcile(now, cluster.budgets.get(budget.name), target),
                )
                for budget, target in targets
            ]
            pools = self._reconcile_pools(cluster, doubt)
        self._edges.append(ours.until)
        if self._expectations:
            self._edges.append(now + RETRY)
        self._ports.journal.reconciled(
            ReconcileReport(
                at=now,
                window_open=opens,
                window_reason=window.decision.reason,
                window_until=window.until,
                trouble=tuple(filter(None, map(self._notes.condition, (_CLUSTER, _TEAMS, _DOUBT, _CALENDAR)))),
                pools=tuple(pools),
                budgets=tuple(budgets),
            )
        )
        return max(min(edge for edge in self._edges if edge is not None) - now, _AT_ONCE)

    def stop(self, now: datetime, keep: Set[str] = frozenset()) -> None:
        """Close all budgets except `keep`; replicas and marks stay. No field is ever released."""
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
        complete = self._config.hours.knows_holidays_at(now)
        self._notes.note(now, _CALENDAR, "" if complete else "the holiday list has ended: every day counts as ordinary")
        return window

    def _reconcile_pools(self, cluster: ObservedCluster, doubt: Doubt) -> list[PoolReport]:
        readings = self._ports.demand.read(tuple(self._pools))
        now = self._ports.clock.now()  # writes to budgets may take long; stabilization windows start at the reading
        missing = Unknown("the demand source gave no reading")
        reports: list[PoolReport] = []
        for name, pool in self._pools.items():
            if name in cluster.unknown:
                reports.append(pool.undecided(Unknown(cluster.unknown[name])))
                continue
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
        if outcome not in (Outcome.DONE, Outcome.REFUSED):  # a refused write is tried again at the resync
            self._edges.append(now + RETRY)
        self._ports.journal.acted(now, action, outcome)
        return outcome
