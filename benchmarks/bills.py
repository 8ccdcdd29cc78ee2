"""How far the estimate lies from the bills that were worked by hand: sums and lines of docs/bills.md, in per cent."""

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figures
from ebbtide.preview.comparison import compare_costs
from tests.builders_bills import Bill, bills, columns
from tests.builders_settings import loaded


def measured() -> dict[str, Figures]:
    with TemporaryDirectory() as folder:
        off = [deviation for bill in bills() for deviation in _deviations(bill, Path(folder))]
    return {"bills_worst_deviation_percent": {"value": round(100 * max(off), 4), "bills": len(bills())}}


def _deviations(bill: Bill, folder: Path) -> list[float]:
    """Of each sum, and of each line of a dollar or more: below that the rounding to cents is all there is."""
    estimate = compare_costs(None, loaded(bill.stack, folder))
    amounts = {line.name: line.after for line in estimate.lines} | {"together": estimate.after}
    pairs = [
        (found or 0.0, wanted)
        for name in bill.rows
        for found, wanted in zip(columns(amounts[name]), bill.amounts(name), strict=True)
    ]
    return [abs(found - wanted) / wanted for found, wanted in pairs if wanted >= 1]
