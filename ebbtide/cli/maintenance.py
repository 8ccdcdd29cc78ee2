"""`ebbtide maintenance`: open fixed budgets for a limited time with the operator's rights, and close them on every
exit.

The controller can never open a fixed budget, so this runs in the foreground with the user's own rights. Each open
budget has the end of the maintenance as an annotation. If the process is killed, the closer reads it and closes the
budget before business hours start.

With `--ray` it opens no budgets: it lets new specs of Ray clusters interrupt their tasks. Since that stops other
people's work, it first shows the tasks and asks.
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
from ebbtide.operate.ray.facts import ray_facts, ray_targets, workloads_config_of
from ebbtide.operate.ray.view import RayView, ray_view
from ebbtide.operate.status import NoStatus, from_pods
from ebbtide.text.terminal import console
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
        fail("--why: wanted a reason, which is shown with the open budgets", code=2)
    try:
        duration = duration_within_limit(for_)
    except CannotOperate as error:
        fail(error, code=error.code)
    if ray and (node or selector):
        fail("--ray: wanted without --node and --selector: it cordons no nodes and opens no budgets", code=2)
    with cluster(kubeconfig, context) as api:
        config = controller_config_of(api, namespace)
        if ray:
            _apply(api, config, ray, _Request(datetime.now(UTC) + duration, reason, namespace, ask=not yes))
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
class _Request:
    until: datetime
    why: str
    namespace: str
    ask: bool


def _apply(api: OperatorApi, config: ControllerConfig, names: list[str], request: _Request) -> None:
    out, ray_config = console(), workloads_config_of(api, request.namespace)
    targets = {target.name: target for target in ray_targets(ray_config, names, option="--ray: ")}

    def look() -> list[RayView]:
        try:
            document = from_pods(api, request.namespace)
        except (NoStatus, ApiError):
            document = None
        return [ray_view(facts, config, document) for facts in ray_facts(api, ray_config, datetime.now(UTC), names)]

    views = look()
    if nothing_to_apply(views):
        out.print(f"nothing to apply: no field of {', '.join(names)} is pending")
        return
    for line in plan_lines(views, request.until, config.hours.timezone, request.why):
        out.print(line, style="yellow" if line.startswith("  note:") else None)
    if request.ask:
        if not sys.stdin.isatty():
            fail("--ray: wanted --yes without a terminal", code=2)
        typer.confirm("Interrupt this?", abort=True)
    with _stop_on_signal() as stop:
        under_way = Applying(api, [targets[view.name] for view in views], until=request.until, tell=out.print)
        try:
            with reported(api):
                under_way.open()
                under_way.watch(stop, look)
        finally:
            _close(under_way, out)


@contextmanager
def _stop_on_signal() -> Generator[threading.Event]:
    """Ctrl-C, SIGTERM and a closed terminal request the end, and never interrupt the closing."""
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
