"""The product replayed over one trace on both sides of a change: what the change does to node-hours, money and waits.

The same replays as of `ebbtide simulate BEFORE AFTER`, of the product's own strategy alone: both sides get the same
trace, the same seed and the same start.
"""

from ebbtide.advice.comparison import replay_each
from ebbtide.preview.document import Simulated
from ebbtide.prices import NoPrice
from ebbtide.settings import StackSettings
from ebbtide.simulator.results import Replay, Strategy
from ebbtide.simulator.setup import ReplayError, ReplayOptions
from ebbtide.simulator.trace.traces import Trace

_PRODUCT = Strategy.FIXED_FLEXIBLE
DAYS = 7
"""Of a longer trace: a week shows what working days and the weekend do, and takes a part of the time."""


class Unreplayable(ValueError):
    """The trace cannot be played on this stack; the message is one line."""


def simulated(before: StackSettings | None, after: StackSettings, trace: Trace, days: int = DAYS) -> Simulated:
    """Raises: `Unreplayable`, when the side after the change cannot be replayed; one before it may miss."""
    options = ReplayOptions(strategies=(_PRODUCT,), days=min(days, trace.days))
    replays, note = _replays(before, after, trace, options)
    sides = [replay.strategies[_PRODUCT] for replay in replays]
    new, old = sides[-1], sides[0] if len(sides) > 1 else None
    return Simulated(
        trace=trace.name,
        node_hours=(None if old is None else old.node_hours, new.node_hours),
        usd=(None if old is None else old.usd, new.usd),
        p95_wait=(None if old is None else old.wait_p95_s, new.wait_p95_s),
        days=replays[-1].days,
        trace_days=trace.days,
        interrupted=(None if old is None else old.jobs_interrupted, new.jobs_interrupted),
        unfinished=(None if old is None else old.jobs_unfinished, new.jobs_unfinished),
        coverage=(None if old is None else replays[0].coverage.jobs, replays[-1].coverage.jobs),
        note=note,
    )


def _replays(
    before: StackSettings | None, after: StackSettings, trace: Trace, options: ReplayOptions
) -> tuple[list[Replay], str]:
    """Those of both sides, or that of the later one and why there is no other."""
    note = ""
    if before is not None:
        try:
            return replay_each((before, after), trace, options), ""
        except (ReplayError, NoPrice) as error:
            note = f"not replayed before the change: {error}"  # holds where the side after it can be replayed
    try:
        return replay_each((after,), trace, options), note
    except (ReplayError, NoPrice) as error:
        raise Unreplayable(str(error)) from None
