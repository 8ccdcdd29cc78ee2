"""`ebbtide probe`: what a cluster lacks for Ebbtide, one line each, and which cluster it is.

It reads and writes nothing, with the rights of whoever runs it. With a stack it also looks for what that stack asks:
nodes, room for its pods, its customer's namespaces. Exit code 1 where something is missing; notes are no reason.
"""

import json
from typing import Annotated

import typer
from rich.console import Console

from ebbtide.cli.cluster_access import Context, Kubeconfig, OperatorApi, connect, console, fail, told
from ebbtide.cli.probe_facts import facts_of
from ebbtide.cli.probe_rules import verdicts_of
from ebbtide.cli.probe_verdicts import Probed, State, Verdict
from ebbtide.cli.probe_wants import RIGHTS, Wants, wants_of
from ebbtide.cli.pulumi_secret import fault_of_token
from ebbtide.settings import StackInvalid, StackSettings, load_stack

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_STACK_HELP = "A name (demo for stacks/Pulumi.demo.yaml) or a path; its context is taken where none is given."
_STYLES = {State.OK: "green", State.MISSING: "bold red", State.NOTE: "yellow"}


@command.command(epilog="Example: ebbtide probe acme --context onprem-gpu")
def probe(
    stack: Annotated[str | None, typer.Argument(metavar="[STACK]", help=_STACK_HELP)] = None,
    *,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for tools.")] = False,
) -> None:
    """Name what a cluster lacks for Ebbtide."""
    settings = None if stack is None else _loaded(stack)
    wants = Wants() if settings is None else wants_of(settings)
    api = connect(kubeconfig, context or (settings and settings.cluster.context))
    with told(api):
        facts = facts_of(api, wants.nodes or {}, RIGHTS)
    fault = fault_of_token(settings.stack) if settings and wants.token else None
    verdicts = verdicts_of(Probed(facts=facts, wants=wants, clock_ahead=api.clock_ahead, token_fault=fault))
    if as_json:
        print(json.dumps(_document(api, verdicts), indent=2))
    else:
        _show(console(), api, verdicts)
    if any(verdict.state is State.MISSING for verdict in verdicts):
        raise typer.Exit(1)


def _loaded(stack: str) -> StackSettings:
    try:
        return load_stack(stack)
    except StackInvalid as invalid:
        fail(str(invalid))


def _document(api: OperatorApi, verdicts: list[Verdict]) -> dict[str, object]:
    return {"source": api.source, "findings": [verdict._asdict() for verdict in verdicts]}


def _show(out: Console, api: OperatorApi, verdicts: list[Verdict]) -> None:
    out.print(api.source)
    width = max(len(verdict.what) for verdict in verdicts)
    for verdict in verdicts:
        out.print(f"{verdict.state:7}  ", style=_STYLES[verdict.state], end="")
        out.print(f"{verdict.what:{width}}  {verdict.said}")
    missing = sum(verdict.state is State.MISSING for verdict in verdicts)
    out.print(f"{missing} missing" if missing else "nothing is missing")
