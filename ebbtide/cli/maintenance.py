"""`ebbtide maintenance`: fixed budgets open for a stated time, with the operator's own rights, and close on every exit.

The controller can never open a fixed budget, so this runs in the foreground as whoever runs it. What it opens carries
the end of the maintenance as an annotation; a process that is killed outright leaves that behind for the closer, which
closes it before business hours start.
"""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, cluster, reported
from ebbtide.cli.console import fail
from ebbtide.operate.api import CannotOperate, controller_config_of
from ebbtide.operate.maintenance import Maintenance, duration_within_limit, maintenance_plan
from ebbtide.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@command.command(epilog='Example: ebbtide maintenance --for 2h --why "new AMI" --selector ebbtide.dev/node-group=fixed')
def maintenance(
    *,
    for_: Annotated[str, typer.Option("--for", help="How long at most: 45m or 2h; no more than 12h.")],
    why: Annotated[str, typer.Option("--why", help="The reason, shown to everybody who sees open budgets.")],
    node: Annotated[list[str] | None, typer.Option("--node", help="A node to cordon; may be repeated.")] = None,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Cordon the nodes with these labels.")] = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Open fixed workloads' budgets, then close them again."""
    out, reason = console(), why.strip()
    if not reason:
        fail("--why: wanted a reason, shown to everybody who sees open budgets", code=2)
    try:
        duration = duration_within_limit(for_)
    except CannotOperate as error:
        fail(error, code=error.code)
    with cluster(kubeconfig, context) as api:
        config = controller_config_of(api, namespace)
        plan = maintenance_plan(api, config, tuple(node or ()), selector)
        until = datetime.now(UTC) + duration
        for line in plan.lines(config, until, reason):
            out.print(line, style="yellow" if line.startswith("  note:") else None)
        with _stop_on_signal() as stop:
            under_way = Maintenance(api, plan, until=until, why=reason, tell=out.print)
            try:
                with reported(api):
                    under_way.open()
                    under_way.watch(stop)
            finally:
                _close(under_way, out)


@contextmanager
def _stop_on_signal() -> Generator[threading.Event]:
    """Ctrl-C, SIGTERM and a closed terminal ask for the end, and never cut the closing short."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    before = {number: signal.signal(number, ask) for number in _ENDINGS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _close(under_way: Maintenance, out: Console) -> None:
    undone = under_way.close()
    if not undone:
        out.print("closed: every budget that was opened is closed, every node that was cordoned takes pods again")
        return
    out.print("NOT CLOSED. The API server refused or could not be reached; run these now:", style="bold red")
    for line in undone:
        out.print(f"  {line}", style="bold red")
    raise typer.Exit(1)
