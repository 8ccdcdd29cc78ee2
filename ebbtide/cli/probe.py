"""`ebbtide probe`: list the requirements that a cluster lacks, one line each, with the cluster's address.

It stores nothing, and uses the user's own rights. With a stack it also checks the stack's requirements: nodes, capacity
for its pods, its customer's namespaces, the rules for adopted pods. For each installed rule it creates a pod as a dry
run, which passes admission and is never stored. Exit code 1 if a requirement is missing; notes do not count.
"""

import json
from typing import Annotated

import typer
from rich.console import Console

from ebbtide.cli.cluster import Context, Kubeconfig, cluster
from ebbtide.cli.console import fail
from ebbtide.operate.api import OperatorApi
from ebbtide.operate.probe.adopted_facts import adopted_facts
from ebbtide.operate.probe.facts import Right, facts_of, fault_of_token
from ebbtide.operate.probe.findings import NO_STATUS, Probed, ProbeFinding, State
from ebbtide.operate.probe.rights import rights_of
from ebbtide.operate.probe.rules import findings_of
from ebbtide.operate.probe.wants import Wants, wants_of
from ebbtide.operate.why.pools_and_budgets import status_or_reason
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.load import stack_of_text
from ebbtide.text.records import plain_values
from ebbtide.text.terminal import console
from ebbtide.vocabulary.labels import NAMESPACE

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_STACK_HELP = "A name (demo for stacks/Pulumi.demo.yaml) or a path; its context is the default for --context."
_SHORTEST = """\
config:
  ebbtide:customer: any
  ebbtide:businessHours: { timezone: UTC, week: { mon-fri: "08:00-18:00" } }
  ebbtide:cluster: { kind: existing, context: any }
  ebbtide:workers:
    any: { source: { queues: [any] }, image: any, max: 1, cpu: 1, memory: 1Gi, longestJob: 1h }
"""
_STYLES = {State.OK: "green", State.MISSING: "bold red", State.NOTE: "yellow"}


@command.command(epilog="Example: ebbtide probe acme --context onprem-gpu")
def probe(
    stack: Annotated[str | None, typer.Argument(metavar="[STACK]", help=_STACK_HELP)] = None,
    *,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what a cluster lacks for Ebbtide. Stores nothing: pods of adopted rules are tried as dry runs."""
    settings = None if stack is None else _loaded(stack)
    wants = Wants(rights=_rights_of_any()) if settings is None else wants_of(settings, _registered(settings))
    with cluster(kubeconfig, context or (settings and settings.cluster.context)) as api:
        facts = facts_of(
            api, wants.nodes or {}, wants.rights, wants.objects, wants.ray, wants.serving, wants.node_pools
        )
        adopted = adopted_facts(api, wants.adopted)
        status = status_or_reason(api, NAMESPACE, "") if wants.brokers else NO_STATUS
    fault = fault_of_token(settings.stack) if settings and wants.token else None
    ahead = api.clock_ahead
    probed = Probed(
        facts=facts,
        wants=wants,
        clock_ahead=ahead,
        token_fault=fault,
        adopted=adopted,
        status=status,
    )
    findings = findings_of(probed)
    if as_json:
        typer.echo(json.dumps(_document(api, findings), indent=2))
    else:
        _show(console(), api, findings)
    if any(finding.state is State.MISSING for finding in findings):
        raise typer.Exit(1)


def _registered(settings: StackSettings) -> tuple[Resource, ...]:
    from ebbtide.recording.record import record  # imports the program, which --help does not need

    return record(settings)


def _rights_of_any() -> tuple[Right, ...]:
    """The rights that every stack on an existing cluster needs: the rights of the smallest stack."""
    return rights_of(_registered(stack_of_text(_SHORTEST, stack="any", file="any")))


def _loaded(stack: str) -> StackSettings:
    try:
        return load_stack(stack)
    except StackInvalid as invalid:
        fail(invalid)


def _document(api: OperatorApi, findings: list[ProbeFinding]) -> dict[str, object]:
    return {"source": api.source, "findings": plain_values(findings)}


def _show(out: Console, api: OperatorApi, findings: list[ProbeFinding]) -> None:
    out.print(api.source)
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        out.print(f"{finding.state:7}  ", style=_STYLES[finding.state], end="")
        out.print(f"{finding.what:{width}}  {finding.said}")
    missing = sum(finding.state is State.MISSING for finding in findings)
    out.print(f"{missing} missing" if missing else "nothing is missing")
