"""`ebbtide maintenance`: fixed budgets open for a stated time, with the operator's own rights, and close on every exit.

The controller can never open a fixed budget, so this runs in the foreground as whoever runs it. What it opens carries
the end of the maintenance as an annotation; a process that is killed outright leaves that behind for the closer, which
closes it before business hours start.

With `--ray` it is one of Ray clusters, and of no budget: their new specs may interrupt what runs there. That stops
other people's work, so it shows what and asks first.
"""

import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, cluster, reported
from ebbtide.cli.console import fail
from ebbtide.operate.api import CannotOperate, OperatorApi, controller_config_of
from ebbtide.operate.maintenance import Maintenance, duration_within_limit, maintenance_plan
from ebbtide.operate.ray.applying import Applying, nothing_to_apply, plan_lines
from ebbtide.operate.ray.facts import ray_config_of, ray_facts, ray_targets
from ebbtide.operate.ray.view import RayView, ray_view
from ebbtide.operate.status import NoStatus, from_pods
from ebbtide.terminal import console
from ebbtide.vocabulary.controller_config import ControllerConfig

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_RAY_HELP = "Apply the new spec of this Ray cluster instead, which interrupts its tasks; may be repeated."
_CLOSED = "closed: every budget that was opened is closed, every node that was cordoned takes pods again"
_ENDED = "ended: from now on a new spec interrupts nothing"
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@command.command(epilog='Example: ebbtide maintenance --for 2h --why "new AMI" --selector ebbtide.dev/node-group=fixed')
def maintenance(
    *,
    for_: Annotated[str, typer.Option("--for", help="Maximum duration, such as 45m or 2h; at most 12h.")],
    why: Annotated[str, typer.Option("--why", help="Reason, shown with the open budgets.")],
    node: Annotated[list[str] | None, typer.Option("--node", help="Node to cordon; may be repeated.")] = None,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Cordon the nodes with these labels.")] = "",
    ray: Annotated[list[str] | None, typer.Option("--ray", metavar="NAME", help=_RAY_HELP)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --ray: do not ask.")] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Open the budgets of fixed workloads for a limited time, or apply a new spec to a Ray cluster."""
    out, reason = console(), why.strip()
    if not reason:
        fail("--why: wanted a reason, shown to everybody who sees open budgets", code=2)
    try:
        duration = duration_within_limit(for_)
    except CannotOperate as error:
        fail(error, code=error.code)
    if ray and (node or selector):
        fail("--ray: wanted without --node and --selector: it cordons no nodes and opens no budgets", code=2)
    with cluster(kubeconfig, context) as api:
        config = controller_config_of(api, namespace)
        if ray:
            _apply(api, config, ray, _Asked(datetime.now(UTC) + duration, reason, namespace, ask=not yes))
            return
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


@dataclass(frozen=True, slots=True)
class _Asked:
    until: datetime
    why: str
    namespace: str
    ask: bool


def _apply(api: OperatorApi, config: ControllerConfig, names: list[str], asked: _Asked) -> None:
    out, known = console(), ray_config_of(api, asked.namespace)
    there = {target.name: target for target in ray_targets(known, names, option="--ray: ")}

    def look() -> list[RayView]:
        try:
            document = from_pods(api, asked.namespace)
        except (NoStatus, ApiError):
            document = None
        return [ray_view(facts, config, document) for facts in ray_facts(api, known, datetime.now(UTC), names)]

    views = look()
    if nothing_to_apply(views):
        out.print(f"nothing to apply: no field of {', '.join(names)} is pending")
        return
    for line in plan_lines(views, asked.until, config.hours.timezone, asked.why):
        out.print(line, style="yellow" if line.startswith("  note:") else None)
    if asked.ask:
        if not sys.stdin.isatty():
            fail("--ray: wanted --yes where nobody can be asked", code=2)
        typer.confirm("Interrupt this?", abort=True)
    with _stop_on_signal() as stop:
        under_way = Applying(api, [there[view.name] for view in views], until=asked.until, tell=out.print)
        try:
            with reported(api):
                under_way.open()
                under_way.watch(stop, look)
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


def _close(under_way: Maintenance | Applying, out: Console) -> None:
    undone = under_way.close()
    if not undone:
        out.print(_CLOSED if isinstance(under_way, Maintenance) else _ENDED)
        return
    out.print("NOT CLOSED. The API server refused or could not be reached; run these now:", style="bold red")
    for line in undone:
        out.print(f"  {line}", style="bold red")
    raise typer.Exit(1)
