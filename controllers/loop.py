"""Observe, decide, act: the one loop, in production and in the simulator.

Level-based: every turn derives the wanted state from clock, policy and readings. Memory holds only since-when and what
was asked and not yet seen, so a restart at any instant wants the same and at most lowers later.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from controllers.asked import Ask, Asks
from controllers.budgets.decision import CLOSED, BudgetDecision, Reason, WindowNow, decide_budget, window_at
from controllers.pool_turn import PoolTurn
from controllers.ports import Action, BudgetName, BudgetSeen, ClusterSeen, Outcome, Ports, SetBudget, Unknown
from ebbtide.vocabulary.controller_config import ControllerConfig

RETRY = timedelta(seconds=1)  # after a refused or failed write, and while one is not seen yet
_MEMO = timedelta(days=1)  # how long a window that never changes is believed
_AT_ONCE = timedelta(milliseconds=1)
_CLUSTER, _CALENDAR = "cluster", "calendar"


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
        self._notes: dict[str, str] = {}
        self._failed = False

    def turn(self, now: datetime) -> timedelta:
        """One pass; returns after how long the next one must happen, at most the sweep."""
        self._failed = False
        window = self._window_now(now)
        cluster = self._ports.cluster.observe()
        due = now + self._config.sweep
        if isinstance(cluster, Unknown):
            self._note(now, _CLUSTER, f"cluster unknown, holding: {cluster.why}")
            self._close_unseen(now, window)
            for pool in self._pools.values():
                pool.forget()
        else:
            self._note(now, _CLUSTER, "")
            self._turn_budgets(now, window, cluster.budgets)
            due = min(due, self._turn_pools(now, cluster))
        if window.until is not None:
            due = min(due, window.until)
        if self._failed or self._asks:
            due = min(due, now + RETRY)
        return max(due - now, _AT_ONCE)

    def stop(self, now: datetime) -> None:
        """On the way out: budgets closed, replicas and marks left as they are. No field is ever released."""
        cluster = self._ports.cluster.observe()
        seen: Mapping[BudgetName, BudgetSeen] = {} if isinstance(cluster, Unknown) else cluster.budgets
        for policy in self._config.budgets:
            asked = self._last_known.get(policy.name)
            known = seen.get(policy.name)
            if isinstance(cluster, Unknown) or asked or (known is not None and known.max_unavailable != CLOSED):
                self._set_budget(now, policy.name, BudgetDecision(CLOSED, Reason.STOPPING), version=None)

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

    def _turn_budgets(self, now: datetime, window: WindowNow, budgets: Mapping[BudgetName, BudgetSeen]) -> None:
        for policy in self._config.budgets:
            subject = f"budget {policy.name}"
            seen = budgets.get(policy.name)
            if seen is None:
                self._note(now, subject, "not in the cluster")
                continue
            asked = self._asks.outstanding("budget", policy.name, (seen.version, seen.max_unavailable), now)
            believed = seen.max_unavailable if asked is None else asked.value
            self._last_known[policy.name] = believed
            decision = decide_budget(window.decision, seen)
            self._note(now, subject, decision.reason if decision.reason is Reason.UNSETTLED else "")
            opens = decision.max_unavailable > believed
            if decision.max_unavailable == believed or (opens and asked is not None):
                continue  # nothing to do, or the version to open on is not seen yet
            version = seen.version if opens else None
            self._set_budget(now, policy.name, decision, version, before=seen.version)

    def _close_unseen(self, now: datetime, window: WindowNow) -> None:
        """A close needs no reading: what is not known to be closed is closed, once."""
        if window.decision.max_unavailable == CLOSED:
            for policy in self._config.budgets:
                if self._last_known.get(policy.name) != CLOSED:
                    self._set_budget(now, policy.name, window.decision, version=None)

    def _set_budget(
        self, now: datetime, name: BudgetName, decision: BudgetDecision, version: str | None, before: str = ""
    ) -> None:
        value = decision.max_unavailable
        action = SetBudget(budget=name, max_unavailable=value, version=version, reason=decision.reason)
        if self._act(now, action) is Outcome.DONE:
            self._last_known[name] = value
            self._asks.record("budget", name, Ask(value=value, before=before, at=now))

    # --- pools ----------------------------------------------------------------------------------------------------

    def _turn_pools(self, now: datetime, cluster: ClusterSeen) -> datetime:
        due = now + self._config.sweep
        if not self._names:
            return due
        readings = self._ports.demand.read(self._names)
        missing = Unknown("the demand source gave no reading")
        for name, pool in self._pools.items():
            verdict = pool.turn(now, cluster.pools.get(name), readings.get(name, missing), self._asks)
            self._note(now, f"pool {name}", verdict.note)
            for action in verdict.actions:
                pool.took(action, self._act(now, action), now, self._asks)
            due = min(due, verdict.due)
        return due

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
