"""Results of a replay in sentences. A loss is called a loss, and every figure comes with its coverage."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields

from ebbtide.lab.report.charts.palette import BOUND, FLEET, PRODUCT, strategy_inks
from ebbtide.lab.report.charts.scales import total_nodes
from ebbtide.lab.report.measure import DOLLARS, VCPU_HOURS, measure_of
from ebbtide.lab.report.words import glued
from ebbtide.lab.simulator.results import (
    DEFAULT_STRATEGIES,
    OTHER_PROVISIONER,
    Replay,
    StrategyResult,
    Typed,
    UnpricedGroup,
)
from ebbtide.lab.simulator.trace.jobs import Reading
from ebbtide.lab.simulator.trace.queues import BY_FIT
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.lab.simulator.world.pools import Unfit
from ebbtide.prices.missing import how_to_price, named
from ebbtide.text.counts import count, percent, several
from ebbtide.text.durations import duration
from ebbtide.text.money import dollars

WORSE_WAIT = f"* The p95 wait is worse than that of {PRODUCT}: not a saving at equal wait."
_SAME_WAIT = 0.1  # p95 waits that differ by less, or by less than half a minute, are called equal
_SAME_WAIT_S = 30.0
_LONG_WAIT_S = 3600.0  # a p95 wait above it is named next to savings, since the fixed fleet may be as slow
BY_QUEUE = "Jobs go to the pool of their queue."
SAME_WAIT_RULE = f"Waits within {percent(_SAME_WAIT)} or {_SAME_WAIT_S:.0f} s count as equal."


def main_strategy(replay: Replay) -> str | None:
    """The strategy that the page is about: the product, else the last of the others; None for an empty replay."""
    names = list(strategy_inks(replay.strategies))
    if PRODUCT in names:
        return PRODUCT
    others = [name for name in names if name not in (FLEET, BOUND)]
    return (others or names or [None])[-1]


def subject(replay: Replay) -> str:
    """`demo on openb2023-a`; a trace that is named like its stack is called the trace."""
    return f"{replay.stack} on {'its trace' if replay.trace == replay.stack else replay.trace}"


def headline(replay: Replay) -> str:
    """At most 20 words: what the main strategy and the fixed fleet cost, and the interruptions; or the overload."""
    name = main_strategy(replay)
    if name is None:
        return "No strategy was replayed"
    if replay.overloads:
        worst = max(replay.overloads, key=lambda overload: overload.needed - overload.max)
        others = f" ({len(replay.overloads) - 1} more too small)" if len(replay.overloads) > 1 else ""
        return f"Demand exceeds the stack: {worst}{others}"
    if replay.constant_nodes:
        return f"{_who(name)} leaves {empty_nodes(replay, name)} over {_over(replay)}"
    result, fleet = replay.strategies[name], replay.strategies.get(FLEET)
    broken = glued(several(result.jobs_interrupted, "job"))
    measure = measure_of([result] if fleet is None else [result, fleet])
    line = (
        f"{_who(name)} {measure.verb} {measure.text(measure.of(result))} over {_over(replay)} and interrupts {broken}"
    )
    if fleet is None or name == FLEET:
        return line
    quality = "slow" if slow_line(replay) else "good"
    the_fleet = f"an equally {quality} fixed fleet" if name == PRODUCT else "the fixed fleet"
    return f"{line}; {the_fleet} {measure.verb} {measure.text(measure.of(fleet))}"


def slow_line(replay: Replay) -> str | None:
    """Name the pools whose p95 wait under the main strategy is long; None if there are none."""
    name = main_strategy(replay)
    if name is None:
        return None
    slow = [
        f"{duration(result.wait_p95_s)} in pool {pool}"
        for pool, result in replay.strategies[name].pools.items()
        if result.wait_p95_s > _LONG_WAIT_S
    ]
    return f"The p95 wait is long: {', '.join(slow)}." if slow else None


def provisioner_line(replay: Replay) -> str:
    """Compare the product with the other provisioner; empty without it, or without prices."""
    product = replay.strategies.get(PRODUCT)
    for name in OTHER_PROVISIONER:
        other = replay.strategies.get(name)
        if product is not None and other is not None and product.usd and other.usd is not None:
            change = other.usd / product.usd - 1
            return (
                f"{_PROVISIONERS[name]} the same load costs {dollars(other.usd)} instead of {dollars(product.usd)} "
                f"({change:+.1%}) in the replay, at a p95 wait of {duration(other.wait_p95_s)} instead of "
                f"{duration(product.wait_p95_s)}."
            )
    return ""


_PROVISIONERS = {
    OTHER_PROVISIONER[0]: "With Karpenter for all flexible and GPU groups",
    OTHER_PROVISIONER[1]: "With the cluster autoscaler for all groups",
}


def empty_nodes(replay: Replay, name: str) -> str:
    """Mean number of nodes that could be switched off outside business hours; `name` is the strategy."""
    empty = sum(replay.strategies[name].empty_nodes.values())
    return f"{empty:.1f} of {sum(replay.constant_nodes.values())} nodes without a pod outside business hours"


def _who(name: str) -> str:
    return "Ebbtide" if name == PRODUCT else name


def _over(replay: Replay) -> str:
    return glued(several(replay.days, "day"))


def waits_worse(replay: Replay, name: str) -> bool:
    """True if the p95 wait is worse than the reference's: a saving at such a wait does not count."""
    reference = replay.strategies.get(PRODUCT) or replay.strategies.get(FLEET)
    if reference is None:
        return False
    return waits_longer(replay.strategies[name].wait_p95_s, reference.wait_p95_s)


def waits_longer(wait_p95_s: float, reference_s: float) -> bool:
    return wait_p95_s > reference_s + max(_SAME_WAIT_S, _SAME_WAIT * reference_s)


def coverage_line(replay: Replay) -> str:
    covered = replay.coverage
    return f"{percent(covered.jobs)} of the trace's jobs, {percent(covered.cpu_hours)} of its CPU-hours"


def queue_line(replay: Replay) -> str:
    """How jobs are assigned to pools, and which jobs are left out."""
    if not replay.by_queue:
        return BY_FIT
    line = BY_QUEUE
    if replay.queues_not_served:
        left_out = (f"{queue or '(no name)'} {count(jobs)}" for queue, jobs in replay.queues_not_served.items())
        line += f" No pool serves these queues, so their jobs were left out: {', '.join(left_out)}."
    unfit = [f"{count(jobs)} {reason}" for reason, jobs in replay.jobs_unfit.items() if reason != Unfit.QUEUE]
    return f"{line} Jobs that do not fit their pool were left out: {', '.join(unfit)}." if unfit else line


def scope_line(replay: Replay) -> str:
    """The replayed jobs and days, and the time zone."""
    jobs = "jobs of every length" if replay.max_job_s is None else f"jobs up to {duration(replay.max_job_s)}"
    start = f"{replay.start:%a} {replay.start.day} {replay.start:%b %Y, %H:%M}"
    return f"{jobs}, {several(replay.days, 'day')} from {start} ({zone_name(replay)}){_capacity(replay)}"


def _capacity(replay: Replay) -> str:
    match replay.spot_capacity:
        case "":
            return ""
        case replay.spot_capacity_origin:
            return f", {replay.spot_capacity} spot capacity"
        case file:
            return f", spot capacity of {file} ({replay.spot_capacity_origin})"


def zone_name(replay: Replay) -> str:
    zone = replay.start.tzinfo
    return str(getattr(zone, "key", None) or replay.start.tzname() or "local time")


def reached_of(replay: Replay, name: str) -> float | None:
    """Return the reached share of the attainable saving; None if nothing is attainable or known."""
    ceiling, saving = replay.attainable, replay.strategies[name].saving_vs_fixed_fleet
    if ceiling is None or saving is None or ceiling <= 0 or name in (FLEET, BOUND):
        return None
    return saving / ceiling


def attainable_line(replay: Replay) -> str | None:
    """Return the saving attainable without queueing; None where no saving is stated."""
    return None if replay.attainable is None else f"attainable without queueing: {glued(percent(replay.attainable))}"


def nodes_line(replay: Replay, strategy: str) -> str:
    result = replay.strategies[strategy]
    totals = total_nodes(result.series)
    if not totals:
        return f"{strategy}: {count(result.node_hours)} node-hours."
    text = f"{strategy}: {min(totals):,} to {several(max(totals), 'node')}, {count(result.node_hours)} node-hours"
    fleet = replay.strategies.get(FLEET)
    if fleet is None or strategy == FLEET:
        return f"{text}."
    return f"{text}; the fixed fleet runs {count(fleet.node_hours)}."


def jobs_line(replay: Replay, strategy: str) -> str:
    result = replay.strategies[strategy]
    return (
        f"{strategy}: {several(result.jobs_done, 'job')} done, {result.jobs_unfinished:,} unfinished at the end; "
        f"half waited {_at_most(result.wait_p50_s)}, 95 % {_at_most(result.wait_p95_s)}."
    )


def saves_lines(replay: Replay) -> list[str]:
    return [
        f"{name}: {several(result.jobs_interrupted, 'interruption')}, {several(result.resumes, 'resume')} from a "
        f"checkpoint; {duration(result.lost_work_s)} of work lost ({small_share(result.lost_work_share)}), "
        f"{duration(result.saving_s)} spent saving; 95 % of the jobs complete within "
        f"{duration(result.completion_p95_s)} of their submission."
        for name, result in interrupted_or_saved(replay).items()
    ]


def interrupted_or_saved(replay: Replay) -> dict[str, StrategyResult]:
    """Return the strategies in which jobs were interrupted or saved; empty for a replay without spot interruptions and
    without checkpoints.
    """
    results = {name: replay.strategies[name] for name in strategy_inks(replay.strategies)}
    if "spot_interruptions" not in replay.failures and not any(
        result.saving_s or result.resumes for result in results.values()
    ):
        return {}
    return {name: result for name, result in results.items() if result.jobs_interrupted or result.saving_s}


def small_share(share: float) -> str:
    """Two digits, however small."""
    return f"{100 * share:.2g} %"


def waits_line(replay: Replay, strategy: str) -> str:
    """Compare the p95 wait with that of the fixed fleet."""
    result, fleet = replay.strategies[strategy], replay.strategies.get(FLEET)
    sentence = f"{strategy}: 95 % of the jobs wait {_at_most(result.wait_p95_s)}"
    if fleet is None or strategy == FLEET:
        return f"{sentence}."
    return f"{sentence}, in the fixed fleet {_at_most(fleet.wait_p95_s)}."


def _at_most(seconds: float) -> str:
    text = glued(duration(seconds))
    return text if text.startswith("under") else f"at most {text}"


def spot_price_line(replay: Replay) -> str | None:
    """Name the spot groups whose dollars are too high."""
    if not replay.without_spot_price:
        return None
    return (
        f"No typical spot price is known for {replay.without_spot_price}: dollars have the on-demand price for these "
        "nodes, the most that they cost."
    )


def unpriced_line(groups: Sequence[UnpricedGroup]) -> str | None:
    """Name the node groups without a price, and how to add one; None if all have a price."""
    if not groups:
        return None
    region = groups[0].region
    nodes = named([f"{group.name} ({group.instance_type})" if region else group.name for group in groups])
    where = f" in {region}" if region else ""
    return (
        f"No price is known{where} for the nodes of {nodes}: their strategies have no dollars, and are compared by "
        f"vCPU-hours. {how_to_price(region)}."
    )


def savings_rule(replay: Replay) -> str:
    """Name missing prices, and the baseline of savings or why no saving is stated."""
    if replay.overloads:
        rule = "No saving is stated: demand exceeds what the stack can run."
    elif replay.constant_nodes:
        rule = (
            f"No saving is stated: the nodes of {', '.join(replay.constant_nodes)} have no autoscaler. Those without a "
            "pod could be switched off."
        )
    elif measure_of(replay.strategies.values()) is VCPU_HOURS:
        rule = slow_line(replay)
    else:
        baseline = (
            "Savings are relative to the smallest fixed fleet that is as good for each pool: the p95 wait is no longer "
            f"than that of {PRODUCT}, and no more jobs are unfinished."
        )
        rule = " ".join(filter(None, (slow_line(replay), baseline)))
    return " ".join(filter(None, (unpriced_line(replay.unpriced), rule)))


def savings_line(replay: Replay) -> str:
    """Explain the baseline of savings, and list strategies that cost less than the page's main one."""
    line = savings_rule(replay)
    if measure_of(replay.strategies.values()) is VCPU_HOURS:
        return line
    if any(waits_worse(replay, name) for name in replay.strategies):
        line = f"{line} {WORSE_WAIT} {SAME_WAIT_RULE}"
    main = main_strategy(replay)
    if main is None:
        return line
    paid = DOLLARS.of(replay.strategies[main])
    less_than_main = {name: paid - DOLLARS.of(replay.strategies[name]) for name in strategy_inks(replay.strategies)}
    cheaper = {
        name: less
        for name, less in less_than_main.items()
        if name != BOUND and less > 0 and dollars(paid - less) != dollars(paid)
    }
    parts = [
        f"{name} costs {dollars(less)} less than {main}{', with a worse wait' if waits_worse(replay, name) else ''}"
        for name, less in cheaper.items()
    ]
    return f"{line} Here {', '.join(parts)}." if parts else line


def command(replay: Replay) -> str:
    """Return the command that repeats this replay."""
    words = ["ebbtide", "simulate", replay.stack if replay.typed is None else replay.typed.stack]
    for option, values in command_options(replay).items():
        words += [word for value in values for word in ((option, value) if value else (option,))]
    return shlex.join([*words, "--report", "report.html"])


def command_options(replay: Replay) -> dict[str, Sequence[str]]:
    """Return the values of each option of `simulate` that changes a replay of jobs; a switch has an empty one."""
    typed = replay.typed or Typed(stack=replay.stack, trace=replay.trace, reading=Reading())
    reading, zone = typed.reading, str(replay.start.tzinfo)
    columns = ",".join(f"{field}={name}" for field, name in reading.columns.items())
    since, timezone = reading.since, reading.timezone
    if typed.begin is not None and reading.zone != zone:  # read in the zone of the first compared stack
        since, timezone = typed.begin, timezone or reading.zone
    others = set(OTHER_PROVISIONER) & set(replay.strategies)
    named = len(others) > 1 or set(replay.strategies) - others != set(DEFAULT_STRATEGIES)
    return {
        "--trace": [typed.trace],
        "--start": [replay.start.isoformat()],
        "--days": [str(replay.days)],
        "--seed": [str(replay.seed)],
        "--from": [] if since is None else [since.isoformat()],
        "--columns": [columns] if columns else [],
        "--where": [f"{column}={value}" for column, values in reading.where.items() for value in values],
        "--timezone": [] if timezone is None else [timezone],
        "--queues": [f"{old}={new}" for old, new in replay.queue_names.items()],
        "--max-job": [] if replay.max_job_s is None else [f"{replay.max_job_s:.0f}s"],
        "--no-rollouts": [] if replay.rollouts else [""],
        **{_option_of(failure.name): _failure(failure.name, replay.failures) for failure in fields(Failures)},
        "--spot-capacity": [replay.spot_capacity] if replay.spot_capacity else [],
        "--strategy": list(replay.strategies) if named else [],
        "--prices": [typed.prices] if typed.prices else [],
    }


def _option_of(failure: str) -> str:
    return f"--{failure.removesuffix('_s').replace('_', '-')}"


def _failure(name: str, requested: Mapping[str, float]) -> Sequence[str]:
    return [f"{requested[name]:g}{'s' if name.endswith('_s') else ''}"] if name in requested else []
