"""`ebbtide demo`: a demonstration on this machine in six steps: check, render, live, serve, replay, cost.

Everything is embedded: a Redis and an Envoy on free loopback ports, real RQ jobs, worker processes and model servers,
and a bundled trace. It needs no cloud, no cluster and no network.
"""

import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.rule import Rule

from ebbtide.cli.console import fail, replay_with_bars, write_json
from ebbtide.demo import STACK_FILE
from ebbtide.demo.embedded_envoy import NoEnvoy
from ebbtide.demo.embedded_redis import NoRedis
from ebbtide.demo.live import LiveError, LiveResult, run_live
from ebbtide.demo.serving import Served, run_serving
from ebbtide.lab.report import load_step_picture, strategy_table, write_report
from ebbtide.lab.simulator.replay import ReplayError, ReplayOptions
from ebbtide.lab.simulator.results import Replay, Strategy, as_json
from ebbtide.lab.simulator.setup import with_known_nodes
from ebbtide.lab.simulator.trace.traces import find_trace
from ebbtide.preview.cost.monthly import HOURS_PER_MONTH, group_costs
from ebbtide.preview.render.stack import cost_parts
from ebbtide.recording.graph import component_tree, counts_by_type
from ebbtide.recording.output import controller_document
from ebbtide.recording.record import record
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.summary import summary
from ebbtide.text.files import Unwritable, write_file
from ebbtide.text.terminal import console
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load

TRACE = "openb2023-a"
STEPS = ("check", "render", "live", "serve", "replay", "cost")

command = typer.Typer(add_completion=False, rich_markup_mode=None)


@command.command(epilog="Example: ebbtide demo --days 2 --output out/short")
def demo(
    *,
    stack: Annotated[
        str | None, typer.Option(metavar="STACK", help="A name or a path; default: the demo's own stack.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Directory of the report.")] = Path(
        "out/demo"
    ),
    days: Annotated[int, typer.Option(min=1, max=16, help="Days of the trace to replay.")] = 7,
    jobs: Annotated[int, typer.Option(min=1, max=60, help="Number of real jobs in the live part.")] = 12,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Scale by waiting jobs only, which interrupts running jobs.")
    ] = False,
) -> None:
    """Check, render, run and replay one customer."""
    out = console(fold=True)
    start = monotonic()
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        with _step(out, "check"):
            settings = load_stack(str(STACK_FILE) if stack is None else stack)
            with_known_nodes(settings)
            for line in summary(settings):
                out.print(line)
        with _step(out, "render"):
            resources = record(settings)
            _show_stack(out, settings, resources)
        with _step(out, "live"):
            live = run_live(load(ControllerConfig, controller_document(resources)), out.print, jobs=jobs, unsafe=unsafe)
            for name, value in live.facts().items():
                out.print(f"{name}: {value}")
        with _step(out, "serve"):
            served = run_serving(out.print)
            for name, value in served.facts().items():
                out.print(f"{name}: {value}")
        with _step(out, "replay"):
            replay = _replayed(out, settings, days)
            out.print(strategy_table(replay, assumptions=False))
            out.print("The assumptions are in the report.")
        with _step(out, "cost"):
            _show_costs(out, settings, replay)
            _write(output, replay, live, served)
    except (StackInvalid, NoRedis, NoEnvoy, LiveError, ReplayError, Unwritable) as error:
        fail(error)
    out.print(f"\nDone in {monotonic() - start:.0f} s. Open {output / 'report.html'} in a browser.")
    broken: list[str] = []
    if live.jobs_interrupted and not unsafe:
        broken.append(f"{live.jobs_interrupted} jobs were interrupted")
    if served.lost:
        broken.append(f"{served.lost} requests were lost")
    for name in broken:
        out.print(f"{name}: that must not happen.")
    if broken:
        raise typer.Exit(1)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's signature
    """Handle SIGTERM as Ctrl-C: every process started here is stopped."""
    raise KeyboardInterrupt


@contextmanager
def _step(out: Console, name: str) -> Generator[None]:
    out.print()
    out.print(Rule(f"{STEPS.index(name) + 1}/{len(STEPS)} {name}", align="left"))
    began = monotonic()
    yield
    out.print(f"{name} took {monotonic() - began:.1f} s", style="dim")


def _show_stack(out: Console, settings: StackSettings, resources: Sequence[Resource]) -> None:
    out.print(component_tree(resources, f"stack {settings.stack} ({settings.customer}, {settings.place})"))
    counts = counts_by_type(resources)
    out.print(f"{sum(counts.values())} resources of {len(counts)} types; `ebbtide render {settings.stack}` lists them")


def _replayed(out: Console, settings: StackSettings, days: int) -> Replay:
    out.print(f"{days} days of the trace {TRACE} through the controller's own code, in virtual time")
    return replay_with_bars(settings, find_trace(TRACE), ReplayOptions(days=days))


def _show_costs(out: Console, settings: StackSettings, replay: Replay) -> None:
    product = replay.strategies[Strategy.FIXED_FLEXIBLE]
    monthly = HOURS_PER_MONTH / (24 * replay.days)
    usage = dict.fromkeys(settings.node_groups, 0.0)
    for nodes, hours in product.node_hours_by_group.items():
        usage[nodes.partition("/")[0]] += hours * monthly
    out.print(f"US dollars per month; usage: the replayed {replay.days} days, scaled to a month")
    for part in cost_parts(group_costs(settings, datetime.now(UTC).date(), usage), settings.region):
        out.print(part)


def _write(output: Path, replay: Replay, live: LiveResult, served: Served) -> None:
    write_report(replay, output / "report.html", live=live.facts() | served.facts(), step=served.step)
    picture = load_step_picture(served.step, "A service grows and shrinks with its load", served.caption())
    write_file(output / "step.svg", picture)
    write_json(output / "replay.json", as_json(replay))
    write_json(output / "live.json", live.as_json() | {"served": served.as_json()})
