"""One seed of a row of docs/evidence/results-on-spot.md, played again: its figures are within the row's ranges."""

import re
from pathlib import Path

import pytest

from benchmarks.spot_file import FileCase, played

pytestmark = pytest.mark.whole

PAGE = Path(__file__).parents[3] / "docs" / "evidence" / "results-on-spot.md"
TRACE = "openb2023-a"


def days() -> int | None:
    given = re.search(r"--days (\d+)", PAGE.read_text(encoding="utf-8"))
    return None if given is None else int(given[1])


def row(*begin: str) -> list[str]:
    """The cells after these first ones, in the table of the trace."""
    _, _, below = PAGE.read_text(encoding="utf-8").partition(f"### {TRACE}\n")
    first = f"| {' | '.join(begin)} | "
    (line,) = (
        line for line in below.partition("\n###")[0].partition("\n## ")[0].splitlines() if line.startswith(first)
    )
    return line.removeprefix(first).removesuffix(" |").split(" | ")


def within(figure: float, cell: str, rounding: float) -> bool:
    ends = [float(re.sub(r"[ %,+]", "", end).replace("=", "0")) for end in cell.split(" to ")]
    return ends[0] - rounding <= figure <= ends[-1] + rounding


@pytest.mark.parametrize("shapes", [1, 2])
def test_a_row_is_what_the_code_gives(shapes: int) -> None:
    today = played(FileCase(trace=TRACE, seed=0, days=days()))
    spot = played(FileCase(trace=TRACE, seed=0, days=days(), shapes=shapes, rate=20, shortages=True))
    dollars, completion, on_spot, interrupted, repeated, not_ended = row(str(shapes), "synthetic", "20", "all")

    assert within(spot["usd"] / today["usd"], dollars, 0.005)
    assert within(spot["completion_p95_s"] / today["completion_p95_s"], completion, 0.0005)
    assert within(100 * spot["on_spot"], on_spot, 0.5)
    assert within(spot["interrupted"], interrupted, 0)
    assert spot["lost_share"] == 0
    assert repeated == "0 %"
    assert within(spot["unfinished"] - today["unfinished"], not_ended, 0)
    assert spot["done"] + spot["unfinished"] == spot["jobs"] == today["jobs"]
