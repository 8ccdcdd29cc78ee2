"""Replay a stack with each of its cheaper places, and keep those that cost less with equal waits.

Packing proposes (`ebbtide.preview.cost.alternatives`); a replay decides, since only it knows how long pods run.
"""

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.lab.report.pages.sentences import waits_longer
from ebbtide.lab.simulator.replay import ReplayOptions
from ebbtide.lab.simulator.results import Replay, Strategy, StrategyResult
from ebbtide.lab.simulator.setup import replay_setup_of
from ebbtide.lab.simulator.strategies.run import Progress
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.preview.cost.alternatives import MOST, WORTH_SAYING, Alternative, cheaper_places
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import percent
from ebbtide.text.money import dollars

_STRATEGY = Strategy.FIXED_FLEXIBLE


def cheaper_in_replay(
    settings: StackSettings,
    trace: Trace,
    options: ReplayOptions,
    replay: Replay,
    progress: Progress = lambda _strategy, _share: None,
) -> Iterator[str]:
    """Yield a sentence for each cheaper place, with the line to write. `replay` is that of the stack with `options`.

    Nothing is compared if it has no result of the product, or states no saving.
    """
    result = replay.strategies.get(_STRATEGY)
    if result is None or not result.usd or not replay.states_saving:
        return
    same = replace(options, start=replay.start, failures=Failures(**replay.failures), strategies=(_STRATEGY,))
    for alternative in cheaper_places(settings, replay.start.year)[:MOST]:
        other = StrategyResults(replay_setup_of(alternative.settings, trace, same), progress).of(_STRATEGY)
        if (
            other.usd is not None
            and other.usd <= (1 - WORTH_SAYING) * result.usd
            and waits_are_no_longer(result, other)
        ):
            yield _sentence(alternative, result.usd, other.usd)


def waits_are_no_longer(before: StrategyResult, after: StrategyResult) -> bool:
    """True if no pool waits longer or has more unfinished jobs, and no more jobs are interrupted."""
    if after.jobs_interrupted > before.jobs_interrupted or before.pools.keys() != after.pools.keys():
        return False
    pairs = [(before.pools[name], after.pools[name]) for name in before.pools]
    return all(
        new.jobs_unfinished <= old.jobs_unfinished and not waits_longer(new.wait_p95_s, old.wait_p95_s)
        for old, new in pairs
    )


def _sentence(alternative: Alternative, usd: float, cheaper_usd: float) -> str:
    return (
        f"cheaper: {alternative.written}: {_STRATEGY} costs {dollars(cheaper_usd)} instead of {dollars(usd)} "
        f"({percent(1 - cheaper_usd / usd)} less) with equal waits"
    )
