"""Tables in Markdown."""

from collections.abc import Iterable

Row = tuple[str, ...]


def table(heading: Row, rows: Iterable[Row]) -> str:
    """Return the lines of a table, each with its end; a bar inside a cell is escaped."""
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
