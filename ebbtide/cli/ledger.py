"""`ebbtide ledger`: what the nodes of a month cost, what alternatives would have cost, and who caused the cost.

A committed month is read from its file: its recording is gone after 45 days, and it must not change. A bill is shown
alone if Prometheus has no recording of its month.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.cli.console import fail, finish
from ebbtide.cli.options import (
    Context,
    JsonFile,
    Kubeconfig,
    PrometheusToken,
    PrometheusUrl,
    closed_month,
    given_path,
    written_path,
)
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.prometheus import prometheus_of
from ebbtide.settings import StackInvalid, load_stack
from ebbtide.settings.load import project_root
from ebbtide.text.durations import ONE_HOUR
from ebbtide.text.files import Unwritable, write_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ebbtide.lab.ledger.month import Amount, Month
    from ebbtide.monitoring.client import Prometheus
    from ebbtide.settings.model import StackSettings

command = typer.Typer(add_completion=False, rich_markup_mode=None)


_BILL_HELP = "A file or folder of AWS' Cost and Usage Report 2.0, or several; adds the bill of the same month."
_FOCUS_HELP = "With --bill: write the bill with the shares of pools and workloads as FOCUS 1.2 (CSV)."
_MONTH_HELP = "A month, also the current one; default: the last one that has ended."
_WRITE_HELP = "Add the month to stacks/ledger/STACK/MONTH.json. Existing entries are never changed."
_ALL_HELP = "Instead of one stack: the newest committed month of every stack, or --month."


@command.command(epilog="Example: ebbtide ledger demo --month 2026-11 --report ledger.html")
def ledger(
    stack: Annotated[
        str | None, typer.Argument(metavar="STACK", help="A name (demo for stacks/Pulumi.demo.yaml) or a path.")
    ] = None,
    *,
    month: Annotated[
        str,
        typer.Option(
            metavar="2026-11",
            help="A month; default: the last one that has ended. The running one is shown to date.",
            show_default=False,
        ),
    ] = "",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", parser=written_path, help="HTML page to write.")
    ] = None,
    json_file: JsonFile = None,
    bill: Annotated[list[Path] | None, typer.Option(metavar="PATH", parser=given_path, help=_BILL_HELP)] = None,
    focus: Annotated[Path | None, typer.Option(metavar="FILE", parser=written_path, help=_FOCUS_HELP)] = None,
    write: Annotated[bool, typer.Option("--write", help=_WRITE_HELP)] = False,
    all_: Annotated[bool, typer.Option("--all", help=_ALL_HELP)] = False,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the nodes of a month cost, what was saved, and which pools and workloads caused it."""
    if all_ != (stack is None) or (all_ and (report or bill or focus or write)) or (focus and not bill):
        raise typer.BadParameter(
            "expected STACK or --all; --report, --bill, --focus and --write with STACK; --focus with --bill"
        )
    from ebbtide.lab.ledger.bill.difference import difference_of
    from ebbtide.lab.ledger.bill.focus import focus_text
    from ebbtide.lab.ledger.bill.reading import read_bill
    from ebbtide.lab.ledger.bill_alone import BillAlone
    from ebbtide.lab.ledger.build import ledger_of
    from ebbtide.lab.ledger.month import LedgerError, last_month, plain
    from ebbtide.lab.ledger.month_file import add_entry, committed, month_path, refuse_cut
    from ebbtide.lab.ledger.overview import overview
    from ebbtide.lab.ledger.page import render_page
    from ebbtide.lab.ledger.reading import read_month
    from ebbtide.lab.ledger.running import running_of
    from ebbtide.lab.ledger.sheets import as_text, view_of

    try:
        if stack is None:
            stacks, shown = overview(project_root(), month)
            finish(json_file, {"schema": 1, "stacks": stacks}, shown)
            return
        settings = load_stack(stack)
        chosen, now = closed_month(month, settings, or_running=True), datetime.now(UTC)
        if chosen.end > now:
            refused = [name for name, value in (("--bill", bill), ("--write", write)) if value]
            if refused:
                fail(f"{' and '.join(refused)}: wanted a month that has ended, found {chosen.name}, which is not over")
            asking = prometheus_of(settings, prometheus, token_file, context, kubeconfig)
            until = chosen.begin + (now - chosen.begin) // ONE_HOUR * ONE_HOUR
            recording = read_month(asking, settings.customer, chosen, settings.costs.labels, until)
            before = _month_before(asking, settings, last_month(now, chosen.zone))
            running = running_of(recording, settings, chosen, until, before)
            if report is not None:
                write_file(report, running.as_page())
            finish(json_file, {"schema": 1, **running.as_json()}, running.as_text())
            return
        root = project_root()
        path = month_path(root, settings.stack, chosen.name)
        unchecked = refuse_cut(path, root)
        billed = read_bill(bill, settings, chosen) if bill else None
        if path.exists():
            found, difference = committed(path)
        else:
            try:
                asking = prometheus_of(settings, prometheus, token_file, context, kubeconfig)
                recording = read_month(asking, settings.customer, chosen, settings.costs.labels)
            except (CannotOperate, LedgerError) as missing:
                if billed is None or (isinstance(missing, CannotOperate) and prometheus):
                    raise
                alone = BillAlone(settings=settings, bill=billed, why=str(missing))
                if focus or write:
                    option = "--focus" if focus else "--write"
                    fail(f"{option}: wanted the month's recording in Prometheus, found: {missing}")
                if report is not None:
                    write_file(report, alone.as_page())
                finish(json_file, {"schema": 1, **alone.as_json()}, alone.as_text())
                return
            found, difference = ledger_of(recording, settings, chosen, datetime.now(UTC)), None
        document = plain(found)
        difference = difference if billed is None else difference_of(found, billed)
        added = {} if billed is None else {"bill": plain(billed), "difference": plain(difference)}
        view = view_of(found, billed, difference, unchecked if path.exists() else "")
        if billed is not None and focus is not None:
            write_file(focus, focus_text(billed, found))
        if report is not None:
            write_file(report, render_page(view))
        if write and found.incomplete:
            fail(f"--write: wanted a closed month, found {chosen.name} incomplete: {found.incomplete}")
        if write:
            is_new = add_entry(path, {"ledger": document, **added}, datetime.now(UTC))
            typer.echo(f"{'written' if is_new else 'unchanged'}: {path}", err=True)
    except CannotOperate as error:
        fail(error, code=error.code)
    except (StackInvalid, LedgerError, Unwritable) as error:
        fail(error)
    finish(json_file, {"schema": 1, **document, **added}, as_text(view))


def _month_before(prometheus: "Prometheus", settings: "StackSettings", month: "Month") -> "Mapping[str, Amount] | str":
    """Return a month's node-hours and dollars by group, from its file or from Prometheus, or why they are not known."""
    from ebbtide.lab.ledger.month import LedgerError
    from ebbtide.lab.ledger.month_file import committed, month_path
    from ebbtide.lab.ledger.paid import paid_of
    from ebbtide.lab.ledger.rates import rates_of
    from ebbtide.lab.ledger.reading import read_month
    from ebbtide.lab.ledger.running import amounts_of

    path = month_path(project_root(), settings.stack, month.name)
    try:
        if path.exists():
            return amounts_of(committed(path)[0].paid)
        recording = read_month(prometheus, settings.customer, month)
        return amounts_of(paid_of(settings, month, recording, rates_of(settings, recording)).rows)
    except LedgerError as error:
        return str(error)
