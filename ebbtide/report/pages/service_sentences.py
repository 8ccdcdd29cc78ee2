"""What a replayed service's page and picture say in sentences: what strategies cost, and what was replayed."""

from ebbtide.report.charts.served_day import pictured
from ebbtide.report.words import count
from ebbtide.simulator.services.results import ServiceReplay
from ebbtide.units.durations import DAY_S


def verdict(replay: ServiceReplay) -> str:
    """One sentence: what the strategies that are drawn cost, and what they leave beyond the SLO."""
    said: list[str] = []
    for name in pictured(replay):
        its = replay.strategies[name].result
        hours, beyond = count(its.pod_hours), f"{100 * its.beyond_slo:.2f} %"
        if not said:
            hours, beyond = f"{hours} pod-hours", f"{beyond} of its requests beyond the SLO"
        said.append(f"{hours} with {beyond} under {name}")
    return f"{replay.service} takes {', '.join(said)}"


def scope_line(replay: ServiceReplay) -> str:
    days = (replay.end_s - replay.begin_s) / DAY_S
    return (
        f"{days:.3g} days of {replay.trace}, whose second 0 is {replay.start:%a} {replay.start.day} "
        f"{replay.start:%b %H:%M}, seed {replay.seed}"
    )
