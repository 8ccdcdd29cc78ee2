"""Coverage by package as a Markdown table, from coverage.py's JSON: `python tools/coverage_by_package.py FILE`."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_TOTAL = "total"
_COUNTED = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def package_of(file: str) -> str:
    """Return `ebbtide.settings` for ebbtide/settings/load.py, the package for the lab's; elsewhere the top folder."""
    folders = Path(file).parent.parts
    return ".".join(folders[: 3 if folders[1:2] == ("lab",) else 2] if folders[0] == "ebbtide" else folders[:1])


def table(report: dict[str, Any]) -> str:
    """Return one row per package, in per cent of statements and of branches, with the total last."""
    counts: dict[str, Counter[str]] = {}
    for file, measured in sorted(report["files"].items()):
        for package in (package_of(file), _TOTAL):
            counts.setdefault(package, Counter()).update({name: measured["summary"][name] for name in _COUNTED})
    total = counts.pop(_TOTAL)
    rows = [*((f"`{package}`", count) for package, count in counts.items()), (_TOTAL, total)]
    return "\n".join(("| package | statements | run | branches | taken |", "|---|---|---|---|---|", *map(_row, rows)))


def _row(row: tuple[str, Counter[str]]) -> str:
    name, count = row
    run = _part(count["covered_lines"], count["num_statements"])
    taken = _part(count["covered_branches"], count["num_branches"])
    return f"| {name} | {count['num_statements']} | {run} | {count['num_branches']} | {taken} |"


def _part(covered: int, total: int) -> str:
    return f"{100 * covered / total:.1f} %" if total else "-"


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())))
