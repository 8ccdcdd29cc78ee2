"""`ebbtide report live`: one page about the activity and usage of a stack, from Prometheus."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.cluster import Context, Kubeconfig, watching
from ebbtide.cli.console import fail
from ebbtide.cli.options import PrometheusToken, PrometheusUrl, Stack
from ebbtide.lab.report.live.page import verdict, write_live
from ebbtide.lab.report.live.reading import read_record
from ebbtide.lab.report.live.record import missing
from ebbtide.monitoring.client import Prometheus
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.text.durations import read_duration
from ebbtide.text.files import Unwritable
from ebbtide.text.terminal import console
from ebbtide.vocabulary.windows import zone_of

command = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def _history_length(text: str) -> timedelta:
    length = read_duration(text)
    if length is None or not timedelta(minutes=10) <= length <= timedelta(days=400):
        raise typer.BadParameter(f"--since: wanted 10m to 400d, found {text!r} (for example 24h)")
    return length


@command.callback()
def every_report() -> None:
    """Reports on a running stack."""


@command.command(epilog="Example: ebbtide report live demo --since 24h -o live.html")
def live(
    stack: Stack,
    *,
    since: Annotated[
        str, typer.Option(metavar="24h", help="Length of the history until now, 10m to 400d.", show_default=True)
    ] = "24h",
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", dir_okay=False, help="HTML page to write.")
    ] = Path("live.html"),
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Draw the activity and usage of a stack from Prometheus."""
    far = _history_length(since)
    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    _write(watching(settings, prometheus, token_file, context, kubeconfig), settings, far, output)


def _write(asking: Prometheus, settings: StackSettings, far: timedelta, output: Path) -> None:
    until = datetime.now(zone_of(settings.business_hours.timezone))
    if (doubt := asking.doubt()) is not None:
        fail(doubt.why)
    record = read_record(asking, settings, far, until)
    reasons, available = missing(record)
    if not available:
        fail(*dict.fromkeys(reasons.values()))
    try:
        write_live(record, output)
    except Unwritable as error:
        fail(error)
    out = console(fold=True)
    out.print(f"{verdict(record)}.")
    for subject, why in reasons.items():
        out.print(f"not recorded: {subject}: {why}", style="yellow")
    out.print(f"written: {output}")
