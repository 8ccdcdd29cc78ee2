"""`ebbtide top`: pools, queues, nodes, budgets and waits in the terminal, refreshed every 5 seconds, until Ctrl-C or q.

The data come from the controller and the API server, as in `ebbtide status`, and from Prometheus if there is one.
Unknown values are a `?`, with the reason in a line below.
"""

import json
import select
import sys
import termios
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from time import monotonic, sleep
from typing import Annotated

import typer
from rich.live import Live

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, cluster
from ebbtide.cli.console import fail
from ebbtide.cli.options import PrometheusToken, PrometheusUrl, Stack
from ebbtide.monitoring.client import Prometheus
from ebbtide.operate.api import OperatorApi, failure_text
from ebbtide.operate.prometheus import link_of, named_link
from ebbtide.operate.top.facts import top_facts
from ebbtide.operate.top.text import top_text
from ebbtide.operate.top.view import Price, TopView, top_view
from ebbtide.prices import on_demand
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.text.terminal import console, print_uncut
from ebbtide.vocabulary.documents import encoded
from ebbtide.vocabulary.windows import zone_of

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EVERY = 5.0  # seconds
_MIN_WIDTH = 110  # columns, in a file or a pipe


@command.command(epilog="Example: ebbtide top demo")
def top(
    stack: Stack,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print once; default if the output is not a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print once, as JSON.")] = False,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Show pools, queues, nodes and waits; refresh every 5 seconds."""
    try:
        settings = load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)
    with cluster(kubeconfig, context or settings.cluster.context) as api:
        link = named_link(prometheus, token_file) if prometheus else link_of(settings, api)
        asking = None if link is None else Prometheus(link, settings.customer, lambda: datetime.now(UTC))

        def look() -> TopView:
            facts = top_facts(api, namespace, settings.customer, asking)
            return top_view(facts, settings.customer, _prices(settings), _groups(settings))

        zone, out = zone_of(settings.business_hours.timezone), console(fold=True)
        if as_json:
            typer.echo(json.dumps(encoded(look()), indent=2))
        elif once or not out.is_terminal:
            print_uncut(console(fold=True, min_width=0 if out.is_terminal else _MIN_WIDTH), top_text(look(), zone))
        else:
            with _keys() as pressed, Live(console=out, screen=True, auto_refresh=False) as live:
                _refresh(
                    api,
                    look,
                    lambda view, failed: live.update(top_text(view, zone, failed=failed), refresh=True),
                    pressed,
                )


def _refresh(
    api: OperatorApi, look: Callable[[], TopView], show: Callable[[TopView, str], None], pressed: Callable[[float], str]
) -> None:
    """Refresh until q. While the server does not answer, the last view stays, with the failure."""
    view = look()
    failed = ""
    while True:
        show(view, failed)
        until = monotonic() + _EVERY
        while (remaining := until - monotonic()) > 0:
            if pressed(remaining) in ("q", "Q"):
                return
        try:
            view, failed = look(), ""
        except ApiError as error:
            failed = failure_text(api, error)


@contextmanager
def _keys() -> Generator[Callable[[float], str]]:
    """Yield `pressed(seconds)`, which returns the key pressed within that time, or "". Ctrl-C still interrupts."""
    if not sys.stdin.isatty():
        yield _asleep
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield lambda seconds: sys.stdin.read(1) if select.select([sys.stdin], [], [], seconds)[0] else ""
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _asleep(seconds: float) -> str:
    sleep(seconds)
    return ""


def _groups(settings: StackSettings) -> list[str]:
    return [*settings.node_groups] if settings.cluster.kind is ClusterKind.EKS else []


def _prices(settings: StackSettings) -> Price:
    """On-demand list prices in the stack's region; None for nodes of an existing cluster."""

    types = {kind.name: kind for group in settings.node_groups.values() for kind in group.types}

    @cache
    def price(kind: str) -> float | None:
        if settings.cluster.kind is not ClusterKind.EKS:
            return None
        try:
            return on_demand(settings.region, types.get(kind, kind))
        except LookupError:
            return None

    return price
