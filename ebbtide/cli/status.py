"""`ebbtide status`: what the controller sees and wants, and what the API server knows without it.

Asked through the API server with the operator's own rights, so no port need be open. Where the controller is down, the
Lease, the budgets and the replicas are shown all the same: that is when somebody asks.
"""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.cluster import NAMESPACE, Context, Kubeconfig, Namespace, Url, cluster
from ebbtide.cli.console import fail
from ebbtide.operate.api import controller_config_of
from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.operate.status import NoStatus, ServerView, from_pods, from_url, server_view
from ebbtide.operate.status_text import budget_table, head_lines, pool_table, server_lines, server_tables, warning_lines
from ebbtide.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_WIDE = 110  # columns, from which on the pods of each pool are shown too


@command.command(epilog="Example: ebbtide status --url http://127.0.0.1:8080")
def status(
    *,
    url: Url = "",
    as_json: Annotated[bool, typer.Option("--json", help="The document itself, for tools.")] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = NAMESPACE,
) -> None:
    """Show what the controller sees and wants."""
    if url:
        try:
            _show(from_url(url), as_json=as_json)
        except NoStatus as error:
            fail(error)
        return
    with cluster(kubeconfig, context) as api:
        config = controller_config_of(api, namespace)
        try:
            document = from_pods(api, namespace)
        except (NoStatus, ApiError) as error:
            _show_without(server_view(api, namespace, config, datetime.now(UTC)), str(error), as_json=as_json)
            raise typer.Exit(1) from None
    _show(document, as_json=as_json)


def _show(document: Document, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return
    out = console(fold=True)
    for line in head_lines(document):
        out.print(line)
    pools, budgets = rows_at(document, "report", "pools"), rows_at(document, "report", "budgets")
    if pools:
        out.print("")
        out.print(pool_table(pools, at(document, "readings"), wide=out.width >= _WIDE))
    if budgets:
        out.print("")
        out.print(budget_table(budgets))
    for warning in warning_lines(document):
        out.print(f"warning: {warning.removeprefix('warning: ')}", style="yellow")


def _show_without(known: ServerView, why: str, *, as_json: bool) -> None:
    """What the API server knows while the controller does not answer."""
    if as_json:
        typer.echo(json.dumps({"controller": None, "why": why, "outside": asdict(known)}, indent=2, default=str))
        return
    out = console(fold=True)
    out.print(f"the controller does not answer: {why}", style="bold red")
    out.print("what the API server knows:")
    for line in server_lines(known):
        out.print(line)
    for part in server_tables(known):
        out.print(part)
        out.print("")
