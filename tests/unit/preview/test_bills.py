"""The bills of docs/evidence/bills.md: their own arithmetic, and every line of them against the estimate."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.preview.cost.comparison import compare_costs
from tests.builders.bills import Bill, bills, columns, number, worked_out
from tests.builders.settings import loaded

WITHIN = 0.03
CENT = 0.0051


def test_there_are_twenty_one_bills_of_different_stacks() -> None:
    assert len({bill.stack for bill in bills()}) == len(bills()) == 21


@pytest.mark.parametrize("bill", bills(), ids=lambda bill: bill.title)
def test_the_arithmetic_of_the_page_is_right(bill: Bill) -> None:
    worked = [cell.rsplit("=", 1) for cells in bill.rows.values() for cell in cells if "=" in cell]
    lines = [bill.amounts(line) for line in bill.rows if line != "total"]

    assert len(worked) > 8
    assert [" = ".join(parts) for parts in worked if abs(worked_out(parts[0]) - number(parts[1])) > CENT] == []
    assert bill.amounts("total") == pytest.approx([sum(column) for column in zip(*lines, strict=True)])


@pytest.mark.parametrize("bill", bills(), ids=lambda bill: bill.title)
def test_the_estimate_agrees_with_the_bill_worked_by_hand(bill: Bill, tmp_path: Path) -> None:
    estimate = compare_costs(None, loaded(bill.stack, tmp_path), day=date(2026, 6, 1))

    assert {line.name for line in estimate.lines} == bill.rows.keys() - {"total"}
    for line in estimate.lines:
        assert columns(line.after) == pytest.approx(bill.amounts(line.name), rel=WITHIN, abs=CENT), line.name
    assert columns(estimate.after) == pytest.approx(bill.amounts("total"), rel=WITHIN)
