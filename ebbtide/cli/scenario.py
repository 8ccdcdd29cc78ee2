"""`ebbtide scenario`: replay scenarios of the cluster autoscaler on the modelled cluster, recorded or made up.

Reads one file, nothing else. The run that is shown is chosen without a look at what was recorded.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ebbtide.cli.progress import counted
from ebbtide.files import Unwritable, write_file
from ebbtide.simulator.scenario import Plateau, Scenario, differences, plateaus, recorded
from ebbtide.simulator.scenario_draws import Draws, draw
from ebbtide.simulator.scenario_file import ScenarioInvalid, read_scenarios

command = typer.Typer(rich_markup_mode=None)

_FILE = "A JSON file: a list of scenarios, one alone, or a mapping with them under `scenarios`."
_DRAWS = "How many runs, with seeds from 0 on, to choose the shown one from."


@command.command(epilog="Example: ebbtide scenario tests/data/ca-scenarios/given.json --json found.json")
def scenario(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=_FILE)],
    *,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", dir_okay=False, help="Write what was found as JSON.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, max=10_000, help=_DRAWS)] = 100,
) -> None:
    """Replay scenarios of the cluster autoscaler."""
    try:
        read = read_scenarios(file)
    except ScenarioInvalid as error:
        _fail(str(error))
    for remark in read.remarks:
        typer.echo(remark, err=True)
    found: list[tuple[Scenario, Draws]] = []
    with counted(Console(stderr=True), "scenarios") as progress:
        for one in read.scenarios:
            found.append((one, draw(one, draws)))
            progress(len(found), len(read.scenarios))
    if json_file is not None:
        document = {"scenarios": [_as_json(one, drawn) for one, drawn in found]}
        try:
            write_file(json_file, json.dumps(document, indent=2) + "\n")
        except Unwritable as error:
            _fail(str(error))
    _show(found)


def _as_json(one: Scenario, drawn: Draws) -> dict[str, Any]:
    run = drawn.shown
    return {
        "name": one["name"],
        "nodes": [{"t_s": round(t, 1), "nodes": dict(counts)} for t, counts in run.nodes],
        "final_packing": [list(node) for node in run.final_packing],
        "unremovable_reasons": list(run.unremovable_reasons),
        "differences": differences(one, run),
    }


def _show(found: Sequence[tuple[Scenario, Draws]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("scenario", overflow="fold")
    table.add_column("nodes, and since when", overflow="fold")
    table.add_column("recording holds in", justify="right")
    table.add_column("worst time", justify="right")
    for one, drawn in found:
        told = f"{drawn.holding} of {drawn.of}" if recorded(one) else "not recorded"
        worst = f"{drawn.apart_s:.1f} s off" if recorded(one) and drawn.holding else ""
        table.add_row(str(one["name"]), _nodes(plateaus(drawn.shown.nodes, float(one["end_s"]))), told, worst)
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(table)
    for one, drawn in found:
        for line in differences(one, drawn.shown):
            console.print(f"{one['name']}: {line}", soft_wrap=True)


def _nodes(rows: Sequence[Plateau]) -> str:
    return "; ".join(
        f"{', '.join(f'{count} {group}' for group, count in counts.items()) or 'none'} at {t:.1f} s"
        for t, counts in rows
    )


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)
