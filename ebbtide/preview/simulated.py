"""The product replayed over one trace on both sides of a change: what the change does to node-hours, money and waits.

The same replay as `ebbtide simulate`, of the product's own strategy alone; both sides get the same trace and seed.
"""

from ebbtide.preview.document import Simulated
from ebbtide.prices import NoPrice
from ebbtide.settings import StackSettings
from ebbtide.simulator.replay import replay
from ebbtide.simulator.results import StrategyResult
from ebbtide.simulator.scene import ReplayError, ReplayOptions
from ebbtide.simulator.strategies import Strategy
from ebbtide.simulator.traces import Trace

_OPTIONS = ReplayOptions(strategies=(Strategy.FIXED_FLEXIBLE,))


class Unreplayable(ValueError):
    """The trace cannot be played on this stack; the message is one line."""


def simulated(before: StackSettings | None, after: StackSettings, trace: Trace) -> Simulated:
    """Raises: `Unreplayable`, when the side after the change cannot be replayed; one before it may miss."""
    try:
        new, days = _played(after, trace)
    except (ReplayError, NoPrice) as error:
        raise Unreplayable(str(error)) from None
    try:
        old = None if before is None else _played(before, trace)[0]
    except (ReplayError, NoPrice):
        old = None
    return Simulated(
        trace=trace.name,
        node_hours=(None if old is None else old.node_hours, new.node_hours),
        usd=(None if old is None else old.usd, new.usd),
        p95_wait=(None if old is None else old.wait_p95_s, new.wait_p95_s),
        days=days,
    )


def _played(settings: StackSettings, trace: Trace) -> tuple[StrategyResult, int]:
    found = replay(settings, trace, _OPTIONS)
    return found.strategies[Strategy.FIXED_FLEXIBLE], found.days
