"""Rows that a folder has twice: copies count once, and two deliveries are refused with the names of their files."""

import gzip
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ebbtide.lab.ledger.bill.bill import Bill
from ebbtide.lab.ledger.bill.deliveries import PackedTable
from ebbtide.lab.ledger.bill.lines import Charge, Part
from ebbtide.lab.ledger.bill.reading import read_bill
from ebbtide.lab.ledger.month import LedgerError, plain
from ebbtide.lab.ledger.sheets import bill_notes
from tests.builders.cur import (
    BALANCER,
    Cells,
    apart,
    covered,
    delivered,
    known_month,
    node,
    service,
    write_csv,
    write_parquet,
)
from tests.unit.lab.ledger.test_bill import HOUR, MONTH, SETTINGS, bill_of

ROWS = known_month()
EARLIER = ROWS[:121]  # of eleven hours, in each of which five resources have an hour
WANTED = "wanted one delivery, each row once, found"


def relevant(rows: Sequence[Cells]) -> Sequence[Cells]:
    """Return the rows of this customer and of none: those of other customers are not remembered."""
    return [row for row in rows if row["resource_tags"].get("user_ebbtide_dev_customer", "acme") == "acme"]


def without_ids(rows: Sequence[Cells]) -> list[Cells]:
    return [{**row, "identity_line_item_id": ""} for row in rows]


def bill_of_files(folder: Path, files: Mapping[str, Sequence[Cells]]) -> Bill:
    for name, rows in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (write_parquet if name.endswith("parquet") else write_csv)(folder / name, rows)
    return read_bill([folder], SETTINGS, MONTH)


def refused(folder: Path, files: Mapping[str, Sequence[Cells]]) -> str:
    with pytest.raises(LedgerError) as invalid:
        bill_of_files(folder, files)
    return str(invalid.value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("line_item_net_unblended_cost", 0.1),
        ("savings_plan_savings_plan_effective_cost", 0.44),
        ("savings_plan_used_commitment", 0.1),
        ("reservation_effective_cost", 0.2),
        ("line_item_usage_amount", 0.5),
        ("pricing_public_on_demand_cost", 0.01),
    ],
)
def test_a_delivery_that_changes_only_another_amount_is_refused_in_either_order(
    tmp_path: Path, column: str, value: float
) -> None:
    """All ids and unblended costs are equal: which file came first would decide the bill."""
    changed = [{**row, column: value} for row in ROWS]

    for name in ("0.csv", "2.csv"):
        folder = tmp_path / name
        folder.mkdir()
        fault = refused(folder, {"1.csv": ROWS, name: changed})
        assert f"{WANTED} other amounts or tags under the same line item id" in fault


@pytest.mark.parametrize(
    ("files", "copies"),
    [
        ({"a.csv": [*ROWS, *ROWS]}, ROWS),
        ({"A.CSV": ROWS}, []),
        ({"a.csv.gz": ROWS, "a.csv": ROWS}, ROWS),
        ({"a.parquet": ROWS, "a.csv": ROWS}, ROWS),
        ({"2026-11-20/a.csv": EARLIER, "2026-12-03/a.csv": ROWS}, EARLIER),
        ({"a-00001.csv": ROWS[:90], "a-00002.csv": ROWS[90:]}, []),
    ],
)
def test_equal_rows_count_once(tmp_path: Path, files: Mapping[str, Sequence[Cells]], copies: Sequence[Cells]) -> None:
    bill, truth = bill_of_files(tmp_path, files), bill_of(tmp_path, *ROWS)

    assert bill.equal_rows == len(relevant(copies))
    assert bill.parts == pytest.approx(truth.parts)
    assert bill.apart == pytest.approx(truth.apart)
    assert bill.shared_usd == pytest.approx(truth.shared_usd)
    assert bill.committed_usd == pytest.approx(truth.committed_usd)
    assert any("each row counts once" in note for note in bill_notes(bill)) is bool(copies)


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (
            {"a.csv.gz": without_ids(ROWS), "a.csv": without_ids(ROWS)},
            f"a.csv, a.csv.gz: {WANTED} more than one hour of a resource in one hour (120 rows)",
        ),
        (
            {"20/a.csv": delivered(EARLIER, "earlier"), "21/a.csv": ROWS},
            f"20/a.csv, 21/a.csv: {WANTED} more than one hour of a resource in one hour (55 rows)",
        ),
        (
            {"20/a.csv": [{**row, "line_item_unblended_cost": 0.5} for row in EARLIER], "21/a.csv": ROWS},
            f"20/a.csv, 21/a.csv: {WANTED} other amounts or tags under the same line item id (110 rows)",
        ),
    ],
)
def test_two_deliveries_are_refused(tmp_path: Path, files: Mapping[str, Sequence[Cells]], fault: str) -> None:
    assert refused(tmp_path, files) == fault


def test_a_credit_of_another_amount_is_of_another_delivery(tmp_path: Path) -> None:
    """-1 and -2 are equal as hashes of numbers."""
    one, two = ([*ROWS, {**apart(HOUR, "Credit", usd), "identity_line_item_id": "credit"}] for usd in (-1.0, -2.0))

    assert "(1 row)" in refused(tmp_path, {"1.csv": one, "2.csv": two})


def test_tags_that_a_later_delivery_has_are_another_version_of_the_row(tmp_path: Path) -> None:
    row = delivered([node(HOUR, 0.8)])[0]

    assert "other amounts or tags under the same line item id (1 row)" in refused(
        tmp_path, {"1.csv": [{**row, "resource_tags": {}}], "2.csv": [row]}
    )


def test_files_of_one_name_in_two_folders_are_two_files(tmp_path: Path) -> None:
    for name, usd in (("old", 0.7), ("new", 0.8)):
        (tmp_path / name).mkdir()
        write_csv(tmp_path / name / "cur.csv", delivered([node(HOUR, usd)]))

    with pytest.raises(LedgerError, match=r"cur\.csv, .*/new/cur\.csv: wanted one delivery"):
        read_bill([tmp_path / name / "cur.csv" for name in ("old", "new")], SETTINGS, MONTH)


def test_an_hour_may_be_split(tmp_path: Path) -> None:
    """Into a plan and on demand, by a stop and a start, and by zones of an endpoint; and a row may last a day."""
    shared = [node(HOUR, 0.4, line_item_usage_amount=0.5), *covered(HOUR, 0.4, 0.3, line_item_usage_amount=0.5)]
    stopped = [node(HOUR, 0.2, line_item_resource_id="i-1", line_item_usage_amount=0.25) for _ in range(3)]
    endpoint = [service(HOUR, "AmazonVPC", "VpcEndpoint-Hours", 0.01, "vpce-1") for _ in range(2)]

    daily = {"line_item_usage_end_date": "2026-11-03T08:00:00Z", "line_item_usage_amount": 24}
    balancer = service(HOUR, "AWSELB", "LoadBalancerUsage", 0.54, BALANCER, **daily)

    bill = bill_of(tmp_path, *delivered([*shared, *stopped, *endpoint, balancer]))

    assert sum(bill.parts.values()) == pytest.approx(0.4 + 0.3 + 0.6 + 0.02 + 0.54)


REPEATS = {
    "Credit": Charge.CREDIT,
    "Refund": Charge.REFUND,
    "Tax": Charge.TAX,
    "EdpDiscount": Part.NODES,
    "PrivateRateDiscount": Part.NODES,
    "BundledDiscount": Part.NODES,
    "SppDiscount": Part.NODES,
    "SavingsPlanNegation": None,  # of no charge
}


@pytest.mark.parametrize(("kind", "line"), REPEATS.items())
def test_rows_that_repeat_the_hours_of_their_usage_are_no_second_delivery(
    tmp_path: Path, kind: str, line: Charge | Part | None
) -> None:
    first = datetime(2026, 11, 2, tzinfo=UTC)  # an hour of the known month's nodes, which are always in use
    row = {**node(first, -0.08, line_item_line_item_type=kind), "identity_line_item_id": kind}

    bill, truth = bill_of(tmp_path, *ROWS, row), bill_of(tmp_path, *ROWS)

    found, without = ({**of.parts, **of.apart} for of in (bill, truth))
    changed = {name: usd - without.get(name, 0.0) for name, usd in found.items() if usd != without.get(name)}
    assert changed == ({line: pytest.approx(-0.08)} if line else {})
    hours = sum(amounts.quantity for key, amounts in bill.lines.items() if key.unit == "Hours" and key.part == "nodes")
    assert hours == 72  # of three nodes in a day


@pytest.mark.parametrize("kind", ["Usage", "SavingsPlanCoveredUsage", "DiscountedUsage"])
def test_a_second_row_of_usage_is_a_second_delivery(tmp_path: Path, kind: str) -> None:
    row = node(HOUR, 0.8, line_item_line_item_type=kind, reservation_effective_cost=0.5)

    with pytest.raises(LedgerError, match=r"more than one hour of a resource in one hour \(1 row\)"):
        bill_of(tmp_path, *delivered([row, row]))


@pytest.mark.parametrize(("seconds", "is_refused"), [(59, False), (61, True)])
def test_a_start_may_be_charged_for_up_to_a_minute_more_than_the_hour(
    tmp_path: Path, seconds: int, is_refused: bool
) -> None:
    rows = delivered([node(HOUR, 0.4, line_item_usage_amount=amount) for amount in (1.0, seconds / 3600)])

    if is_refused:
        with pytest.raises(LedgerError, match="more than one hour of a resource in one hour"):
            bill_of(tmp_path, *rows)
    else:
        assert bill_of(tmp_path, *rows).parts == {"nodes": 0.8}


def test_two_plans_may_share_an_hour_of_one_line_item(tmp_path: Path) -> None:
    """One file is of one delivery, so its rows with one id and two costs are both charged."""
    rows = [
        next(covered(HOUR, 0.4, usd, line_item_usage_amount=0.5, identity_line_item_id="one")) for usd in (0.3, 0.2)
    ]

    assert bill_of(tmp_path, *rows).parts == {"nodes": 0.5}


@pytest.mark.parametrize("missing", ["", "NULL", "null", "nan", "\\N"])
def test_rows_without_an_id_are_no_copies_of_each_other(tmp_path: Path, missing: str) -> None:
    credit = {**apart(HOUR, "Credit", -1.0), "identity_line_item_id": missing}

    assert bill_of(tmp_path, *ROWS, credit, credit).apart[Charge.CREDIT] == -7.0


def test_one_id_may_have_rows_of_several_hours(tmp_path: Path) -> None:
    rows = [{**row, "identity_line_item_id": "one"} for row in (node(HOUR, 0.8), node(HOUR.replace(hour=9), 0.8))]

    assert sum(bill_of(tmp_path, *rows).parts.values()) == 1.6


def test_rows_may_be_json_objects(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(json.dumps(ROWS))

    assert plain(read_bill([tmp_path / "a.csv"], SETTINGS, MONTH)) == plain(bill_of(tmp_path, *ROWS))


def test_a_gzip_file_that_is_cut_is_one_message_with_its_name(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv.gz", ROWS)
    path.write_bytes(path.read_bytes()[:-100])

    with pytest.raises(LedgerError, match=r"^a\.csv\.gz: wanted a complete gzip file: .*gzip --test accepts\)$"):
        read_bill([path], SETTINGS, MONTH)


def test_chunks_that_a_smaller_delivery_left_empty_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a-00002.csv.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "a-00003.csv").write_bytes(b"")
    (tmp_path / "a-Manifest.json").write_text("{}")

    assert bill_of_files(tmp_path, {"a-00001.csv.gz": ROWS}).parts == bill_of(tmp_path, *ROWS).parts


def test_another_billing_period_in_the_folder_is_no_part_of_the_bill(tmp_path: Path) -> None:
    october = [{**row, "bill_billing_period_start_date": "2026-10-01T00:00:00.000Z"} for row in ROWS]

    bill = bill_of_files(tmp_path, {"10.csv": october, "11.csv": ROWS})

    assert plain(bill) == plain(bill_of(tmp_path, *ROWS))


def test_parquet_may_have_dictionary_columns(tmp_path: Path) -> None:
    parquet: Any = import_module("pyarrow.parquet")
    types: Any = import_module("pyarrow").types
    table = parquet.read_table(write_parquet(tmp_path / "a.parquet", ROWS))
    for place, column in enumerate(table.schema):
        if types.is_string(column.type):
            table = table.set_column(place, column.name, table.column(place).dictionary_encode())
    parquet.write_table(table, tmp_path / "a.parquet")

    assert read_bill([tmp_path], SETTINGS, MONTH).parts == bill_of(tmp_path, *ROWS).parts


@pytest.mark.parametrize("spread", [1, 2**40, -1])
def test_the_table_keeps_each_key_apart_as_it_grows(spread: int) -> None:
    table, keys = PackedTable(), range(1, 5_000)
    for number in (1, 2):
        for key in keys:
            slot = table.slot(spread * key)
            table.store(slot, table.value(slot) + number * key)

    assert [table.value(table.slot(spread * key)) for key in keys] == [3 * key for key in keys]
