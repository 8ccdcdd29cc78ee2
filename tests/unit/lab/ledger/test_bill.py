"""A bill: its lines, what is apart, the same in each format, and what it refuses."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ebbtide.lab.ledger.bill.bill import Bill
from ebbtide.lab.ledger.bill.lines import Charge, Part
from ebbtide.lab.ledger.bill.reading import read_bill
from ebbtide.lab.ledger.month import LedgerError, Month, plain
from ebbtide.lab.ledger.sheets import bill_notes, bill_sheet
from ebbtide.provisioning_labels import NodeKind
from tests.builders.cur import (
    ACCOUNT,
    COLUMNS,
    SECRETS,
    Cells,
    apart,
    covered,
    fee,
    known_month,
    line,
    node,
    service,
    tags,
    write_csv,
    write_parquet,
)
from tests.builders.stack import group_settings, stack_settings

MONTH = Month(year=2026, month=11, zone="America/New_York")
HOUR = datetime(2026, 11, 2, 8, tzinfo=UTC)
SETTINGS = stack_settings(
    node_groups={"flexible": group_settings(), "batch": group_settings(NodeKind.SPOT), "fixed": group_settings()}
)


def bill_of(folder: Path, *rows: Cells, columns: tuple[str, ...] = COLUMNS) -> Bill:
    return read_bill([write_csv(folder / "cur.csv", rows, columns)], SETTINGS, MONTH)


def refusal(folder: Path, *rows: Cells, columns: tuple[str, ...] = COLUMNS) -> tuple[str, ...]:
    with pytest.raises(LedgerError) as invalid:
        bill_of(folder, *rows, columns=columns)
    return tuple(str(invalid.value).splitlines())


def test_each_part_is_a_line_at_its_effective_cost(tmp_path: Path) -> None:
    bill = bill_of(tmp_path, *known_month())

    assert {part: round(usd, 4) for part, usd in bill.parts.items()} == {
        Part.NODES: round(24 * (0.55 + 0.80 + 0.10), 4),
        Part.CLUSTER: 2.4,
        Part.VOLUMES: 0.48,
        Part.NAT: 1.08,
        Part.BALANCERS: 0.54,
        Part.TRAFFIC: 0.72,
    }


def test_taxes_credits_and_refunds_are_apart_and_those_of_all_are_not_divided(tmp_path: Path) -> None:
    bill = bill_of(tmp_path, *known_month())

    assert bill.apart == {Charge.TAX: 3.0, Charge.CREDIT: -5.0, Charge.REFUND: -2.0}
    unused_plan = 24 * (0.60 - 0.55)
    assert bill.shared_usd == pytest.approx({Charge.TAX: 100.0, Charge.USAGE: unused_plan})  # none of another customer


def test_a_plan_has_coverage_by_the_stack_and_use_by_all(tmp_path: Path) -> None:
    found = bill_of(tmp_path, *known_month())

    assert found.coverage == pytest.approx(0.5)  # spot is never covered
    assert found.utilisation == pytest.approx(0.55 / 0.60)


@pytest.mark.parametrize("name", ["cur.csv", "cur.csv.gz", "cur.parquet"])
def test_each_format_is_the_same_bill(tmp_path: Path, name: str) -> None:
    write = write_parquet if name.endswith("parquet") else write_csv
    path = write(tmp_path / name, known_month())

    assert plain(read_bill([path], SETTINGS, MONTH)) == plain(bill_of(tmp_path, *known_month()))


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "cur.parquet", known_month())
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(LedgerError) as invalid:
        read_bill([path], SETTINGS, MONTH)
    assert str(invalid.value) == (
        "cur.parquet: Parquet needs pyarrow, which is not installed; pip install 'ebbtide[parquet]'"
    )


def test_an_export_in_several_files_is_one_bill(tmp_path: Path) -> None:
    rows = [*known_month()]
    folder = tmp_path / "data"
    folder.mkdir()
    write_csv(folder / "a-00001.csv.gz", rows[:90])
    write_csv(folder / "a-00002.csv.gz", rows[90:])

    assert read_bill([folder], SETTINGS, MONTH).parts == pytest.approx(bill_of(tmp_path, *rows).parts)


def test_a_reservation_costs_its_effective_cost_and_its_unused_hours(tmp_path: Path) -> None:
    used = node(
        HOUR,
        0.0,
        line_item_line_item_type="DiscountedUsage",
        pricing_public_on_demand_cost=0.8,
        reservation_effective_cost=0.5,
    )
    unused = apart(
        HOUR,
        "RIFee",
        20.0,
        line_item_usage_type="USE1-HeavyUsage:m7i.4xlarge",
        reservation_unused_recurring_fee=1.5,
        reservation_unused_amortized_upfront_fee_for_billing_period=0.5,
    )

    bill = bill_of(tmp_path, used, unused)

    assert bill.parts == {Part.NODES: 0.5, Part.PLANS: 2.0}
    assert bill.unused_reservation_usd == 2.0


RESERVATION = f"arn:aws:ec2:us-east-1:{ACCOUNT}:capacity-reservation/cr-0be443example1db6f"


@pytest.mark.parametrize("usage", ["UnusedBox", "UnusedDed"])
def test_reserved_capacity_without_an_instance_is_a_line_and_is_called_idle(usage: str, tmp_path: Path) -> None:
    def reserved(usage: str, usd: float, **cells: Any) -> Cells:
        return node(HOUR, usd, usage=usage, line_item_resource_id=RESERVATION, **cells)

    plan = {"line_item_line_item_type": "SavingsPlanCoveredUsage", "savings_plan_savings_plan_effective_cost": 0.5}
    bill = bill_of(
        tmp_path,
        node(HOUR, 0.8),
        reserved("Reservation", 0.0),  # of the node above
        reserved(usage, 2.4, line_item_usage_amount=3),  # three instances of one reservation
        reserved(usage, 0.8, kind="m7i.large", **plan),
        reserved(usage, 1.6, resource_tags={}),
        node(HOUR, 0.4, resource_tags={}),
        reserved(usage, 9.0, resource_tags=tags("other")),
    )

    assert bill.parts == {Part.NODES: 0.8, Part.UNUSED_CAPACITY: pytest.approx(2.9)}
    assert bill.shared_usd == {Charge.USAGE: 2.0}
    idle = [note for note in bill_notes(bill) if note.startswith("Idle: ")]
    assert [note.partition(" for ")[0] for note in idle] == ["Idle: $2.90", "Idle: $1.60"]
    assert "without a customer's tag" in idle[1]
    assert (bill_sheet(bill).rows[1][0], bill.coverage) == ("unused capacity reservations", 0)


@pytest.mark.parametrize(("net", "usd"), [("", 0.8 - 0.1), (0.7, 0.7)])
def test_a_negotiated_discount_counts_once(tmp_path: Path, net: Any, usd: float) -> None:
    """With the columns for net costs the discount is in each row; the rows of discounts have no net cost."""
    bill = bill_of(tmp_path, node(HOUR, 0.8, line_item_net_unblended_cost=net), apart(HOUR, "EdpDiscount", -0.1))

    assert sum(bill.parts.values()) + sum(bill.apart.values()) == pytest.approx(usd)


def test_more_columns_and_other_rows_do_no_harm(tmp_path: Path) -> None:
    rows = [dict(row, capacity_reservation_capacity_reservation_arn="arn:x") for row in known_month()]
    columns = ("capacity_reservation_capacity_reservation_arn", *reversed(COLUMNS))

    assert bill_of(tmp_path, *rows, columns=columns).parts == bill_of(tmp_path, *known_month()).parts


@pytest.mark.parametrize("key", ["user_ebbtide_dev_customer", "user:ebbtide.dev/customer", "ebbtide.dev/customer"])
def test_the_tag_is_known_in_each_spelling(tmp_path: Path, key: str) -> None:
    assert bill_of(tmp_path, node(HOUR, 0.8, resource_tags={key: "acme"})).parts == {Part.NODES: 0.8}


def without(*names: str) -> tuple[str, ...]:
    return tuple(name for name in COLUMNS if name not in names)


def test_a_report_without_resource_ids_is_one_message(tmp_path: Path) -> None:
    wanted = "wanted CUR 2.0 of Data Exports with INCLUDE_RESOURCES (table COST_AND_USAGE_REPORT)"

    assert refusal(tmp_path, *known_month(), columns=without("line_item_resource_id")) == (
        f"cur.csv:1: no column line_item_resource_id: {wanted}",
    )
    assert refusal(tmp_path, node(HOUR, 0.8, line_item_resource_id="")) == (
        "cur.csv:2: line_item_resource_id: wanted the id of each node (INCLUDE_RESOURCES), found an empty cell",
    )


def test_another_table_names_the_columns_that_it_lacks(tmp_path: Path) -> None:
    columns = [name for name in COLUMNS if name != "resource_tags"]
    [legacy] = refusal(tmp_path, columns=("lineItem/UsageStartDate", "resourceTags/user:Grace Hopper"))
    [athena] = refusal(tmp_path, columns=(*columns, "resource_tags_user_ebbtide_dev_customer"))

    wanted = "wanted CUR 2.0 of Data Exports with INCLUDE_RESOURCES (table COST_AND_USAGE_REPORT), found "
    assert legacy.startswith("cur.csv:1: no column bill_billing_period_start_date, line_item_currency_code, ")
    assert legacy.endswith(f"{wanted}columns of the legacy Cost and Usage Report")
    assert athena == f"cur.csv:1: no column resource_tags: {wanted}tags in separate columns"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [node(datetime(2026, 10, 3, tzinfo=UTC), 0.8)],
            "--bill: wanted the billing period 2026-11, found 2026-10",
        ),
        ([], "--bill: wanted the billing period 2026-11, found no row at all"),
        (
            [node(HOUR, 0.8, resource_tags={"user_team": "ml"})],
            (
                "--bill: no row has the tag ebbtide.dev/customer: wanted it activated as a cost allocation tag before "
                "2026-11 (ebbtide docs cost-tags)"
            ),
        ),
        (
            [node(HOUR, 0.8, resource_tags=tags("other"))],
            "--bill: no charge of 2026-11 has the tag ebbtide.dev/customer=acme",
        ),
        (
            [node(HOUR, 0.8, line_item_usage_end_date="2026-11-03T08:00:00Z")] * 3,
            (
                "cur.csv:2: line_item_usage_end_date: wanted rows of one hour (TIME_GRANULARITY HOURLY), found longer "
                "ones (and 2 more rows)"
            ),
        ),
        (
            [node(HOUR, 0.8, line_item_currency_code="CNY")] * 2,
            "cur.csv:2: line_item_currency_code: wanted USD, found another currency (and 1 more row)",
        ),
        (
            [node(HOUR, 0.8, line_item_unblended_cost=f"arn:aws:iam::{ACCOUNT}:user/Grace")],
            "cur.csv:2: line_item_unblended_cost: wanted a number, found other text (for example 0.096)",
        ),
        (
            [node(HOUR, 0.8, line_item_line_item_type="Grace Hopper")],
            "cur.csv:2: line_item_line_item_type: wanted a type of CUR 2.0, found another (for example Usage)",
        ),
    ],
)
def test_bad_input_is_one_message(tmp_path: Path, rows: list[Cells], message: str) -> None:
    assert refusal(tmp_path, *rows) == (message,)


def test_a_type_of_row_names_the_column_that_it_needs(tmp_path: Path) -> None:
    columns = without("savings_plan_savings_plan_effective_cost", "savings_plan_net_savings_plan_effective_cost")

    [message] = refusal(tmp_path, *known_month(), columns=columns)

    assert message == (
        "cur.csv:2: no column savings_plan_savings_plan_effective_cost, which rows of this type need: wanted it in the "
        "export (and 23 more rows)"
    )


def test_messages_and_documents_hold_no_secret_of_the_report(tmp_path: Path) -> None:
    name = f"{ACCOUNT}-cur.csv"
    broken = f"arn:aws:iam::{ACCOUNT}:user/Grace Hopper i-0123456789abcdef0"
    path = write_csv(tmp_path / name, [{**node(HOUR, 0.8), column: broken} for column in COLUMNS])

    with pytest.raises(LedgerError) as invalid:
        read_bill([path], SETTINGS, MONTH)

    shown = str(invalid.value) + str(plain(bill_of(tmp_path, *known_month())))
    assert not [secret for secret in SECRETS if secret in shown]


def test_a_bill_keeps_no_text_of_the_report(tmp_path: Path) -> None:
    """Also rows that no known category has: a service with any name, tags with people's names."""
    odd = service(HOUR, "Grace Hopper's product", f"arn:aws:x:{ACCOUNT}", 1.0, ACCOUNT, pricing_unit="gh@corp")
    group = node(HOUR, 1.0, group="Hopper", kind="i-0123456789abcdef0")

    bill = bill_of(tmp_path, *known_month(), odd, group, line(HOUR), fee(HOUR, 1.0, 0.5))

    assert not [secret for secret in SECRETS if secret in repr(bill)]


def test_a_bill_whose_rows_charge_nothing_is_refused(tmp_path: Path) -> None:
    (_, negation) = covered(HOUR, 0.8, 0.5)

    assert refusal(tmp_path, negation) == ("--bill: no charge of 2026-11 has the tag ebbtide.dev/customer=acme",)
