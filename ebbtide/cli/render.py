"""`ebbtide render`: show the resources of a stack, without cloud, cluster, credentials or network.

One recording as text, JSON or a Mermaid graph; with `--output` also as files for `kubectl apply --server-side`, without
the fields that others write. Values that only AWS knows are placeholders (account 111122223333).
"""

import json
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.console import fail
from ebbtide.preview.render.stack import stack_parts
from ebbtide.recording.graph import mermaid
from ebbtide.recording.needed_secrets import needed_secrets
from ebbtide.recording.output import output_files
from ebbtide.recording.record import record
from ebbtide.recording.resources import as_json
from ebbtide.settings import StackInvalid, load_stack
from ebbtide.text.files import Unwritable, write_directory
from ebbtide.text.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_WIDTH = 160  # columns: enough for whole names where the output is a file


class RenderFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


_STACK_HELP = "A name (demo for stacks/Pulumi.demo.yaml) or a path."
_OUTPUT_HELP = (
    "Write kubernetes/*.yaml, APPLY.md, resources.json, graph.mmd and controller-config.json to this directory."
)


@command.command(epilog="Example: ebbtide render demo --output out/demo")
def render(
    stack: Annotated[str, typer.Argument(metavar="STACK", help=_STACK_HELP)],
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help=_OUTPUT_HELP)] = None,
    format_: Annotated[RenderFormat, typer.Option("--format", help="Output as text or JSON.")] = RenderFormat.TEXT,
    graph: Annotated[bool, typer.Option("--graph", help="Print only a Mermaid graph of the components.")] = False,
) -> None:
    """Show the resources and cost of a stack, offline."""
    out = console(min_width=_WIDTH)
    try:
        settings = load_stack(stack)
        resources = record(settings)
        if output is not None:
            write_directory(output, output_files(resources))
    except (StackInvalid, Unwritable) as error:
        fail(error)
    if graph:
        out.out(mermaid(resources), end="", highlight=False)
    elif format_ is RenderFormat.JSON:
        out.out(json.dumps(as_json(resources), indent=2), highlight=False)
    else:
        for part in stack_parts(settings, resources, datetime.now(UTC).date()):
            out.print(part)
        if output is not None:
            out.print(f"\nwritten to {output}")
            if needed := ", ".join(map(str, needed_secrets(resources))):
                out.print(f"first create the Secrets that pods wait for ({output}/APPLY.md): {needed}")
