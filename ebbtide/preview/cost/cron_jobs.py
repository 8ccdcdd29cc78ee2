"""What the cron jobs of a stack ask of its nodes in a month: a part of the groups' lines, and never on top of them.

A line follows from the group's size and the stated node-hours, and the file may state too few. So the part of a node
that each run takes is added up over a year, as if every node were full; what a node costs before and after a run is
not in it. Runs that would meet are not told apart, but where they may not meet they fill no more than all the time.
"""

from collections.abc import Iterator
from datetime import date, timedelta

from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import copies, node_of, pod_size
from ebbtide.settings.sections.jobs import Concurrency, CronJobSettings, cron_times
from ebbtide.simulator.world.schedules import run_takes
from ebbtide.units.durations import ONE_DAY
from ebbtide.units.money import HOURS_PER_MONTH


def about_cron_jobs(settings: StackSettings, year: int) -> Iterator[str]:
    """One sentence for each group that cron jobs run on."""
    for group in settings.node_groups:
        here = {name: job for name, job in settings.cron_jobs.items() if job.node_group == group and not job.suspended}
        if here:
            filled = sum(node_hours(settings, job, year) for job in here.values())
            yield f"cron jobs fill {_about(filled)} a month of {group} ({', '.join(map(_named, here.items()))})" + (
                _beside(settings.costs.expected_node_hours.get(group), filled)
            )


def node_hours(settings: StackSettings, job: CronJobSettings, year: int) -> float:
    """A month's, in a mean month of that year."""
    first, after = date(year, 1, 1), date(year + 1, 1, 1)
    times = cron_times(job.schedule)
    days = sum(times.on(first + timedelta(days=n)) for n in range((after - first) // ONE_DAY))
    whole = timedelta(days=(after - first) // ONE_DAY)
    runs = days * len(times.hours) * len(times.minutes)
    each = run_takes(job) * job.completions / -(-job.completions // job.parallelism)  # of pods
    taken = runs * each
    if job.concurrency is not Concurrency.ALLOW:
        taken = min(taken, whole * job.parallelism)
    on_a_node = copies(pod_size(job), node_of(settings.node_groups[job.node_group]))
    return taken / whole * HOURS_PER_MONTH / on_a_node


def _named(entry: tuple[str, CronJobSettings]) -> str:
    name, job = entry
    return name if job.run_takes is not None else f"{name} at its longestRun"


def _beside(stated: float | None, filled: float) -> str:
    if stated is None or stated >= filled:
        return ", a part of its line"
    return f", more than the {stated:,.0f} that costs.expectedNodeHours states"


def _about(hours: float) -> str:
    return f"about {hours:,.0f} node-hours" if hours >= 1 else "less than 1 node-hour"
