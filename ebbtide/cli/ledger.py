"""`ebbtide ledger`: what the nodes of a month cost, what others would have cost, and who caused it.

A committed month is read from its file: its recording is gone after 45 days, and it must not change.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebbtide.cli.cluster import Context, Kubeconfig, cluster
from ebbtide.cli.console import fail, finish
from ebbtide.cli.options import JsonFile, PrometheusToken, PrometheusUrl
from ebbtide.files import Unwritable, write_file
from ebbtide.monitoring.client import Prometheus
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.prometheus import link_of, named_link
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.load import project_root

if TYPE_CHECKING:
    from ebbtide.ledger.bill.bill import Bill
    from ebbtide.ledger.month import Ledger, Month
    from ebbtide.monitoring.links import Link

command = typer.Typer(add_completion=False, rich_markup_mode=None)


_BILL_HELP = "A file or folder of AWS' Cost and Usage Report 2.0, or several; adds the bill of the same month."
_FOCUS_HELP = "With --bill: write the bill with the shares of pools and workloads as FOCUS 1.2 (CSV)."
_WRITE_HELP = "Add the month to stacks/ledger/STACK/MONTH.json. Existing entries are never changed."
_ALL_HELP = "All committed months instead of a stack: the newest of each, or --month."


@command.command(epilog="Example: ebbtide ledger demo --month 2026-11 --report ledger.html")
def ledger(
    stack: Annotated[
        str | None, typer.Argument(metavar="STACK", help="A name (demo for stacks/Pulumi.demo.yaml) or a path.")
    ] = None,
    *,
    month: Annotated[
        str, typer.Option(metavar="2026-11", help="A month that has ended; default: the last one.", show_default=False)
    ] = "",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", dir_okay=False, help="HTML page to write.")
    ] = None,
    json_file: JsonFile = None,
    bill: Annotated[list[Path] | None, typer.Option(metavar="PATH", help=_BILL_HELP)] = None,
    focus: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help=_FOCUS_HELP)] = None,
    write: Annotated[bool, typer.Option("--write", help=_WRITE_HELP)] = False,
    all_: Annotated[bool, typer.Option("--all", help=_ALL_HELP)] = False,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the nodes of a month cost, what was saved, and which pools and workloads caused it."""
    if all_ != (stack is None) or (all_ and (bill or focus or write)) or (focus and not bill):
        raise typer.BadParameter("expected STACK or --all, --bill, --focus and --write with STACK, --focus with --bill")
    if stack is None:
        _show_all(month, json_file)
        return
    from ebbtide.ledger.month import ledger_json
    from ebbtide.ledger.page import write_page
    from ebbtide.ledger.text import as_text

    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    chosen = _month(month, settings)
    billed = _read_bill(bill, settings, chosen) if bill else None
    found = _committed(settings, chosen) or _from_prometheus(
        settings, chosen, prometheus, token_file, context, kubeconfig
    )
    document, shown, added = ledger_json(found), as_text(found), None
    if billed is not None:
        from rich.console import Group

        from ebbtide.ledger.bill.bill import bill_json
        from ebbtide.ledger.bill.difference import difference_json, difference_of
        from ebbtide.ledger.bill.text import Billed, advice_of, bill_text

        added = Billed(bill=billed, difference=difference_of(found, billed), advice=advice_of(billed, settings))
        document |= {"bill": bill_json(billed), "difference": difference_json(added.difference)}
        shown = Group(shown, bill_text(added))
    try:
        if report is not None:
            write_page(found, report, added)
        if billed is not None and focus is not None:
            from ebbtide.ledger.bill.focus import focus_text

            write_file(focus, focus_text(billed, found))
    except Unwritable as error:
        fail(error)
    if write:
        _add_entry(found, document)
    finish(json_file, document, shown)


def _show_all(month: str, json_file: Path | None) -> None:
    from ebbtide.ledger.month_file import MonthFileInvalid, month_files
    from ebbtide.ledger.overview import overview_json, overview_text

    try:
        files = [*month_files(project_root(), month)]
        document, shown = overview_json(files), overview_text(files)
    except MonthFileInvalid as error:
        fail(error)
    if not files:
        fail(f"found no {month or 'month'} in stacks/ledger: wanted one (ebbtide ledger STACK --write)")
    finish(json_file, document, shown)


def _read_bill(files: list[Path], settings: StackSettings, month: "Month") -> "Bill":
    from ebbtide.ledger.bill.bill import read_bill
    from ebbtide.ledger.bill.report import BillInvalid

    try:
        return read_bill(files, settings, month)
    except BillInvalid as invalid:
        fail(*invalid.lines)


def _committed(settings: StackSettings, month: "Month") -> "Ledger | None":
    from ebbtide.ledger.month_file import MonthFileInvalid, month_path, read_month_file

    try:
        file = read_month_file(month_path(project_root(), settings.stack, month.name))
        return None if file is None else file.ledger
    except MonthFileInvalid as error:
        fail(error)


def _add_entry(ledger: "Ledger", document: dict[str, Any]) -> None:
    from ebbtide.ledger.month_file import MonthFileInvalid, add_entry, month_path

    if ledger.incomplete:
        fail(f"--write: wanted a closed month, found {ledger.month.name} incomplete: {ledger.incomplete}")
    path = month_path(project_root(), ledger.stack, ledger.month.name)
    parts = {name: document.pop(name) for name in ("bill", "difference") if name in document}
    try:
        added = add_entry(path, {"ledger": document, **parts}, datetime.now(UTC))
    except (MonthFileInvalid, Unwritable) as error:
        fail(error)
    document |= parts
    typer.echo(f"{'written' if added else 'unchanged'}: {path}", err=True)


def _from_prometheus(
    settings: StackSettings,
    month: "Month",
    prometheus: str,
    token_file: Path | None,
    context: str | None,
    kubeconfig: str | None,
) -> "Ledger":
    if prometheus:
        try:
            return _read(named_link(prometheus, token_file), settings, month)
        except CannotOperate as error:
            fail(error, code=error.code)
    with cluster(kubeconfig, context or settings.cluster.context) as api:
        own_link = link_of(settings, api)
        if own_link is None:
            message = "has no Prometheus: wanted monitoring.prometheus in its file, or --prometheus URL"
            raise CannotOperate(f"{settings.customer} {message}", 2)
        return _read(own_link, settings, month)


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
