"""The committed months of all stacks, sorted by what could still be saved."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from ebbtide.ledger.month_file import month_paths, read_entries
from ebbtide.ledger.sheets import saved_text, span
from ebbtide.report.words import DASH, dollars
from ebbtide.terminal import table


def overview(root: Path, month: str) -> tuple[list[dict[str, Any]], RenderableType]:
    """Return the figures and the table of a month, or of each stack's newest one. Raises `LedgerError`."""
    stacks = sorted(_stacks(root, month), key=lambda stack: (-stack["idle_usd"], stack["stack"]))
    columns = ("customer", "stack", "month", ">nodes cost", ">bill", ">saved", ">could still be saved")
    rows = (
        (
            stack["customer"],
            stack["stack"],
            stack["month"],
            span(stack["low_usd"], stack["high_usd"]),
            DASH if stack["bill_usd"] is None else dollars(stack["bill_usd"]),
            saved_text(stack["saved"]),
            f"up to {dollars(stack['idle_usd'])}",
        )
        for stack in stacks
    )
    return stacks, table(columns, rows)


def _stacks(root: Path, month: str) -> Iterator[dict[str, Any]]:
    for path in month_paths(root, month):
        *_, entry = read_entries(path)
        ledger, bill = entry["ledger"], entry["bill"]
        yield {
            "stack": path.parent.name,
            "month": path.stem,
            **{name: ledger[name] for name in ("customer", "low_usd", "high_usd", "idle_usd")},
            "saved": next(iter(ledger["saved"].values()), None),
            "bill_usd": None if bill is None else sum(bill["parts"].values()),
        }
