"""The passes of Karpenter's disruption loop.

The real one looks every 10 s, and at once after a pass that acted. Before it acts it waits 15 s, during which it looks
at nothing else. Here a pass runs only after a change or when a timer may have ended, at a time at which the real one
would run.

Source: kubernetes-sigs/karpenter 1.14.1, controllers/disruption/controller.go.
"""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ebbtide.lab.simulator.cluster.autoscaler.reach import Reach
from ebbtide.lab.simulator.cluster.autoscaler.retention import RetainedNode
from ebbtide.lab.simulator.cluster.karpenter.consolidation import Command, Consolidation
from ebbtide.lab.simulator.cluster.karpenter.fleet import Fleet
from ebbtide.lab.simulator.cluster.karpenter.model import DisruptionBudget, DisruptionReason, NodePoolModel
from ebbtide.lab.simulator.cluster.karpenter.provisioner import KarpenterProvisioner
from ebbtide.lab.simulator.cluster.karpenter.removal import Removals
from ebbtide.lab.simulator.cluster.model import Eviction
from ebbtide.lab.simulator.cluster.state import ClusterState, Node
from ebbtide.lab.simulator.timeline import Handle, Timeline

PERIOD_S = 10.0
PASS_TAKES_S = 0.05  # from logs of recorded runs
VALIDATION_S = 15.0
AFTER_THE_PROVISIONER = 4


@dataclass(frozen=True, slots=True)
class Disruption:
    """A command that was carried out. Groups of nodes are named POOL/TYPE."""

    at: float
    reason: DisruptionReason
    removed: tuple[str, ...]
    added: str | None


class ModelledKarpenter:
    def __init__(
        self,
        timeline: Timeline,
        state: ClusterState,
        reach: Reach,
        pools: Iterable[NodePoolModel],
        rng: random.Random,
        *,
        first_pass_s: float | None = None,
    ) -> None:
        """`first_pass_s`: the first pass of the loop; random by default."""
        self._timeline = timeline
        self._fleet = Fleet(timeline, state, {pool.name: pool for pool in pools}, rng)
        self._provisioner = KarpenterProvisioner(timeline, state, reach, self._fleet, rng)
        self._consolidation = Consolidation(timeline, state, reach.placement, self._fleet)
        self._removals = Removals(timeline, state, reach, self._fleet, rng)
        self._state = state
        first = rng.uniform(0.0, PERIOD_S) if first_pass_s is None else first_pass_s
        self._free_from = first - PERIOD_S - PASS_TAKES_S  # the end of the last pass
        self._validating = False
        self._changed = False  # since the pass began
        self._next: Handle | None = None
        self.commands: list[Disruption] = []

    @property
    def evictions(self) -> list[Eviction]:
        return self._removals.evictions

    def is_draining(self, node: Node) -> bool:
        """True once the node is being deleted; before, it may wait for its replacement."""
        return node.name in self._removals.draining

    def retained_seconds(self) -> dict[RetainedNode, float]:
        return self._consolidation.retention.seconds(self._timeline.now)

    def set_budgets(self, pool: str, budgets: tuple[DisruptionBudget, ...]) -> None:
        self._fleet.set_budgets(pool, budgets)
        self.state_changed()

    def pod_unschedulable(self) -> None:
        self._provisioner.trigger()

    def pod_refused_again(self) -> None:
        self._provisioner.trigger_again()

    def state_changed(self) -> None:
        self._fleet.observe()
        self._changed = True
        self._pass_at(self._timeline.now)

    def _pass_at(self, t: float) -> None:
        """Plan a pass at `t`, or the first one after it."""
        if self._validating:
            return
        period = PERIOD_S + PASS_TAKES_S
        periods = max(1, math.ceil((t - self._free_from) / period - 1e-9))
        self._plan(self._free_from + periods * period)

    def _plan(self, at: float) -> None:
        at = max(at, self._timeline.now)
        if self._next is not None:
            if self._next.at <= at:
                return
            self._timeline.cancel(self._next)
        self._next = self._timeline.at(at, self._pass, AFTER_THE_PROVISIONER)

    def _pass(self) -> None:
        self._next = None
        self._validating, self._changed = True, False
        self._try(0)

    def _try(self, first: int) -> None:
        """Try the methods in order; the first one that finds something waits, and looks again."""
        for number in range(first, len(self._consolidation.methods)):
            command = self._consolidation.methods[number]()
            if command is not None:
                self._timeline.after(VALIDATION_S, self._confirmer(number, command), AFTER_THE_PROVISIONER)
                return
        self._end()
        if self._changed:
            self._pass_at(self._timeline.now)
        timers = [self._consolidation.next_candidate_at()]
        if self._consolidation.rests_in_vain:
            timers.append(self._fleet.rests_until)
        for timer in timers:
            if timer is not None:
                self._pass_at(timer)

    def _confirmer(self, number: int, command: Command) -> Callable[[], None]:
        return lambda: self._confirm(number, command)

    def _confirm(self, number: int, command: Command) -> None:
        confirmed = self._consolidation.confirmed(command)
        if confirmed is None:
            self._try(number + 1)
            return
        claim = confirmed.replacement
        added = None if claim is None else claim.cheapest.shape.name
        removed = tuple(node.group for node in confirmed.nodes)
        self.commands.append(Disruption(self._timeline.now, confirmed.reason, removed, added))
        self._removals.begin(confirmed)
        self._provisioner.trigger()  # the taint begins a batch, as a new pod does
        self._end()
        self._plan(self._timeline.now + PASS_TAKES_S)

    def _end(self) -> None:
        self._validating = False
        self._free_from = self._timeline.now
        self._consolidation.retention.forget_gone(self._state.nodes, self._timeline.now)
