"""The committed months of all stacks, sorted by what could still be saved."""

from collections.abc import Iterable
from typing import Any

from rich.console import RenderableType

from ebbtide.ledger.month import Ledger
from ebbtide.ledger.month_file import MonthFile
from ebbtide.ledger.text import saved_text, span
from ebbtide.report.words import DASH, dollars
from ebbtide.terminal import table


def still_to_save(ledger: Ledger) -> float:
    """Return the dollars of nodes that no pod requested: the most that fewer or smaller nodes could save."""
    return sum(share.usd for share in ledger.shares if share.idle)


def ordered(files: Iterable[MonthFile]) -> list[tuple[MonthFile, Ledger]]:
    return sorted(((file, file.ledger) for file in files), key=lambda entry: (-still_to_save(entry[1]), entry[0].stack))


def overview_text(files: Iterable[MonthFile]) -> RenderableType:
    return table(
        ("customer", "stack", "month", ">nodes cost", ">bill", ">saved", ">could still be saved"),
        (
            (
                ledger.customer,
                file.stack,
                file.month,
                span(ledger.low_usd, ledger.high_usd),
                _billed(file),
                saved_text(ledger, ledger.alternatives[0]) if ledger.alternatives else DASH,
                f"up to {dollars(still_to_save(ledger))}",
            )
            for file, ledger in ordered(files)
        ),
    )


def overview_json(files: Iterable[MonthFile]) -> dict[str, Any]:
    return {
        "schema": 1,
        "stacks": [
            {
                "stack": file.stack,
                "month": file.month,
                "entries": len(file.entries),
                "low_usd": round(ledger.low_usd, 4),
                "high_usd": round(ledger.high_usd, 4),
                "still_to_save_usd": round(still_to_save(ledger), 4),
            }
            for file, ledger in ordered(files)
        ],
    }


def _billed(file: MonthFile) -> str:
    bill = file.entries[-1].get("bill")
    return DASH if bill is None else dollars(sum(bill["usd"].values()))
