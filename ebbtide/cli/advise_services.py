"""`ebbtide advise targets` and `advise variants`: what a service's history would have liked."""

from pathlib import Path
from typing import Annotated

import typer

from ebbtide.advice.services.trial import StackText
from ebbtide.cli.console import fail, finish, progress_count, write
from ebbtide.cli.options import AtOnce, JsonFile, Queue, Rate, Stack
from ebbtide.files import read_file
from ebbtide.settings import StackInvalid, load_stack
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import MOST_BYTES, name_of, shown, stack_path
from ebbtide.simulator.replay.setup import ReplayError, require_node_groups
from ebbtide.simulator.services.replay import ServiceOptions
from ebbtide.simulator.trace.counted import RequestTrace, find_requests
from ebbtide.simulator.trace.traces import TraceError, bundled

command = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_TRACE = "A .csv or .csv.gz file of requests by window, or a bundled trace."
_PATCH = "Write the change as a patch for `git apply`; - for standard output alone."
ServiceName = Annotated[str, typer.Argument(metavar="NAME", help="A service, or SERVICE-VARIANT where it has several.")]


@command.command(epilog="Example: ebbtide advise targets STACK embedder-small --trace requests.csv --patch -")
def targets(
    stack: Stack,
    name: ServiceName,
    *,
    trace: Annotated[str, typer.Option(metavar="FILE", help=_TRACE)],
    patch: Annotated[str | None, typer.Option("--patch", metavar="FILE", help=_PATCH)] = None,
    queue: Queue = None,
    rate: Rate = None,
    at_once: AtOnce = None,
    seed: Annotated[int, typer.Option(help="Same seed, same figures.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Which metric, target, min and max keep a service's SLO for least, by its history."""
    from ebbtide.advice.services.targets import as_json, target_advice
    from ebbtide.advice.services.targets_text import as_text
    from ebbtide.settings.patch import difference

    text = _stack_text(stack)
    options = ServiceOptions(rate=rate, at_once=at_once, seed=seed)
    try:
        requests = _requests(trace, queue, rate)
        with progress_count("settings") as progress:
            found = target_advice(text, name, requests, options, progress)
    except (ReplayError, TraceError) as error:
        fail(error)
    diff = difference(text.text, text.changed(found.changes), text.file)
    if patch == "-":
        typer.echo(diff, nl=False)
        typer.echo(found.reason, err=True)
        return
    if patch is not None:
        write(Path(patch), diff)
    finish(json_file, as_json(found), as_text(found, diff))


def _stack_text(stack: str) -> StackText:
    """With what the file says as it is written, since a patch keeps all else of it."""
    try:
        settings = load_stack(stack)
        require_node_groups(settings)
    except (StackInvalid, ReplayError) as error:
        fail(error)
    path = stack_path(stack)
    text = read_file(path, MOST_BYTES).decode("utf-8")
    file = shown(path)
    return StackText(
        text=text,
        file=path.name if Path(file).is_absolute() else file,
        stack=name_of(path),
        beside=files_in(path.parent),
    )


def _requests(trace: str, queue: str | None, rate: float | None) -> RequestTrace:
    """A history is taken as it is; a public trace is of another size, which somebody has to say."""
    requests = find_requests(trace)
    if trace in bundled() and rate is None:
        raise TraceError(
            f"{trace}: wanted --requests-per-second beside a public trace, which is of another size than the service "
            "(for example --requests-per-second 2)"
        )
    return requests if queue is None else requests.only(queue)
