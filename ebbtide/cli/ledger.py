"""`ebbtide ledger`: what the nodes of a month cost, what others would have cost, and who caused it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.cli.cluster import Context, Kubeconfig, cluster
from ebbtide.cli.console import fail, finish
from ebbtide.cli.options import JsonFile, PrometheusToken, PrometheusUrl, Stack
from ebbtide.files import Unwritable
from ebbtide.monitoring.client import Prometheus
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.prometheus import link_of, named_link
from ebbtide.settings import StackInvalid, StackSettings, load_stack

if TYPE_CHECKING:
    from ebbtide.ledger.month import Ledger, Month
    from ebbtide.monitoring.links import Link

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(epilog="Example: ebbtide ledger demo --month 2026-11 --report ledger.html")
def ledger(
    stack: Stack,
    *,
    month: Annotated[
        str, typer.Option(metavar="2026-11", help="A month that has ended; default: the last one.", show_default=False)
    ] = "",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", dir_okay=False, help="HTML page to write.")
    ] = None,
    json_file: JsonFile = None,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the nodes of a month cost, what was saved, and which pools and workloads caused it."""
    from ebbtide.ledger.month import ledger_json
    from ebbtide.ledger.page import write_page
    from ebbtide.ledger.text import as_text

    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    chosen = _month(month, settings)
    if prometheus:
        try:
            link = named_link(prometheus, token_file)
        except CannotOperate as error:
            fail(error, code=error.code)
        found = _read(link, settings, chosen)
    else:
        with cluster(kubeconfig, context or settings.cluster.context) as api:
            own_link = link_of(settings, api)
            if own_link is None:
                message = "has no Prometheus: wanted monitoring.prometheus in its file, or --prometheus URL"
                raise CannotOperate(f"{settings.customer} {message}", 2)
            found = _read(own_link, settings, chosen)
    if report is not None:
        try:
            write_page(found, report)
        except Unwritable as error:
            fail(error)
    finish(json_file, ledger_json(found), as_text(found))


def _month(name: str, settings: StackSettings) -> "Month":
    from ebbtide.ledger.month import last_month, month_named

    zone, now = settings.business_hours.timezone, datetime.now(UTC)
    last = last_month(now, zone)
    chosen = month_named(name, zone) if name else last
    if chosen is None:
        raise typer.BadParameter(f"--month: wanted a month, found {name!r} (for example {last.name})")
    if chosen.end > now:
        fail(f"--month: wanted a month that has ended, found {name} (for example {last.name})", code=2)
    return chosen


def _read(link: "Link", settings: StackSettings, month: "Month") -> "Ledger":
    from ebbtide.ledger.build import CannotTell, read_ledger

    now = datetime.now(UTC)
    try:
        return read_ledger(Prometheus(link, settings.customer, lambda: datetime.now(UTC)), settings, month, now)
    except CannotTell as error:
        fail(*error.lines)
