"""The committed months of all stacks, sorted by what could still be saved."""

from pathlib import Path
from typing import Any

from rich.console import RenderableType

from ebbtide.lab.ledger.month import LedgerError
from ebbtide.lab.ledger.month_file import committed, month_paths
from ebbtide.lab.ledger.sheets import saved_text, span
from ebbtide.text.money import dollars
from ebbtide.text.sheet import DOLLARS, Sheet, left, right
from ebbtide.text.terminal import sheet_table

_COLUMNS = (
    *left("customer", "stack", "month"),
    *right("nodes cost"),
    *right("bill", unit=DOLLARS),
    *right("saved", "could still be saved"),
)


def overview(root: Path, month: str) -> tuple[list[dict[str, Any]], RenderableType]:
    """Return the figures and the table of one month, or of each stack's newest month.

    Raises `LedgerError` with a line for each file that is damaged: a table without its stack would look complete.
    """
    stacks: list[dict[str, Any]] = []
    faults: list[str] = []
    for path in month_paths(root, month):
        try:
            ledger, bill = committed(path)
        except LedgerError as fault:
            faults.append(str(fault))
            continue
        stacks.append(
            {
                "stack": ledger.stack,
                "month": ledger.month.name,
                "customer": ledger.customer,
                "low_usd": ledger.low_usd,
                "high_usd": ledger.high_usd,
                "idle_usd": ledger.idle_usd,
                "saved": next(iter(ledger.saved.values()), None),
                "bill_usd": None if bill is None else sum(bill["parts"].values()),
            }
        )
    if faults:
        raise LedgerError("\n".join(faults))
    if not stacks:
        raise LedgerError(f"found no {month or 'month'} in stacks/ledger: wanted one (ebbtide ledger STACK --write)")
    stacks.sort(key=lambda stack: (-stack["idle_usd"], stack["stack"]))
    rows = [
        (
            *(stack[name] for name in ("customer", "stack", "month")),
            span(stack["low_usd"], stack["high_usd"]),
            stack["bill_usd"],
            saved_text(stack["saved"]),
            f"up to {dollars(stack['idle_usd'])}",
        )
        for stack in stacks
    ]
    return stacks, sheet_table(Sheet(columns=_COLUMNS, rows=rows))
