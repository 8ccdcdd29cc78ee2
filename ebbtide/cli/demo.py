"""`ebbtide demo`: the product's main job on this machine, each step named: check, render, live.

Everything is embedded: a Redis on a free loopback port, real RQ jobs and worker processes. Nothing is asked of a
cloud, a cluster or the network.
"""

import json
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.rule import Rule

from ebbtide.cli.check import summary
from ebbtide.cli.render import controller_document
from ebbtide.demo.embedded_redis import NoRedis
from ebbtide.demo.live import LiveError, run_live
from ebbtide.files import Unwritable, write_file
from ebbtide.preview.recording import record
from ebbtide.preview.resources import Resource
from ebbtide.preview.tree import component_tree, counts_by_type
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.vocabulary.controller_config import load

STEPS = ("check", "render", "live")

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(epilog="Example: ebbtide demo --jobs 4 --output out/short")
def demo(
    *,
    stack: Annotated[str, typer.Option(metavar="STACK", help="A name (demo) or a path.")] = "demo",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the figures go.")] = Path(
        "out/demo"
    ),
    jobs: Annotated[int, typer.Option(min=1, max=60, help="Real jobs for the live part.")] = 12,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Live: scale the naive way, and see running jobs die.")
    ] = False,
) -> None:
    """Check, render and run one customer."""
    out = Console(highlight=False)
    began = monotonic()
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        with _step(out, "check"):
            settings = load_stack(stack)
            for line in summary(settings):
                out.print(line)
        with _step(out, "render"):
            resources = record(settings)
            _show_stack(out, settings, resources)
        with _step(out, "live"):
            live = run_live(load(controller_document(resources)), out.print, jobs=jobs, unsafe=unsafe)
            for what, value in live.facts().items():
                out.print(f"[bold]{what}[/bold]: {value}")
            write_file(output / "live.json", json.dumps(live.as_json(), indent=2) + "\n")
    except (StackInvalid, NoRedis, LiveError, Unwritable) as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(str(error), markup=False)
        raise typer.Exit(1) from None
    out.print(f"\nDone in {monotonic() - began:.0f} s.")
    if live.jobs_interrupted and not unsafe:
        out.print(f"{live.jobs_interrupted} jobs were interrupted: that must not happen.")
        raise typer.Exit(1)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's signature
    """A SIGTERM ends as Ctrl-C does: with every process that was started here gone."""
    raise KeyboardInterrupt


@contextmanager
def _step(out: Console, name: str) -> Generator[None]:
    out.print()
    out.print(Rule(f"{STEPS.index(name) + 1}/{len(STEPS)} {name}", align="left"))
    began = monotonic()
    yield
    out.print(f"[dim]{name} took {monotonic() - began:.1f} s[/dim]")


def _show_stack(out: Console, settings: StackSettings, resources: Sequence[Resource]) -> None:
    out.print(component_tree(resources, f"stack {settings.stack} ({settings.customer}, {settings.region})"))
    counts = counts_by_type(resources)
    out.print(f"{sum(counts.values())} resources of {len(counts)} types; `ebbtide render {settings.stack}` lists them")
