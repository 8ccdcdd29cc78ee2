"""`ebbtide maintenance`: fixed budgets open for a stated time, with the operator's own rights, and close on every exit.

The controller can never open a fixed budget, so this runs in the foreground as whoever runs it. What it opens carries
the end of the maintenance as an annotation; a process that is killed outright leaves that behind for the closer, which
closes it before the next opening.
"""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.cli.cluster_access import (
    DEFAULT_NAMESPACE,
    Context,
    Kubeconfig,
    Namespace,
    config_of,
    connect,
    console,
    fail,
    told,
)
from ebbtide.cli.instants import NotUnderstood, duration_of, lasting, spoken
from ebbtide.cli.opening import Opening, Plan, plan_of
from ebbtide.vocabulary.controller_config import ControllerConfig

command = typer.Typer(add_completion=False, rich_markup_mode=None)

LONGEST = timedelta(hours=12)
_LOOK = timedelta(seconds=5)  # between two looks at the nodes
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@command.command(epilog='Example: ebbtide maintenance --for 2h --why "new AMI" --selector ebbtide.dev/node-group=fixed')
def maintenance(
    *,
    for_: Annotated[str, typer.Option("--for", help="How long at most, 45m or 2h; 12h is the longest.")],
    why: Annotated[str, typer.Option("--why", help="The reason, for whoever finds open budgets.")],
    node: Annotated[list[str] | None, typer.Option("--node", help="A node to cordon; may be given again.")] = None,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Cordon the nodes with these labels.")] = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Open fixed budgets for a while, then close them."""
    out = console()
    lasts = _checked(for_, why)
    api = connect(kubeconfig, context)
    with told(api):
        config = config_of(api, namespace)
        plan = plan_of(api, config, tuple(node or ()), selector)
    until = datetime.now(UTC) + lasts
    _announce(out, plan, config, until, why.strip())
    with _stop_on_signal() as stop:
        opening = Opening(api, plan, until=until, why=why.strip(), tell=out.print)
        try:
            with told(api):
                opening.open()
                _hold(api, opening, stop, out)
        finally:
            _close(opening, out)


def _checked(for_: str, why: str) -> timedelta:
    if not why.strip():
        fail("--why: wanted a reason, for whoever finds open budgets", 2)
    try:
        lasts = duration_of(for_)
    except NotUnderstood as error:
        fail(f"--for: {error}", 2)
    if lasts > LONGEST:
        fail(f"--for: wanted at most 12h, found {for_!r}: start another one when it ends", 2)
    return lasts


def _announce(out: Console, plan: Plan, config: ControllerConfig, until: datetime, why: str) -> None:
    zone = config.hours.timezone
    out.print(f"maintenance until {spoken(until, zone)}: {why}")
    out.print(f"  budgets to open, one pod at a time: {', '.join(budget.name for budget in plan.budgets) or 'none'}")
    out.print(f"  nodes to cordon: {', '.join(plan.nodes) or 'none'}")
    if plan.cordoned_before:
        out.print(f"  cordoned already, and left so: {', '.join(plan.cordoned_before)}")
    opening = config.hours.next_opening(datetime.now(UTC))
    closes = opening - config.closing_guard if opening is not None else None
    if closes is not None and closes < until:
        out.print(f"  note: the closer closes these budgets at {spoken(closes, zone)}, whatever runs", style="yellow")
    out.print("  Ctrl-C ends it early; budgets are closed and nodes uncordoned on the way out")


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


def _hold(api: KubeApi, opening: Opening, stop: threading.Event, out: Console) -> None:
    """Tell what changes on the nodes until somebody ends it or the time is over. Trouble with the network is told."""
    said = ""
    while not stop.is_set() and (left := opening.until - datetime.now(UTC)) > timedelta():
        try:
            line = opening.workers_left(api)
        except ApiError as error:
            line = f"cannot see the nodes now: {error}"
        if line != said:
            out.print(f"{line}; {lasting(left)} left")
            said = line
        stop.wait(min(_LOOK, left).total_seconds())
    out.print("ending: asked to" if stop.is_set() else "ending: the time is over")


def _close(opening: Opening, out: Console) -> None:
    undone = opening.close()
    if not undone:
        out.print("closed: every budget that was opened is closed, every node that was cordoned takes pods again")
        return
    out.print("NOT CLOSED. The API server did not take it; run these now:", style="bold red")
    for line in undone:
        out.print(f"  {line}", style="bold red")
    raise typer.Exit(1)
