"""The `ebbtide` command. Each subcommand is a module of its own, imported when it is used.

So `ebbtide check` loads neither Pulumi nor the simulator. A command module has `command = typer.Typer(…)` with one
`@command.command()` function; or with several, each a command of `COMMANDS`, or a group (`ebbtide prices show`).
`COMMANDS` has the name and the one-line help of each command.

Exit codes: 0 fine, 1 the answer is "no", 2 wrong use, 130 interrupted.
"""

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ebbtide.cli.console import fail
from ebbtide.program import hidden_package


@dataclass(frozen=True, slots=True)
class Command:
    module: str
    extra: str  # the package's extra with the command's dependencies; "" for none
    help: str


COMMANDS = {
    "init": Command("ebbtide.cli.init", "", "Write a repository for your own stacks, program and workflows."),
    "new": Command("ebbtide.cli.new", "", "Write the stack file of a new customer."),
    "check": Command("ebbtide.cli.stacks", "", "Check stack files; print all errors at once, or a summary."),
    "explain": Command("ebbtide.cli.explain", "", "Show the values of a stack, and the file and line of each."),
    "render": Command("ebbtide.cli.render", "provision", "Show the resources and cost of a stack, offline."),
    "stacks": Command("ebbtide.cli.stacks", "", "Show all customers in one table, offline."),
    "preview": Command("ebbtide.cli.preview", "provision", "Preview a change: dangers, cost, coming nights."),
    "changed": Command("ebbtide.cli.changed", "", "List the stacks that differ from a git ref."),
    "docs": Command("ebbtide.cli.docs", "", "Print a page of the documentation, or one section of it."),
    "prices": Command("ebbtide.cli.prices", "", "Show the prices in use, or download newer ones from AWS."),
    "simulate": Command("ebbtide.cli.simulate", "simulate", "Replay a trace of jobs: node-hours, dollars and waits."),
    "sweep": Command("ebbtide.cli.sweep", "sweep", "Replay many stacks with many settings: which is best?"),
    "advise": Command("ebbtide.cli.advise", "simulate", "Advise on commitments, sizes, floors and services."),
    "demo": Command("ebbtide.cli.demo", "demo", "Scale real workers up and to zero on this machine."),
    "probe": Command("ebbtide.cli.probe", "controller", "List what a cluster lacks for Ebbtide."),
    "adopt": Command("ebbtide.cli.adopt", "controller", "Propose rules for pods that charts and operators run."),
    "status": Command("ebbtide.cli.status", "controller", "Show the controller's readings and decisions."),
    "top": Command("ebbtide.cli.top", "controller", "Show pools, queues, nodes and waits; refresh every 5 seconds."),
    "report": Command("ebbtide.cli.report", "controller,simulate", "Draw a page of what a stack did and used."),
    "ledger": Command("ebbtide.cli.ledger", "controller,simulate", "Show what a month cost, and what it saved."),
    "idle": Command("ebbtide.cli.idle", "controller", "Show what is paid for but unused."),
    "dashboards": Command("ebbtide.cli.stacks", "", "Write a stack's Grafana dashboards as files."),
    "why": Command(
        "ebbtide.cli.why",
        "controller",
        "Explain a pool, a budget, a node, a job, a Ray cluster, a service, or a workload that sleeps.",
    ),
    "pause": Command(
        "ebbtide.cli.holds",
        "controller",
        "Stop the controllers from changing pools, budgets, sleeping workloads and Ray clusters.",
    ),
    "resume": Command("ebbtide.cli.holds", "controller", "End a pause, a keep, a wake or a sleep."),
    "keep": Command(
        "ebbtide.cli.holds",
        "controller",
        "Until a given time: no scale-down, no open budgets, no sleep.",
    ),
    "wake": Command(
        "ebbtide.cli.holds", "controller", "Wake Ray clusters and workloads, and keep them awake until a given time."
    ),
    "sleep": Command(
        "ebbtide.cli.holds", "controller", "Let workloads sleep until a given time, also in business hours."
    ),
    "maintenance": Command(
        "ebbtide.cli.maintenance",
        "controller",
        "Open the budgets of fixed workloads for a limited time, or apply a new spec to a Ray cluster.",
    ),
    "release": Command("ebbtide.cli.holds", "controller", "Release the controller's field ownership; values stay."),
}


PANELS = {
    "Write and review": ("init", "new", "check", "stacks", "explain", "render", "preview", "docs"),
    "Estimate": ("demo", "simulate", "sweep", "advise", "prices", "ledger", "idle"),
    "Operate": (
        *("status", "top", "why", "report"),
        *("pause", "resume", "keep", "wake", "sleep", "maintenance", "release", "probe", "adopt"),
    ),
    "Automation": ("changed", "dashboards"),
}
"""The commands as the help groups them, by the user's purpose."""

FORMER = {"preview": {"--simulate": "--trace"}, "sweep": {"--traces": "--trace"}}
"""Former names of options, by command; accepted for one release."""


class LazyGroup(TyperGroup):
    """Lists commands from the table, and imports a command's module only to run it."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the group's own form
        return [name for names in PANELS.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the group's own form
        for title, names in PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name].help) for name in names])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        front, arguments = _prices_first(args)
        return super().parse_args(ctx, front + _with_new_names(arguments))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = _imported(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        if hidden := hidden_package("infra", "components", "controllers"):
            fail(hidden, code=2)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("interrupted", code=130)


def _prices_first(args: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into `--prices`, which may follow the command's name too, and the others."""
    front: list[str] = []
    arguments = list(args)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for place in reversed(range(end)):
        if arguments[place] == "--prices" and place + 1 < end:
            front = [*arguments[place : place + 2], *front]
            del arguments[place : place + 2]
        elif arguments[place].startswith("--prices="):
            front = [arguments.pop(place), *front]
    return front, arguments


def _with_new_names(args: list[str]) -> list[str]:
    """Replace former names of options by current ones; print a line on stderr for each."""
    renamed = FORMER.get(args[0], {}) if args else {}
    end = args.index("--") if "--" in args else len(args)
    new = list(args)
    for place in range(1, end):
        option, equals, value = args[place].partition("=")
        if option in renamed:
            typer.echo(f"{option} is called {renamed[option]} now; the next release no longer reads it", err=True)
            new[place] = f"{renamed[option]}{equals}{value}"
    return new


def _imported(name: str) -> Any:
    """Import the command. If a package is missing, the message names the extra that installs it."""
    listed = COMMANDS[name]
    gc.disable()  # imported objects stay alive; scanning them costs a fifth of a preview
    try:
        module = import_module(listed.module)
    except ModuleNotFoundError as missing:
        advice = f"; pip install 'ebbtide[{listed.extra}]'" if listed.extra else ""
        fail(f"ebbtide {name} needs {missing.name}, which is not installed{advice}", code=2)
    finally:
        gc.freeze()  # later collections skip them
        gc.enable()
    loaded = get_command(module.command)
    return loaded.commands.get(name, loaded) if isinstance(loaded, TyperGroup) else loaded


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Machine-learning platforms on Kubernetes that scale down safely at night.",
    epilog="Example: ebbtide check demo",
)


_PRICES_HELP = "A directory of price files to use instead of the shipped ones (ebbtide prices update writes one)."


@app.callback()
def every_command(
    prices: Annotated[
        Path | None, typer.Option("--prices", metavar="DIR", envvar="EBBTIDE_PRICES", help=_PRICES_HELP)
    ] = None,
) -> None:
    if prices is None:
        return
    from ebbtide.prices.book import PricesInvalid
    from ebbtide.prices.tables import ENVIRONMENT, replacement

    os.environ[ENVIRONMENT] = str(prices.absolute())  # child processes use them too
    try:
        replacement()
    except PricesInvalid as invalid:
        fail(*invalid.problems)


def _listed(name: str) -> Callable[[], None]:
    """A placeholder for a command that is not imported yet."""

    def placeholder() -> None:
        raise AssertionError(f"{name} was listed and never imported")

    return placeholder


for _name, _command in COMMANDS.items():
    app.command(_name, help=_command.help)(_listed(_name))


def main() -> None:
    """The console script."""
    app(prog_name="ebbtide")


if __name__ == "__main__":
    main()
