"""`ebbtide advise`: advice from usage about commitments, sizes, floors and services.

Reads the stack file, a trace, a usage file or Prometheus, and the price tables. Only `apply` writes to the stack file.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from ebbtide.cli.advise import services
from ebbtide.cli.advise.sizes import sizes
from ebbtide.cli.advise.stack_file import apply, stack_on_eks, stack_with_nodes
from ebbtide.cli.cluster import Context, Kubeconfig, watching
from ebbtide.cli.console import fail, finish, progress_count, read_with_bar, replay_with_bars
from ebbtide.cli.options import (
    TRACE_HELP,
    AtOnce,
    Columns,
    Days,
    JsonFile,
    MaxJob,
    PrometheusToken,
    PrometheusUrl,
    Queue,
    Queues,
    Rate,
    Service,
    Since,
    Stack,
    Timezone,
    Where,
    closed_month,
    trace_reading,
)
from ebbtide.lab.simulator.replay import ReplayError, ReplayOptions
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.table import other_provisioner
from ebbtide.lab.simulator.trace.queues import BY_FIT, served_by_none
from ebbtide.lab.simulator.trace.traces import Reading, Trace, TraceError
from ebbtide.settings import StackSettings
from ebbtide.text.records import plain_values

command = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
command.add_typer(services.command)


@command.callback()
def every_advice() -> None:
    """Advice based on usage: commitments, sizes, floors, and settings of services."""


@command.command(epilog="Example: ebbtide advise savings demo --trace openb2023-a")
def savings(
    stack: Stack,
    *,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help=TRACE_HELP)] = None,
    usage: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, help="Recorded usage instead of a trace: a table with hour, group, nodes."
        ),
    ] = None,
    month: Annotated[
        str | None,
        typer.Option(metavar="2026-11", help="Instead of a trace: the nodes that Prometheus recorded in a month."),
    ] = None,
    beyond_floor: Annotated[
        bool, typer.Option("--beyond-floor", help="Allow a commitment above the minimum usage, where that is cheapest.")
    ] = False,
    days: Days = None,
    since: Since = None,
    columns: Columns = None,
    where: Where = None,
    timezone: Timezone = None,
    max_job: MaxJob = None,
    queues: Queues = None,
    json_file: JsonFile = None,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Estimate the Savings Plan that pays off, and what spot nodes save GPU pools. Ebbtide buys nothing."""
    from ebbtide.lab.advice.savings.advice import savings_advice
    from ebbtide.lab.advice.savings.spot_pools import spot_offer
    from ebbtide.lab.advice.savings.text import as_json, as_text
    from ebbtide.lab.advice.savings.usage import read_usage, usage_of
    from ebbtide.lab.ledger.build import usage_of_month
    from ebbtide.lab.ledger.month import LedgerError
    from ebbtide.lab.ledger.reading import read_month

    if sum(source is not None for source in (trace, usage, month)) != 1:
        raise typer.BadParameter("wanted one of --trace, --usage and --month (for example --trace openb2023-a)")
    if (queues or where) and trace is None:
        raise typer.BadParameter("--queues and --where are for a trace (for example --trace openb2023-a)")
    reading = trace_reading(columns, since, days, timezone, queues, where)
    settings = stack_on_eks(stack, "Savings Plans are for instances of AWS")
    offer = None
    try:
        if usage is not None:
            usage_hours = read_usage(usage, settings)
        elif month is not None:
            chosen = closed_month(month, settings)
            asking = watching(settings, prometheus, token_file, context, kubeconfig)
            usage_hours = usage_of_month(read_month(asking, settings.customer, chosen), settings, chosen)
        else:
            other = other_provisioner(settings)
            options = ReplayOptions(
                days=days,
                max_job_s=None if max_job is None else max_job.total_seconds(),
                strategies=(Strategy.FIXED_FLEXIBLE, *((other,) if other else ())),
            )
            jobs = read_with_bar(str(trace), reading, [settings])
            replayed = replay_with_bars(settings, jobs, options)
            usage_hours = usage_of(replayed, settings)
            offer = spot_offer(settings, jobs, options, replayed)
            _say_where_jobs_go(jobs, settings)
        advice = savings_advice(settings, usage_hours, beyond_floor=beyond_floor)
    except (LedgerError, TraceError) as error:
        fail(error)
    document, shown = as_json(advice), as_text(advice)
    if offer is not None:
        document["on_spot"] = plain_values(offer)
        shown = Group(shown, "", *offer.sentences())
    finish(json_file, document, shown)


def _say_where_jobs_go(jobs: Trace, settings: StackSettings) -> None:
    if served_by_none(jobs, settings):
        typer.echo(BY_FIT, err=True)


_SERVICE_EXAMPLE = "ebbtide advise floors STACK --service embedder --trace requests-servegen-m-small"


@command.command(epilog=f"Example: ebbtide advise floors demo --trace openb2023-a; {_SERVICE_EXAMPLE}")
def floors(
    stack: Stack,
    trace: Annotated[str, typer.Option(metavar="FILE", help=TRACE_HELP)],
    *,
    spend: Annotated[
        float, typer.Option(min=0, max=100, help="Percentage that floors may add to the bill.", show_default=True)
    ] = 2.0,
    days: Days = None,
    since: Since = None,
    columns: Columns = None,
    where: Where = None,
    timezone: Timezone = None,
    max_job: MaxJob = None,
    queues: Queues = None,
    service: Service = None,
    queue: Queue = None,
    rate: Rate = None,
    at_once: AtOnce = None,
    json_file: JsonFile = None,
) -> None:
    """Find planned floors that shorten morning waits or keep a service within capacity."""
    from ebbtide.lab.advice.floors_text import as_json, as_text
    from ebbtide.lab.advice.trials import floor_advice
    from ebbtide.lab.sweep.calls import cores

    settings = stack_with_nodes(stack)
    reading = trace_reading(columns, since, days, timezone, queues, where)
    if service is not None:
        if queues:
            raise typer.BadParameter(
                "--queues is for jobs; --queue chooses a queue of requests (for example --queue code)"
            )
        if reading != Reading():
            raise typer.BadParameter(
                "--days, --from, --columns, --where, --timezone: for a trace of jobs, found --service"
            )
        _service_floors(settings, service, trace, _ServiceLoad(queue, rate, at_once), json_file)
        return
    options = ReplayOptions(max_job_s=None if max_job is None else max_job.total_seconds())
    try:
        jobs = read_with_bar(trace, reading, [settings])
        with progress_count("replays") as progress:
            advice = floor_advice(settings, jobs, options, spend / 100, progress, cores())
        _say_where_jobs_go(jobs, settings)
    except (ReplayError, TraceError) as error:
        fail(error)
    finish(json_file, as_json(advice), as_text(advice, settings.adopted, settings.business_hours.overnight))


@dataclass(frozen=True, slots=True)
class _ServiceLoad:
    queue: str | None
    rate: float | None
    at_once: int | None


def _service_floors(settings: StackSettings, name: str, trace: str, load: _ServiceLoad, json_file: Path | None) -> None:
    from ebbtide.lab.advice.services.floors import as_json, as_text, service_floor_advice
    from ebbtide.lab.simulator.services.replay import ServiceOptions
    from ebbtide.lab.simulator.trace.counted import find_requests

    options = ServiceOptions(rate=load.rate, at_once=load.at_once)
    try:
        advice = service_floor_advice(settings, name, find_requests(trace, load.queue), options)
    except (ReplayError, TraceError) as error:
        fail(error)
    finish(json_file, as_json(advice), as_text(advice))


command.command(epilog="Example: ebbtide advise sizes demo --patch sizes.patch")(sizes)
command.command(epilog="Example: ebbtide advise apply demo advice.json")(apply)
