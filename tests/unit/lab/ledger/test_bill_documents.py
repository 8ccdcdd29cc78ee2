"""What follows from a bill: causes that add up, FOCUS 1.2, and the month's file."""

import csv
import html
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.ledger.bill.difference import Difference, difference_of
from ebbtide.lab.ledger.bill.focus import focus_text
from ebbtide.lab.ledger.bill.reading import read_bill
from ebbtide.lab.ledger.month import Alternative, CostShare, Gap, Ledger, LedgerError, NodeHours, plain
from ebbtide.lab.ledger.month_file import add_entry, committed, month_path, read_entries
from ebbtide.lab.ledger.overview import overview
from ebbtide.lab.ledger.page import render_page
from ebbtide.lab.ledger.sheets import as_text, view_of
from ebbtide.text.sheet import csv_text, markdown
from tests.builders.cur import SECRETS, Cells, apart, known_month, node, write_csv
from tests.builders.terminal import shown_text
from tests.paths import ROOT
from tests.unit.lab.ledger.test_bill import HOUR, MONTH, SETTINGS, bill_of

WRITTEN = datetime(2026, 12, 4, 5, tzinfo=UTC)


def paid(day: date, hours: float, usd: float, *, kind: str = "m7i.4xlarge", **changes: Any) -> NodeHours:
    values: dict[str, Any] = {
        "day": day,
        "group": "flexible",
        "category": "flexible",
        "instance_type": kind,
        "capacity_type": "on-demand",
        "hours": hours,
        "usd": usd,
        "boots": 1,
        "boot_usd": 0.05,
    }
    return NodeHours(**{**values, **changes})


def ledger_with(*rows: NodeHours, gaps: Sequence[Gap] = (), plan_usd: float = 0.0, idle: float = 5.0) -> Ledger:
    return Ledger(
        stack="acme",
        customer="acme",
        region="us-east-1",
        month=MONTH,
        incomplete="",
        paid=rows,
        plan_usd=plan_usd,
        gaps=tuple(gaps),
        alternatives=(Alternative(name="before", low_usd=50.0, high_usd=60.0, assumptions=("12 nodes",)),),
        shares=(
            CostShare(group="flexible", category="flexible", workload="train", usd=30.0),
            CostShare(group="flexible", category="", workload="idle", usd=idle, idle=True),
        ),
        prices={"on-demand": "shipped, 2026-07-20"},
        source="Prometheus",
        notes=(),
    )


LEDGER = ledger_with(
    paid(date(2026, 11, 2), 46.0, 46 * 0.81),
    paid(date(2026, 11, 2), 24.0, 24 * 0.12, kind="c5.xlarge", capacity_type="spot", group="batch", category="spot"),
    gaps=(Gap(begin=HOUR, end=HOUR + timedelta(hours=1), low_usd=1.0, high_usd=2.0, why="no samples"),),
    plan_usd=-3.0,
)


def test_what_the_nodes_cost_is_rows_and_plan_then_boots_and_gaps() -> None:
    recorded = 46 * 0.81 + 24 * 0.12 - 3.0

    assert LEDGER.recorded_usd == pytest.approx(recorded)
    assert LEDGER.low_usd == pytest.approx(recorded + 2 * 0.05 + 1.0)
    assert LEDGER.high_usd == pytest.approx(recorded + 2 * 0.05 + 2.0)


def causes(found: Difference) -> dict[str, float]:
    return {name: round(low, 4) for name, (low, _) in found.causes.items()}


def test_each_cause_of_the_difference_is_a_number(tmp_path: Path) -> None:
    found = difference_of(LEDGER, bill_of(tmp_path, *known_month()))

    assert causes(found) == {
        "Savings Plans and reservations": round(24 * (0.55 - 0.80), 4),
        "the bill's public prices against the ledger's": round(48 * (0.80 - 0.81), 4),
        "spot prices": round(24 * (0.10 - 0.12), 4),
        "hours that one of them lacks": round(2 * 0.81, 4),
        "boots, which the ledger estimates": -0.1,
        "the plan that the stack file assumes": 3.0,
        "gaps of the recording": -2.0,
    }


def test_hours_of_the_month_of_utc_outside_the_ledgers_are_a_cause(tmp_path: Path) -> None:
    """The first hour of the billing month is in October in New York."""
    found = difference_of(ledger_with(), bill_of(tmp_path, node(datetime(2026, 11, 1, tzinfo=UTC), 0.8)))

    assert causes(found) == {"hours of the billing month outside the ledger's": 0.8}


AMOUNTS = st.floats(0.01, 100).map(lambda usd: round(usd, 2))


@given(data=st.data())
def test_causes_add_up_to_the_difference(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    kinds = st.sampled_from(["m7i.4xlarge", "c5.xlarge", "g5.2xlarge"])
    capacity = st.sampled_from(["on-demand", "spot"])
    days = st.dates(date(2026, 11, 1), date(2026, 11, 30))
    rows = [
        paid(day, data.draw(AMOUNTS), data.draw(AMOUNTS), kind=kind, capacity_type=kept)
        for day, kind, kept in data.draw(st.lists(st.tuples(days, kinds, capacity), max_size=4))
    ]
    billed = [
        node(
            datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=hour),
            data.draw(AMOUNTS),
            kind=kind,
            usage="SpotUsage" if kept == "spot" else "BoxUsage",
            line_item_usage_amount=data.draw(st.floats(0.01, 1)),
            line_item_resource_id=f"i-{number:017x}",
            pricing_public_on_demand_cost=data.draw(AMOUNTS),
        )
        for number, (hour, kind, kept) in enumerate(
            data.draw(st.lists(st.tuples(st.integers(0, 719), kinds, capacity), min_size=1, max_size=4))
        )
    ]
    ledger = ledger_with(*rows, gaps=LEDGER.gaps, plan_usd=data.draw(AMOUNTS))

    found = difference_of(ledger, bill_of(tmp_path_factory.mktemp("bill"), *billed))

    assert sum(low for low, _ in found.causes.values()) == pytest.approx(found.low_usd, abs=0.05)
    assert sum(high for _, high in found.causes.values()) == pytest.approx(found.high_usd, abs=0.05)


def focus_of(folder: Path, *rows: Cells) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(focus_text(bill_of(folder, *rows), LEDGER))))


SPECIFIED = {
    row["column"]: row
    for row in csv.DictReader((ROOT / "tests" / "data" / "focus-1.2-columns.csv").read_text().splitlines())
}


def test_focus_has_each_mandatory_column_and_nulls_only_where_allowed(tmp_path: Path) -> None:
    rows = focus_of(tmp_path, *known_month())
    columns = [*rows[0]]

    assert {name for name, row in SPECIFIED.items() if row["level"] == "Mandatory"} <= set(columns)
    assert all(name in SPECIFIED or name.startswith("x_") for name in columns)
    never_null = [name for name in columns if name in SPECIFIED and SPECIFIED[name]["nulls"] == "False"]
    assert not [(name, row) for row in rows for name in never_null if row[name] == ""]


def test_focus_keeps_the_values_and_forms_of_the_specification(tmp_path: Path) -> None:
    refund = apart(
        datetime(2026, 10, 3, tzinfo=UTC), "Refund", -1.0, bill_billing_period_start_date="2026-11-01T00:00:00Z"
    )

    rows = focus_of(tmp_path, *known_month(), refund)

    assert {row["ChargeCategory"] for row in rows} <= {"Usage", "Purchase", "Tax", "Credit", "Adjustment"}
    assert [row["ChargeClass"] for row in rows if "refund" in row["ChargeDescription"]] == ["", "Correction"]
    for row in rows:
        assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
        assert all(float(row[name]) or True for name in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"))
        measured = row["ChargeCategory"] in ("Usage", "Purchase")
        assert (row["PricingQuantity"] != "", row["PricingUnit"] != "", row["PricingCategory"] != "") == (measured,) * 3


def test_focus_divides_nodes_among_workloads_and_loses_no_dollar(tmp_path: Path) -> None:
    rows = focus_of(tmp_path, *known_month())
    nodes = [row for row in rows if row["x_NodeGroup"] == "flexible"]

    train = sum(float(row["EffectiveCost"]) for row in nodes if row["x_Workload"] == "train")
    idle = sum(float(row["EffectiveCost"]) for row in nodes if row["x_Idle"] == "true")
    assert (train, idle) == (pytest.approx(24 * 1.35 * 30 / 35), pytest.approx(24 * 1.35 * 5 / 35))
    bill = bill_of(tmp_path, *known_month())
    total = sum(bill.parts.values()) + sum(bill.apart.values())
    assert sum(float(row["EffectiveCost"]) for row in rows) == pytest.approx(total)


def test_focus_bills_what_the_invoice_has_for_the_stack(tmp_path: Path) -> None:
    """An hour under a plan is billed by the plan's fee, which belongs to the organisation."""
    rows = focus_of(tmp_path, *known_month())

    hourly = 0.80 + 0.10 + 0.10 + 0.02 + 0.045 + 0.0225 + 0.03
    assert sum(float(row["BilledCost"]) for row in rows) == pytest.approx(24 * hourly - 5 - 2 + 3)


def document_of(folder: Path, ledger: Ledger, *rows: Cells) -> dict[str, Any]:
    bill = bill_of(folder, *rows)
    difference = plain(difference_of(ledger, bill))
    return {"ledger": plain(ledger), "bill": plain(bill), "difference": difference}


def test_late_credits_are_a_second_entry_and_the_first_stays(tmp_path: Path) -> None:
    path = month_path(tmp_path, "acme", "2026-11")
    assert add_entry(path, {"ledger": plain(LEDGER)}, WRITTEN)
    first = json.loads(path.read_text())["entries"][0]

    assert add_entry(path, document_of(tmp_path, LEDGER, *known_month()), WRITTEN)
    assert add_entry(path, document_of(tmp_path, LEDGER, *known_month(), apart(HOUR, "Credit", -9.0)), WRITTEN)

    entries = json.loads(path.read_text())["entries"]
    assert entries[0] == first
    assert [entry["previous"] for entry in entries[1:]] == [entry["checksum"] for entry in entries[:-1]]
    assert len(entries) == 3
    assert entries[2]["bill"]["apart"]["Credit"] == -14.0


def test_the_same_month_twice_changes_no_byte(tmp_path: Path) -> None:
    path = month_path(tmp_path, "acme", "2026-11")
    add_entry(path, document_of(tmp_path, LEDGER, *known_month()), WRITTEN)
    before = path.read_bytes()

    assert not add_entry(path, document_of(tmp_path, LEDGER, *known_month()), WRITTEN + timedelta(days=1))
    assert not add_entry(path, {"ledger": plain(LEDGER)}, WRITTEN + timedelta(days=2))
    assert path.read_bytes() == before


@pytest.mark.parametrize(("usd", "written"), [(None, False), (-9.0, True)])
def test_a_bill_in_the_form_of_a_former_release_is_written_again_only_if_it_changed(
    tmp_path: Path, usd: float | None, *, written: bool
) -> None:
    path = month_path(tmp_path, "acme", "2026-11")
    former = document_of(tmp_path, LEDGER, *known_month())
    for document, names in (("bill", ("pods", "shared_capacity_usd")), ("difference", ("nodes_usd", "saved"))):
        former[document] = {name: value for name, value in former[document].items() if name not in names}
    add_entry(path, former, WRITTEN)
    late = [] if usd is None else [apart(HOUR, "Credit", usd)]

    assert add_entry(path, document_of(tmp_path, LEDGER, *known_month(), *late), WRITTEN) is written


def test_a_ledger_comes_back_from_its_file(tmp_path: Path) -> None:
    path = month_path(tmp_path, "acme", "2026-11")
    add_entry(path, {"ledger": plain(LEDGER)}, WRITTEN)

    found, _ = committed(path)

    assert found is not None
    assert plain(found) == plain(LEDGER)


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"entries": [1]}', '{"entries": []}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "2026-11.json"
    path.write_text(text)

    with pytest.raises(LedgerError, match="wanted a file that ebbtide ledger --write made"):
        read_entries(path)


def test_an_entry_that_was_changed_by_hand_is_refused(tmp_path: Path) -> None:
    path = month_path(tmp_path, "acme", "2026-11")
    add_entry(path, {"ledger": plain(LEDGER)}, WRITTEN)
    path.write_text(path.read_text().replace('"plan_usd": -3.0', '"plan_usd": -30.0'))

    with pytest.raises(LedgerError, match="entry 1: wanted the checksum of its content"):
        add_entry(path, {"ledger": plain(LEDGER)}, WRITTEN)


@pytest.mark.parametrize("copy", ["acme/2026-12.json", "basin/2026-11.json"])
def test_a_copy_under_another_name_is_no_ledger_of_that_name(tmp_path: Path, copy: str) -> None:
    path = month_path(tmp_path, "acme", "2026-11")
    add_entry(path, {"ledger": plain(LEDGER)}, WRITTEN)
    other = path.parents[1] / copy
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(path.read_bytes())

    with pytest.raises(LedgerError, match=r"wanted the ledger of .*, found the ledger of acme 2026-11"):
        committed(other)


def test_all_customers_are_sorted_by_what_could_still_be_saved(tmp_path: Path) -> None:
    for stack, idle in (("acme", 1.0), ("basin", 900.0), ("cove", 40.0)):
        found = replace(ledger_with(idle=idle), stack=stack)
        add_entry(month_path(tmp_path, stack, "2026-11"), {"ledger": plain(found)}, WRITTEN)

    stacks, _ = overview(tmp_path, "")
    assert [(stack["stack"], stack["idle_usd"]) for stack in stacks] == [("basin", 900), ("cove", 40), ("acme", 1)]


def test_who_caused_it_adds_up_to_the_recorded_dollars() -> None:
    dollars = [row[1] for row in view_of(LEDGER).sheets["caused by"].body]

    assert sum(float(text.replace("$", "").replace("\N{MINUS SIGN}", "-")) for text in dollars) == pytest.approx(
        sum(share.usd for share in LEDGER.shares) + LEDGER.plan_usd
    )


def test_each_column_of_a_table_is_on_the_terminal_on_the_page_and_in_its_csv_and_markdown() -> None:
    view = view_of(LEDGER)
    terminal, page = shown_text(as_text(view)), html.unescape(render_page(view))

    for sheet in view.sheets.values():
        headings = [column.name for column in sheet.columns]
        assert "  ".join(headings) in re.sub(" {2,}", "  ", terminal)
        assert "".join(f'<th scope="col">{heading}</th>' for heading in headings) in page
        assert f"| {' | '.join(headings)} |" in markdown(sheet, str)
        in_csv = next(csv.reader(io.StringIO(csv_text(sheet))))
        assert [heading.removesuffix(" (USD)") for heading in in_csv] == headings
        for name, *cells in sheet.body:
            assert f'<th scope="row">{name}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) in page


def test_no_output_holds_a_secret_of_the_report(tmp_path: Path) -> None:
    rows = [*known_month(), apart(HOUR, "Tax", 1.0, line_item_usage_type="gh@corp.example", pricing_unit="Hopper")]
    bill = read_bill([write_csv(tmp_path / "cur.csv", rows)], SETTINGS, MONTH)
    view = view_of(LEDGER, bill, difference_of(LEDGER, bill))
    path = month_path(tmp_path, "acme", "2026-11")
    add_entry(path, document_of(tmp_path, LEDGER, *rows), WRITTEN)

    outputs = [render_page(view), path.read_text(), focus_text(bill, LEDGER), str(view)]

    assert not [(secret, text[:80]) for secret in SECRETS for text in outputs if secret in text]


def test_use_and_coverage_of_commitments_are_stated(tmp_path: Path) -> None:
    bill = bill_of(tmp_path, *known_month())
    view = view_of(LEDGER, bill, difference_of(LEDGER, bill))

    text = "\n".join(view.assumptions["bill"])

    assert "Savings Plans, entire report: 92 % of $14.40 used." in text
    assert "Commitments cover 50 % of this stack's nodes at public prices, spot excluded." in text
