"""`python -m tests.fidelity FILE --json OUT`: replay scenarios of the cluster autoscaler, recorded or made up.

Reads one file, nothing else. The run that is shown is chosen without a look at what was recorded.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ebbtide.cli.console import fail, progress_count, write_json
from ebbtide.text.sheet import Sheet, left, right
from ebbtide.text.terminal import console, sheet_table
from tests.fidelity.draws import Draws, draw
from tests.fidelity.file import ScenarioInvalid, read_scenarios
from tests.fidelity.scenario import AutoscalerScenario, Plateau, differences, plateaus, recorded

command = typer.Typer(rich_markup_mode=None)

_FILE = "A JSON file: a list of scenarios, one alone, or a mapping with them under `scenarios`."
_DRAWS = "How many runs, with seeds from 0 on, to choose the shown one from."


@command.command(epilog="Example: python -m tests.fidelity tests/data/ca-scenarios/given.json --json found.json")
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
        fail(error)
    for remark in read.remarks:
        typer.echo(remark, err=True)
    found: list[tuple[AutoscalerScenario, Draws]] = []
    with progress_count("scenarios") as progress:
        for one in read.scenarios:
            found.append((one, draw(one, draws)))
            progress(len(found), len(read.scenarios))
    if json_file is not None:
        write_json(json_file, {"scenarios": [_as_json(one, drawn) for one, drawn in found]})
    _show(found)


def _as_json(one: AutoscalerScenario, drawn: Draws) -> dict[str, Any]:
    run = drawn.shown
    return {
        "name": one["name"],
        "nodes": [{"t_s": round(t, 1), "nodes": dict(counts)} for t, counts in run.nodes],
        "final_packing": [list(node) for node in run.final_packing],
        "unremovable_reasons": list(run.unremovable_reasons),
        "differences": differences(one, run),
    }


def _show(found: Sequence[tuple[AutoscalerScenario, Draws]]) -> None:
    columns = [
        *left("scenario", "nodes, and since when", fold=True),
        *right("recording holds in", "worst time", fold=True),
    ]
    out = console(fold=True)
    out.print(sheet_table(Sheet(columns=columns, rows=[_row(one, drawn) for one, drawn in found])))
    for one, drawn in found:
        for line in differences(one, drawn.shown):
            out.print(f"{one['name']}: {line}", soft_wrap=True)


def _row(one: AutoscalerScenario, drawn: Draws) -> tuple[str, ...]:
    holds = f"{drawn.holding} of {drawn.of}" if recorded(one) else "not recorded"
    worst = f"{drawn.apart_s:.1f} s off" if recorded(one) and drawn.holding else ""
    return (str(one["name"]), _nodes(plateaus(drawn.shown.nodes, float(one["end_s"]))), holds, worst)


def _nodes(rows: Sequence[Plateau]) -> str:
    return "; ".join(
        f"{', '.join(f'{count} {group}' for group, count in counts.items()) or 'none'} at {t:.1f} s"
        for t, counts in rows
    )


if __name__ == "__main__":
    command()
