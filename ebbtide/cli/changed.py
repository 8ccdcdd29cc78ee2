"""`ebbtide changed`: the stacks that a workflow previews or brings up.

It prints the arrays for a workflow's matrices to stdout and the reasons to stderr, where a job's log shows them.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.preview.nights.windows import window_of
from ebbtide.pull_requests.changed_stacks import ChangedStacks, GitFailed, changed_stacks
from ebbtide.pull_requests.deployments import DeploymentsUnknown, read_deployments
from ebbtide.pull_requests.waves import Remaining, WaveTooLarge, document, plan_waves, reasons, undeployed
from ebbtide.settings import StackInvalid, load_stack, stack_names
from ebbtide.settings.load import project_root
from ebbtide.text.pages import page_command

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_ONLY_HELP = "Only these stacks; default: all in stacks/."
_AGAINST_HELP = "Branch, tag or commit to compare with, starting at the merge base."
_DEPLOYED_HELP = (
    "Compare each stack with the commit of the newest successful deployment of its GitHub environment (needs gh)."
)
_WAVES_HELP = (
    "Print the waves of a rollout: stacks that may be changed now, stacks in business hours (deferred), "
    "failed stacks, and stacks that an earlier wave holds."
)
_RETRY_HELP = "With --deployed --waves: include failed stacks, which otherwise wait for a commit that changes them."
_HOURS_HELP = "With --waves: ignore business hours."


@command.command(epilog="Example: ebbtide changed --against origin/main")
def changed(
    only: Annotated[list[str] | None, typer.Argument(metavar="STACK", help=_ONLY_HELP)] = None,
    *,
    against: Annotated[str | None, typer.Option(metavar="GIT_REF", help=_AGAINST_HELP)] = None,
    all_: Annotated[bool, typer.Option("--all", help="All stacks in stacks/, without a comparison.")] = False,
    deployed: Annotated[bool, typer.Option("--deployed", help=_DEPLOYED_HELP)] = False,
    gone: Annotated[bool, typer.Option("--gone", help="Print the stacks whose file was deleted instead.")] = False,
    waves: Annotated[bool, typer.Option("--waves", help=_WAVES_HELP)] = False,
    retry: Annotated[bool, typer.Option("--retry", help=_RETRY_HELP)] = False,
    during_business_hours: Annotated[bool, typer.Option("--during-business-hours", help=_HOURS_HELP)] = False,
) -> None:
    """Print the stacks that differ from a git ref, or from what is deployed, as JSON."""
    if (against is not None) + all_ + deployed != 1:
        raise typer.BadParameter(
            "expected --against GIT_REF, --all or --deployed (for example: ebbtide changed --against origin/main)"
        )
    if (gone and (deployed or waves)) or ((retry or during_business_hours) and not waves):
        raise typer.BadParameter(
            "expected --retry and --during-business-hours with --waves, and --gone without --waves and --deployed"
        )
    root = project_root()
    try:
        concerned = changed_stacks(against, root)
        names = _chosen(concerned.stacks, only or (), root)
        failures: Mapping[str, datetime | None] = dict.fromkeys(names)
        if deployed:
            failures = undeployed(read_deployments(names), root)
    except (GitFailed, DeploymentsUnknown) as error:
        fail(error)
    _report(concerned, why_all=against is not None)
    if waves:
        _print_waves(
            dict.fromkeys(failures) if retry else failures,
            root,
            datetime.now(UTC),
            during_business_hours=during_business_hours,
        )
    else:
        typer.echo(json.dumps(concerned.gone if gone else list(failures)))
    if concerned.misnamed:
        raise typer.Exit(1)


def _chosen(stacks: Sequence[str], only: Collection[str], root: Path) -> list[str]:
    """Return the stacks that `only` names, or all without names. Each name must have a stack file."""
    unknown = sorted(set(only) - set(stack_names(root)))
    if unknown:
        fail(*(f"stack {name}: expected the file stacks/Pulumi.{name}.yaml, got no such file" for name in unknown))
    return [name for name in stacks if not only or name in only]


def _report(concerned: ChangedStacks, *, why_all: bool) -> None:
    if concerned.cause and why_all:
        typer.echo(f"all stacks: {concerned.cause}", err=True)
    for name in concerned.gone:
        typer.echo(
            f"stack {name}: its file is gone; its resources stay until `pulumi destroy` "
            f"({page_command('life#the-last-day')})",
            err=True,
        )
    for name in concerned.misnamed:
        typer.echo(f"stacks/Pulumi.{name}.yaml: wanted letters, digits, '-', '_', '.' in the stack's name", err=True)


def _print_waves(
    failures: Mapping[str, datetime | None], root: Path, now: datetime, *, during_business_hours: bool
) -> None:
    """Print the waves of the stacks, or fail with all invalid stack files. `failures` has their times of failure."""
    stacks: list[Remaining] = []
    problems: list[object] = []
    for name, failed_at in failures.items():
        try:
            settings = load_stack(name, root)
        except StackInvalid as invalid:
            problems += invalid.problems
            continue
        window, wave = window_of(settings, now), settings.rollout.wave
        stacks.append(Remaining(stack=name, wave=wave, window=window, failed_at=failed_at))
    if problems:
        fail(*problems)
    try:
        plans = plan_waves(stacks, now, during_business_hours=during_business_hours)
    except WaveTooLarge as error:
        fail(error)
    for line in reasons(plans):
        typer.echo(line, err=True)
    typer.echo(json.dumps(document(plans)))
