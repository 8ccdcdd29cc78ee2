"""`ebbtide demo`: the product's main job on this machine, each step named: check, render, live, replay, cost.

Everything is embedded: a Redis on a free loopback port, real RQ jobs and worker processes, and the trace that ships
with the package. Nothing is asked of a cloud, a cluster or the network.
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
from ebbtide.cli.progress import replay_with_bars
from ebbtide.cli.render import controller_document, cost_parts
from ebbtide.demo.embedded_redis import NoRedis
from ebbtide.demo.live import LiveError, LiveResult, run_live
from ebbtide.files import Unwritable, write_file
from ebbtide.preview.cost import HOURS_PER_MONTH, group_costs
from ebbtide.preview.recording import record
from ebbtide.preview.resources import Resource
from ebbtide.preview.tree import component_tree, counts_by_type
from ebbtide.prices import NoPrice
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.simulator.document import as_json
from ebbtide.simulator.replay import ReplayError, ReplayOptions
from ebbtide.simulator.report import strategy_table, write_report
from ebbtide.simulator.results import Replay
from ebbtide.simulator.scene import require_node_groups
from ebbtide.simulator.strategies import Strategy
from ebbtide.simulator.traces import find_trace
from ebbtide.vocabulary.controller_config import load

TRACE = "openb2023-a"
STEPS = ("check", "render", "live", "replay", "cost")

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(epilog="Example: ebbtide demo --days 2 --output out/short")
def demo(
    *,
    stack: Annotated[str, typer.Option(metavar="STACK", help="A name (demo) or a path.")] = "demo",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the report goes.")] = Path(
        "out/demo"
    ),
    days: Annotated[int, typer.Option(min=1, max=16, help="Days of the trace to replay.")] = 7,
    jobs: Annotated[int, typer.Option(min=1, max=60, help="Real jobs for the live part.")] = 12,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Live: scale the naive way, and see running jobs die.")
    ] = False,
) -> None:
    """Check, render, run and replay one customer."""
    out = Console(highlight=False)
    began = monotonic()
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        with _step(out, "check"):
            settings = load_stack(stack)
            require_node_groups(settings)
            for line in summary(settings):
                out.print(line)
        with _step(out, "render"):
            resources = record(settings)
            _show_stack(out, settings, resources)
        with _step(out, "live"):
            live = run_live(load(controller_document(resources)), out.print, jobs=jobs, unsafe=unsafe)
            for what, value in live.facts().items():
                out.print(f"[bold]{what}[/bold]: {value}")
        with _step(out, "replay"):
            found = _replayed(out, settings, days)
            out.print(strategy_table(found, assumptions=False))
            out.print("What was assumed is in the report.")
        with _step(out, "cost"):
            _show_costs(out, settings, found)
            _write(output, found, live)
    except (StackInvalid, NoRedis, LiveError, ReplayError, NoPrice, Unwritable) as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(str(error), markup=False)
        raise typer.Exit(1) from None
    out.print(f"\nDone in {monotonic() - began:.0f} s. Open [bold]{output / 'report.html'}[/bold] in a browser.")
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
    out.print(component_tree(resources, f"stack {settings.stack} ({settings.customer}, {settings.place})"))
    counts = counts_by_type(resources)
    out.print(f"{sum(counts.values())} resources of {len(counts)} types; `ebbtide render {settings.stack}` lists them")


def _replayed(out: Console, settings: StackSettings, days: int) -> Replay:
    out.print(f"{days} days of {TRACE} through the controller's own loop, in virtual time")
    return replay_with_bars(out, settings, find_trace(TRACE), ReplayOptions(days=days))


def _show_costs(out: Console, settings: StackSettings, found: Replay) -> None:
    product = found.strategies[Strategy.FIXED_FLEXIBLE]
    monthly = HOURS_PER_MONTH / (24 * found.days)
    usage = {group: hours * monthly for group, hours in product.node_hours_by_group.items()}
    out.print(f"US dollars per month; usage as replayed, {found.days} days taken for a month")
    for part in cost_parts(group_costs(settings, usage)):
        out.print(part)


def _write(output: Path, found: Replay, live: LiveResult) -> None:
    write_report(found, output / "report.html", live=live.facts())
    write_file(output / "replay.json", json.dumps(as_json(found), indent=2) + "\n")
    write_file(output / "live.json", json.dumps(live.as_json(), indent=2) + "\n")
