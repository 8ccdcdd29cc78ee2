"""What seeded bugs change at the controller's edges; without one, nothing."""

from collections.abc import Callable
from dataclasses import dataclass

from controllers.ports import Action, ObservedPool, PoolName, Reading, Scale


@dataclass(slots=True, kw_only=True)
class Habits:
    reading: Callable[[PoolName, Reading], Reading] = lambda _pool, reading: reading
    pool: Callable[[ObservedPool], ObservedPool] = lambda seen: seen
    action: Callable[[Action], Action] = lambda action: action
    forgets: Callable[[Action], bool] = lambda _action: False  # answers "done" and sends nothing
    lists_again: bool = True  # the pods, before a lowering: a watch may be silent
    doubts: bool = True
    replays: bool = False
    last_lowering: Scale | None = None  # carried from one incarnation to the next, for the replay
