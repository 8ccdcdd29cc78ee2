"""What the replay found, in sentences. A loss is called a loss, and no figure goes without its coverage."""

import shlex

from ebbtide.simulator.report.palette import STRATEGIES, strategy_inks
from ebbtide.simulator.report.scales import total_nodes
from ebbtide.simulator.report.words import count, dollars, duration, glued, percent, several
from ebbtide.simulator.results import Replay, StrategyResult

FLEET = "fixed-fleet"
PRODUCT = "fixed-flexible"
BOUND = "zero-wait-bound"
_SAME_WAIT = 0.1  # p95 waits that differ by less, or by less than half a minute, are called equal
_SAME_WAIT_S = 30.0


def told_strategy(replay: Replay) -> str | None:
    """The strategy that the page is about: the product, else the furthest of the others; None for an empty replay."""
    names = list(strategy_inks(replay.strategies))
    if PRODUCT in names:
        return PRODUCT
    others = [name for name in names if name not in (FLEET, BOUND)]
    return (others or names or [None])[-1]


def headline(replay: Replay) -> str:
    name = told_strategy(replay)
    if name is None:
        return "No strategy was replayed"
    result, fleet = replay.strategies[name], replay.strategies.get(FLEET)
    who = "Ebbtide" if name == PRODUCT else name
    over = glued(several(replay.days, "day"))
    broken = glued(several(result.jobs_interrupted, "job"))
    if fleet is None or name == FLEET:
        return f"{who} costs {dollars(result.usd)} over {over}, with {broken} interrupted"
    saved = fleet.usd - result.usd
    amount = f"{dollars(abs(saved))}{_share(result, saved)}"
    against = f"a fixed fleet {wait_clause(result, fleet)}"
    if dollars(saved) == dollars(0):
        return f"{who} saves nothing over {over} against {against}, with {broken} interrupted"
    if saved > 0:
        return f"{who} saves {amount} over {over} against {against}, with {broken} interrupted"
    return f"{who} costs {amount} more over {over} than {against}, with {broken} interrupted"


def _share(result: StrategyResult, saved: float) -> str:
    share = result.saving_vs_fixed_fleet
    if share is None or (share < 0) != (saved < 0):
        return ""
    return f" ({glued(percent(abs(share)))})"


def wait_clause(result: StrategyResult, fleet: StrategyResult) -> str:
    """`at equal p95 wait`, but only if it is."""
    apart = abs(result.wait_p95_s - fleet.wait_p95_s)
    if apart <= max(_SAME_WAIT_S, _SAME_WAIT * fleet.wait_p95_s):
        return "at equal p95 wait"
    theirs, ours = glued(duration(fleet.wait_p95_s)), glued(duration(result.wait_p95_s))
    return f"whose p95 wait is {theirs} (its own is {ours})"


def coverage_line(replay: Replay) -> str:
    covered = replay.coverage
    return f"{percent(covered.jobs)} of the trace's jobs, {percent(covered.cpu_hours)} of its CPU-hours"


def scope_line(replay: Replay) -> str:
    """Which jobs, which days, on whose clock."""
    jobs = "jobs of every length" if replay.max_job_s is None else f"jobs up to {duration(replay.max_job_s)}"
    start = f"{replay.start:%a} {replay.start.day} {replay.start:%b %Y, %H:%M}"
    return f"{jobs}, {several(replay.days, 'day')} from {start} ({zone_name(replay)})"


def zone_name(replay: Replay) -> str:
    zone = replay.start.tzinfo
    return str(getattr(zone, "key", None) or replay.start.tzname() or "local time")


def attainable_line(replay: Replay) -> str | None:
    """What nobody could beat without making a job wait; None without the bound or the fleet."""
    fleet, bound = replay.strategies.get(FLEET), replay.strategies.get(BOUND)
    if fleet is None or bound is None or fleet.usd <= 0:
        return None
    return f"attainable without any wait: {percent(1 - bound.usd / fleet.usd)}"


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
        f"half waited at most {glued(duration(result.wait_p50_s))}, "
        f"95 % at most {glued(duration(result.wait_p95_s))}."
    )


def savings_line(replay: Replay) -> str:
    """What the savings are measured against, and who does better than the strategy that the page is about."""
    line = f"Savings are against the smallest fixed fleet whose p95 wait is not above that of {PRODUCT}."
    told = told_strategy(replay)
    if told is None:
        return line
    paid = replay.strategies[told].usd
    cheaper = {
        name: paid - replay.strategies[name].usd
        for name in strategy_inks(replay.strategies)
        if name != BOUND
        and dollars(replay.strategies[name].usd) != dollars(paid)
        and replay.strategies[name].usd < paid
    }
    parts = [f"{name} costs {dollars(less)} less than {told}" for name, less in cheaper.items()]
    return f"{line} Here {', '.join(parts)}." if parts else line


def reason_text(reason: str) -> str:
    """`too-much-gpu` in a reader's words."""
    return reason.replace("-", " ").replace("gpu", "GPU").replace("cpu", "CPU")


def command(replay: Replay) -> str:
    """What to type to get this replay again."""
    words = ["ebbtide", "simulate", replay.stack, "--trace", replay.trace, "--start", replay.start.isoformat()]
    words += ["--days", str(replay.days), "--seed", str(replay.seed)]
    if replay.max_job_s is not None:
        words += ["--max-job", f"{replay.max_job_s:.0f}s"]
    if not replay.rollouts:
        words.append("--no-rollouts")
    if set(replay.strategies) != set(STRATEGIES):
        words += [word for name in replay.strategies for word in ("--strategy", name)]
    return shlex.join([*words, "--report", "report.html"])
