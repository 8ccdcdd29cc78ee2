"""Shares of the nodes' cost that services, cron jobs and adopted pods use. The nodes' cost includes them.

A cron job's share adds up, over a year, the part of a node that each run uses, as if every node were full. It leaves
out the cost of a node before and after a run. Overlapping runs count separately; if the concurrency policy forbids
overlaps, the runs take no more than the entire year.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from ebbtide.preview.cost.always import Always, what_always_runs
from ebbtide.settings.capacity.homes import home_groups, pod_usd_per_hour
from ebbtide.settings.capacity.packing import adopted_pods
from ebbtide.settings.capacity.placement import copies, node_of, pod_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.jobs import Concurrency, CronJobSettings, cron_times
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.text.counts import several
from ebbtide.text.durations import ONE_DAY
from ebbtide.text.money import HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCost:
    """US dollars a month for the pods that always run, for the fewest and the most pods; None if a node has no price.

    The calendar may require more than the fewest pods, and sleep requires fewer.
    """

    pods: str
    least: int
    most: int
    usd_always: float | None
    usd_at_min: float | None
    usd_at_max: float | None


def service_costs(settings: StackSettings, year: int, always: Always | None = None) -> tuple[ServiceCost, ...]:
    """Empty for an existing cluster, whose nodes' cost is not known here. `year` is that of the calendar, for `always`
    if the caller has not calculated it.
    """
    if settings.cluster.context is not None or not settings.services:
        return ()
    return tuple(_costs(settings, (always or what_always_runs(settings, year)).served))


def _costs(settings: StackSettings, always: Mapping[str, float]) -> Iterator[ServiceCost]:
    workloads, homes = settings.all_workloads, home_groups(settings)
    for name, service in settings.services.items():
        for pods, variant in service.pods(name).items():
            workload = workloads[pods]
            hourly = (
                pod_usd_per_hour(settings, homes.get(pods), workload) if isinstance(workload, ServedWorkload) else None
            )
            monthly = None if hourly is None else hourly * HOURS_PER_MONTH
            least, most = variant.scale.min, variant.scale.max
            yield ServiceCost(
                pods=pods,
                least=least,
                most=most,
                usd_always=None if monthly is None else monthly * always[pods],
                usd_at_min=None if monthly is None else monthly * least,
                usd_at_max=None if monthly is None else monthly * most,
            )


def about_cron_jobs(settings: StackSettings, year: int) -> Iterator[str]:
    """One sentence for each group that cron jobs run on."""
    for group in settings.node_groups:
        jobs = {name: job for name, job in settings.cron_jobs.items() if job.node_group == group and not job.suspended}
        if jobs:
            filled = sum(node_hours(settings, job, year) for job in jobs.values())
            yield f"cron jobs fill {_about(filled)} a month of {group} ({', '.join(map(_named, jobs.items()))})" + (
                _beside(settings.costs.expected_node_hours.get(group), filled)
            )


def about_adopted_pods(settings: StackSettings) -> Iterator[str]:
    """Yield one sentence for each group that adopted pods keep above its minimum, day and night."""
    packing = adopted_pods(settings)
    for group, nodes in packing.opened.items():
        if nodes > settings.node_groups[group].min:
            hours = nodes * HOURS_PER_MONTH
            names = [name for name, homes in packing.homes.items() if homes[group]]
            yield (
                f"adopted pods need {several(nodes, 'node')} of {group} at all times ({', '.join(names)}), "
                f"{hours:,.0f} node-hours a month{_beside(settings.costs.expected_node_hours.get(group), hours)}"
            )


def node_hours(settings: StackSettings, job: CronJobSettings, year: int) -> float:
    """The job's node-hours in a mean month of the year."""
    first, after = date(year, 1, 1), date(year + 1, 1, 1)
    times = cron_times(job.schedule)
    matching_days = sum(times.on(first + timedelta(days=n)) for n in range((after - first) // ONE_DAY))
    year_length = timedelta(days=(after - first) // ONE_DAY)
    runs = matching_days * len(times.hours) * len(times.minutes)
    pod_time = job.expected_run * job.completions / -(-job.completions // job.parallelism)  # of all pods of a run
    pod_hours = runs * pod_time
    if job.concurrency is not Concurrency.ALLOW:
        pod_hours = min(pod_hours, year_length * job.parallelism)
    pods_per_node = copies(pod_size(job), node_of(settings.node_groups[job.node_group]))
    return pod_hours / year_length * HOURS_PER_MONTH / pods_per_node


def _named(entry: tuple[str, CronJobSettings]) -> str:
    name, job = entry
    return name if job.run_takes is not None else f"{name} at its longestRun"


def _beside(stated: float | None, filled: float) -> str:
    if stated is None or stated >= filled:
        return ", included in its line"
    return f", more than the {stated:,.0f} that costs.expectedNodeHours states"


def _about(hours: float) -> str:
    return f"about {hours:,.0f} node-hours" if hours >= 1 else "less than 1 node-hour"
