"""Observation and writes of NodePools: server-side apply of `spec.disruption.budgets`.

The list is atomic, so one manager owns all of it. An apply is forced only over the CRD's default. When the process
stops, the value stays: the closer closes NodePools before business hours, and the scaler owns the pods' budgets.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from controllers.adapters.journal import ObjectReference
from controllers.adapters.kube_api import KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.adapters.kube_cluster import as_maximum
from controllers.adapters.kube_objects import Stored, budget
from controllers.doubt import TRUST, Doubt
from controllers.ports import ObservedBudget, Outcome
from controllers.reconciling import Expectation, Expectations
from controllers.workloads.loop import Kind, Notify, ReconcileResult, Write
from controllers.workloads.nodes.budgets import (
    PATH,
    NodeBudgetReason,
    NodePoolDecision,
    ObservedNodePool,
    WindowState,
    applied,
    conflict,
    decide,
    observed,
    obstacle,
)
from ebbtide.vocabulary.node_pools import API, Budgets, budgets_for
from ebbtide.vocabulary.workloads import NodePoolPolicy, WorkloadsConfig

POLL = timedelta(seconds=10)
_OPENS_WITHIN = timedelta(minutes=2)  # pods' budgets take seconds; after this time a condition names the budget

BudgetCaches: TypeAlias = Mapping[str, KubeCache[Stored[ObservedBudget]]]


def node_pools(api: KubeApi, config: WorkloadsConfig, notify: Notify) -> Kind:
    cache = KubeCache(api, PATH, observed, notify)
    spaces = {policy.namespace for policy in config.budgets}
    budgets = {
        ns: KubeCache(api, f"/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", budget, notify) for ns in spaces
    }
    workloads = [NodePool(policy, config, cache, budgets) for policy in config.node_pools]
    return Kind(workloads, [cache] if workloads else [], [*budgets.values()])


class NodePool:
    """A `ManagedWorkload`. Its memory may be lost without harm, except that it has taken over the CRD's default."""

    def __init__(
        self,
        policy: NodePoolPolicy,
        config: WorkloadsConfig,
        cache: KubeCache[ObservedNodePool],
        budgets: BudgetCaches,
    ) -> None:
        self._policy, self._config, self._cache, self._pod_budgets = policy, config, cache, budgets
        self._window = config.drain_window
        self.subject = f"nodepool {policy.name}"
        self.target: ObjectReference = (API, "NodePool", "", policy.name)
        self._expectations = Expectations[Budgets]()
        self._opened = self._taken = False
        self._refusal = ""
        self._waiting_since: datetime | None = None
        self._now = datetime.min.replace(tzinfo=UTC)

    def reconcile(self, now: datetime, doubt: Doubt) -> ReconcileResult:
        self._now = now
        seen = self._cache.snapshot().get(self._policy.name)
        why = self._cache.trouble()
        if why or seen is None:
            return self._unseen(why, doubt)
        self._opened = seen.budgets == budgets_for(self._policy.drains)
        hold = seen.hold if seen.hold is not None and seen.hold.holds_at(now) else None
        state = self._state(doubt)
        decision = decide(state, hold, self._policy.drains)
        note = self._waiting(state.waits_for) if decision.reason is NodeBudgetReason.PODS else self._waiting("")
        if doubt and decision.drains != decide(self._state(TRUST), hold, self._policy.drains).drains:
            note = doubt.why
        if decision.drains is None or seen.budgets == budgets_for(decision.drains):
            return self._verdict(self._shown, decision.reason, note=note)
        if seen.owners and not (seen.is_default and not self._taken):
            return self._verdict("held", "another-manager", note=conflict(seen))
        write = self._write(decision, seen)
        unseen = self._expectations.outstanding("nodepool", self.subject, (seen.version, seen.budgets), now)
        refused = f"the write of {write.change} was refused: {self._refusal}" if self._refusal else note
        return self._verdict(self._shown, decision.reason, note=refused, write=None if unseen else write)

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:
        self._refusal = error if outcome is Outcome.REFUSED else ""
        if outcome is Outcome.DONE:
            value: Budgets = write.body["spec"]["disruption"]["budgets"]
            self._opened = value == budgets_for(self._policy.drains)
            self._taken = self._taken or write.forced
            if "resourceVersion" in write.body["metadata"]:
                written = Expectation(value=value, before=write.version, at=self._now)
                self._expectations.record("nodepool", self.subject, written)
        elif outcome is Outcome.STALE:
            self._cache.reconnect()

    @property
    def _shown(self) -> str:
        return "open" if self._opened else "closed"

    def _unseen(self, why: str, doubt: Doubt) -> ReconcileResult:
        """Close a NodePool that was open when it was last observed: a close needs no reading."""
        if not why:
            return self._verdict("absent", "no-such-nodepool", note="it does not exist")
        closes = self._opened and (bool(doubt) or not self._window.is_open(self._now))
        state = self._state(doubt or Doubt(why))
        write = self._write(decide(state, None, self._policy.drains), None) if closes else None
        return self._verdict("unknown", "nodepools-unknown", note=f"holding: {why}", write=write)

    def _state(self, doubt: Doubt) -> WindowState:
        clocks = doubt.instants(self._now)
        return WindowState(
            open=all(map(self._window.is_open, clocks)),
            hours_open=any(map(self._config.hours.is_open, clocks)),
            waits_for=next(filter(None, self._obstacles()), ""),
            doubt=doubt.why,
        )

    def _obstacles(self) -> Iterator[str]:
        for policy in self._config.budgets:
            cache = self._pod_budgets[policy.namespace]
            stored = cache.snapshot().get(policy.pdb)
            budget = None if stored is None else as_maximum(stored.seen, policy)
            why = cache.trouble() or obstacle(budget, self._now, opened=self._opened)
            if why:
                yield f"budget {policy.namespace}/{policy.pdb}: {why}"

    def _waiting(self, waits_for: str) -> str:
        """Return a note if the pods' budgets are overdue."""
        if not waits_for:
            self._waiting_since = None
            return ""
        self._waiting_since = self._waiting_since or self._now
        late = self._now - self._waiting_since >= _OPENS_WITHIN
        return f"closed in the window, until the pods' budgets are open; {waits_for}" if late else ""

    def _write(self, decision: NodePoolDecision, seen: ObservedNodePool | None) -> Write:
        drains = decision.drains or 0
        return Write(
            path=f"{PATH}/{self._policy.name}",
            body=applied(self._policy.name, drains, seen and seen.version),
            change=f"disruption budget {drains}",
            reason=decision.reason,
            applied=True,
            forced=seen is not None and bool(seen.owners),
        )

    def _verdict(self, state: str, why: str, *, note: str = "", write: Write | None = None) -> ReconcileResult:
        change = self._window.next_change(self._now)
        report = {
            "kind": "NodePool",
            "namespace": "",
            "name": self._policy.name,
            "state": state,
            "why": why,
            "note": note,
            "until": change,
        }
        due = self._now + POLL
        return ReconcileResult(report=report, due=due if change is None else min(due, change), write=write, note=note)
