"""What happened between one look and the next, in words, and what it adds up to. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from control_plane.playground.evening import Phase, phase_at
from control_plane.playground.seen import NodeState, PoolSeen, Seen
from ebbtide.prices import GroupRate
from ebbtide.vocabulary.controller_config import ControllerConfig

_PHASES = {
    Phase.BUSINESS: "business hours begin",
    Phase.NIGHT: "closing time: the night begins",
    Phase.GUARD: "the closing guard begins: what was moved must be back by the opening",
}


@dataclass(frozen=True, slots=True)
class Happening:
    at: datetime
    text: str


@dataclass(slots=True)
class Totals:
    """Over the whole show, in the customer's time."""

    node_hours: dict[str, float] = field(default_factory=dict[str, float])
    dollars: float = 0.0
    hours: float = 0.0
    most: int = 0  # nodes
    least: int | None = None
    peak_usd: float = 0.0  # an hour
    window: int = 0  # evictions while budgets may be open
    outside: int = 0  # evictions at any other time
    unsafe: int = 0  # evictions of what is never moved


class Story:
    """Told of each look in turn."""

    def __init__(
        self, config: ControllerConfig, rates: Mapping[str, GroupRate], tell: Callable[[Happening], None]
    ) -> None:
        self._config, self._rates, self._tell = config, rates, tell
        self._last: Seen | None = None
        self._joined: Mapping[str, datetime] = {}
        self.totals = Totals()
        self.happenings: list[Happening] = []

    def note(self, at: datetime, text: str) -> None:
        self.happenings.append(Happening(at, text))
        self._tell(self.happenings[-1])

    def usd_per_hour(self, seen: Seen) -> float:
        return sum(rate.usd_per_hour(_count(seen, group)) for group, rate in self._rates.items())

    def observe(self, seen: Seen) -> None:
        last, self._last = self._last, seen
        self._add_up(last, seen)
        if last is not None:
            for text in changes(self._config, last, seen, self._joined):
                self.note(seen.at, text)
        self._joined = {node.name: self._joined.get(node.name, seen.at) for node in seen.nodes}

    def _add_up(self, last: Seen | None, seen: Seen) -> None:
        totals, usd = self.totals, self.usd_per_hour(seen)
        totals.most = max(totals.most, len(seen.nodes))
        totals.least = min(len(seen.nodes) if totals.least is None else totals.least, len(seen.nodes))
        totals.peak_usd = max(totals.peak_usd, usd)
        if last is not None:
            hours = (seen.at - last.at).total_seconds() / 3600
            totals.hours += hours
            totals.dollars += hours * usd
            for group in self._rates:
                totals.node_hours[group] = totals.node_hours.get(group, 0.0) + hours * _count(seen, group)
        in_window = [self._config.window.is_open(moved.at) for moved in seen.moved]
        totals.window, totals.outside = in_window.count(True), in_window.count(False)
        totals.unsafe = sum(moved.category != "flexible" for moved in seen.moved)


def _count(seen: Seen, group: str) -> int:
    return sum(node.group == group for node in seen.nodes)


def changes(config: ControllerConfig, last: Seen, seen: Seen, joined: Mapping[str, datetime]) -> Iterator[str]:
    """In the order in which one leads to the other: the clock, budgets, workers, nodes.

    `joined`: since when each node has been there, for a node's name may have been another's.
    """
    if (phase := phase_at(config, seen.at)) is not phase_at(config, last.at):
        yield _PHASES[phase]
    yield from _budgets(last.budgets, seen.budgets)
    yield from _pools(last.pools, seen.pools)
    yield from _nodes(last, seen, joined)


def _budgets(last: Mapping[str, bool], seen: Mapping[str, bool]) -> Iterator[str]:
    for now, word in ((True, "open"), (False, "closed")):
        changed = [name for name, is_open in seen.items() if is_open is now and last.get(name, False) is not now]
        if changed:
            yield f"budgets of {counted(len(changed), 'flexible workload')} {word}"


def _pools(last: tuple[PoolSeen, ...], seen: tuple[PoolSeen, ...]) -> Iterator[str]:
    before = {pool.name: pool.workers for pool in last}
    for pool in seen:
        was = before.get(pool.name, pool.workers)
        if was != pool.workers:
            yield f"{pool.name}: {was} → {counted(pool.workers, 'worker')}, {_demand(pool)}"


def _demand(pool: PoolSeen) -> str:
    parts = [f"{pool.waiting} waiting"] if pool.waiting else []
    parts += [f"{pool.running} running"] if pool.running else []
    return ", ".join(parts) or "no job left"


def _nodes(last: Seen, seen: Seen, joined: Mapping[str, datetime]) -> Iterator[str]:
    before = {node.name: node for node in last.nodes}
    now = {node.name: node for node in seen.nodes}
    for name, node in now.items():
        if name not in before:
            yield f"{name} joins"
        elif node.state is NodeState.LEAVING and before[name].state is not NodeState.LEAVING:
            if node.pods:
                yield f"{name} is being drained"
        elif node.state is not NodeState.LEAVING and before[name].state is NodeState.LEAVING:
            yield f"{name} stays after all: not every pod could be moved"
    for name in before:
        if name not in now:
            since = joined.get(name)
            yield _gone(name, sum(it.node == name and since is not None and it.at >= since for it in seen.moved))


def _gone(name: str, moved: int) -> str:
    return f"{name} is drained and gone: {counted(moved, 'pod')} moved" if moved else f"{name} is gone: it was empty"


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def summary(totals: Totals, seen: Seen, waited: str) -> list[str]:
    """A few sentences for the end. `waited` is how long it took here."""
    hours = ", ".join(f"{group} {spent:.1f}" for group, spent in totals.node_hours.items())
    steady = totals.peak_usd * totals.hours
    lines = [
        f"{totals.hours:.1f} hours of the customer's in {waited}:",
        f"  nodes      {totals.most} at the peak, {totals.least or 0} at the lowest, {len(seen.nodes)} at the end",
        f"  node-hours {hours or 'none'}",
        f"  evictions  {totals.window} in the window, {totals.outside} outside it",
        f"  jobs       {seen.jobs.done} done, {seen.jobs.interrupted} interrupted",
    ]
    if totals.unsafe:
        lines.append(f"  {counted(totals.unsafe, 'pod')} moved that are never to be moved")
    if steady:
        less = 1 - totals.dollars / steady
        lines.append(f"  dollars    {totals.dollars:.2f}, {less:.0%} less than with the peak's nodes all the time")
    return lines
