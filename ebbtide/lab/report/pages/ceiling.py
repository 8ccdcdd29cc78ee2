"""Sentences on the cost that cannot be saved, and why; each is calculated from the replay.

Between the fixed fleet's bill and zero are two gaps. The cost of the zero-wait bound cannot be saved without making
jobs wait. A better scheduler might save what the strategy pays above the bound.
"""

from collections.abc import Iterator

from ebbtide.lab.report.charts.by_strategy import retained_reasons
from ebbtide.lab.report.charts.palette import BOUND, FLEET, PRODUCT
from ebbtide.lab.report.charts.scales import ChartWindow, amounts_of, stretch_of
from ebbtide.lab.report.pages.sentences import headline, main_strategy, reached_of
from ebbtide.lab.simulator.results import Replay
from ebbtide.text.counts import count, percent
from ebbtide.text.money import dollars

_ROUND = 0.005  # a share of the attainable that differs by less counts as all of it


def ceiling_lines(replay: Replay) -> list[str]:
    name = main_strategy(replay)
    if name is None:
        return []
    return [
        *_attainable(replay, name),
        *_above_the_bound(replay, name),
        *_on_demand(replay, name),
        *_when(replay, name),
        *_retained(replay, name),
    ]


def _attainable(replay: Replay, name: str) -> Iterator[str]:
    ceiling, fleet = replay.attainable, replay.strategies.get(FLEET)
    if not replay.states_saving:
        yield f"{headline(replay)}. No saving is stated."
        return
    if ceiling is None:  # a price is missing
        return
    usd = None if fleet is None else fleet.usd
    bill = "the fixed fleet's dollars" if usd is None else f"the fixed fleet's {dollars(usd)}"
    least = percent(1 - ceiling) if usd is None else dollars(usd * (1 - ceiling))
    yield (
        f"Without queueing at least {least} of {bill} has to be paid, so {percent(ceiling)} is attainable: every job "
        "on exactly the resources it requests, billed by the second, plus the fixed nodes."
    )
    reached = reached_of(replay, name)
    who = "Ebbtide" if name == PRODUCT else name
    if reached is None:
        return
    if reached > 1 + _ROUND:
        yield f"{who} saves more, {percent(reached)} of what is attainable, because some jobs wait for a worker."
    elif reached >= 0:
        yield f"{who} reaches {percent(reached)} of what is attainable."


def _above_the_bound(replay: Replay, name: str) -> Iterator[str]:
    result, bound = replay.strategies[name], replay.strategies.get(BOUND)
    if bound is None or result.usd is None or not bound.usd or bound.node_hours <= 0 or result.usd <= bound.usd:
        return
    scheduling = (
        f"{result.node_hours / bound.node_hours:.2f} times the bound's node-hours: nodes are bought whole, take time "
        "to boot, and are retained for some time after the last job"
    )
    gap = result.usd - bound.usd
    listed = (result.usd_on_demand or 0.0, bound.usd_on_demand or 0.0)
    planned = gap - (listed[0] - listed[1])
    if not all(listed) or dollars(planned) == dollars(0) or not 0 < planned < gap:
        yield f"It costs {dollars(gap)} more than the bound: {scheduling}."
        return
    yield (
        f"It costs {dollars(gap)} more than the bound. On demand the difference would be {dollars(gap - planned)}: "
        f"{scheduling}. The remaining {dollars(planned)} is due to the commitment: the bound commits with hindsight, "
        "the stack only for the min of its groups."
    )


def _on_demand(replay: Replay, name: str) -> Iterator[str]:
    """The saving by scheduling only: a commitment is bought, and changes saving and bound by different amounts."""
    fleet, bound = replay.strategies.get(FLEET), replay.strategies.get(BOUND)
    result = replay.strategies[name]
    if not replay.states_saving or fleet is None or bound is None:
        return
    if (result.usd_on_demand, fleet.usd_on_demand) == (result.usd, fleet.usd):
        return
    if not (fleet.usd_on_demand and bound.usd_on_demand and result.usd_on_demand):
        return
    saved, ceiling = (1 - usd / fleet.usd_on_demand for usd in (result.usd_on_demand, bound.usd_on_demand))
    if ceiling > 0:
        yield (
            f"With all nodes on demand, that is by scheduling alone, it would save {percent(saved)} of a fleet's "
            f"dollars, of {percent(ceiling)} attainable."
        )


def _when(replay: Replay, name: str) -> Iterator[str]:
    share = outside_share(stretch_of(replay, name))
    if share is not None:
        yield (
            f"{percent(share)} of the run time of jobs is outside business hours: those nodes are needed then, and no "
            "schedule can remove them."
        )


def outside_share(stretch: ChartWindow) -> float | None:
    """The part of the jobs' running time that lies outside business hours; None where no job ran."""
    at, running = stretch.series.at, stretch.series.running
    everything = sum(amounts_of(at, running, [(0.0, stretch.horizon)]))
    if everything <= 0:
        return None
    return 1 - sum(amounts_of(at, running, stretch.open_spans)) / everything


def _retained(replay: Replay, name: str) -> Iterator[str]:
    reasons = retained_reasons(replay.strategies[name])
    total = sum(reasons.values())
    if total <= 0 or replay.constant_nodes:
        return
    most = next(iter(reasons))
    yield (
        f"{count(total)} node-hours were retained in the disruption window, {percent(reasons[most] / total)} of them "
        f"for one reason: {most}."
    )
