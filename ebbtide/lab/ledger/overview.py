"""The committed months of all stacks, sorted by what could still be saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType

from ebbtide.lab.ledger.bill.difference import Difference
from ebbtide.lab.ledger.month import BEFORE, LIST_PRICES, Ledger, LedgerError
from ebbtide.lab.ledger.month_file import committed, month_paths, refuse_cut
from ebbtide.lab.ledger.sheets import basis, cost_text, could_save_text, saved_by, saved_text
from ebbtide.text.sheet import CENTS, Cell, Sheet, left, right
from ebbtide.text.terminal import sheet_table

_CAPTION = (
    "Nodes at list prices before commitments and discounts unless other prices are named, or at the bill's. "
    "Saved: against costs.before."
)
_COLUMNS = (
    *left("customer", "stack", "month"),
    *right("nodes", fold=True),
    *right("nodes on the bill", "bill", unit=CENTS, fold=True),
    *right("saved", "could still be saved", fold=True),
)


def overview(root: Path, month: str) -> tuple[list[dict[str, Any]], RenderableType]:
    """Return the figures and the table of one month, or of each stack's newest month.

    Raises `LedgerError` with a line for each file that is damaged: a table without its stack would look complete.
    """
    months: list[tuple[Ledger, Difference | None]] = []
    faults: list[str] = []
    unchecked: set[str] = set()
    for path in month_paths(root, month):
        try:
            unchecked.add(refuse_cut(path, root))
            months.append(committed(path))
        except LedgerError as fault:
            faults.append(str(fault))
    if faults:
        raise LedgerError("\n".join(faults))
    if not months:
        raise LedgerError(f"found no {month or 'month'} in stacks/ledger: wanted one (ebbtide ledger STACK --write)")
    months.sort(key=lambda of: (of[0].could_save_usd is None, -(of[0].could_save_usd or 0.0), of[0].stack))
    sheet = Sheet(columns=_COLUMNS, rows=[_row(*of) for of in months])
    return [_document(*of) for of in months], Group(sheet_table(sheet), _CAPTION, *sorted(filter(None, unchecked)))


def _document(ledger: Ledger, billed: Difference | None) -> dict[str, Any]:
    return {
        "stack": ledger.stack,
        "month": ledger.month.name,
        "customer": ledger.customer,
        "low_usd": ledger.low_usd,
        "high_usd": ledger.high_usd,
        "model_usd": ledger.model_usd,
        "basis": basis(ledger),
        "idle_usd": ledger.idle_usd,
        "could_save_usd": ledger.could_save_usd,
        "saved": saved_by(ledger, billed)[0],
        "saved_by_bill": saved_by(ledger, billed)[1] is not None,
        "bill_nodes_usd": billed and billed.nodes_usd,
        "bill_usd": billed and billed.all_usd,
    }


def _row(ledger: Ledger, billed: Difference | None) -> Sequence[Cell]:
    saved, billed_usd = saved_by(ledger, billed)
    at_list = ledger.basis == LIST_PRICES and not ledger.plan_usd
    rates = "" if billed_usd is None else " by the bill"
    return (
        ledger.customer,
        ledger.stack,
        ledger.month.name,
        f"{cost_text(ledger)}{'' if at_list else f' {basis(ledger)}'}",
        billed and billed.nodes_usd,
        billed and billed.all_usd,
        None if saved is None else f"{saved_text(ledger, BEFORE, saved, billed_usd)}{rates}",
        could_save_text(ledger),
    )
