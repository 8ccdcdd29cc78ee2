"""Whose row it is: the cluster by name, region and account, and rows that no cluster here can have."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ebbtide.lab.ledger.bill.bill import Bill
from ebbtide.lab.ledger.bill.lines import Charge
from ebbtide.lab.ledger.bill.reading import read_bill
from ebbtide.lab.ledger.month import LedgerError, plain
from ebbtide.lab.ledger.sheets import bill_notes, bill_sheet
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import ClusterKind, ClusterSettings
from tests.builders.cur import (
    ACCOUNT,
    CLUSTER,
    COLUMNS,
    SECOND_ACCOUNT,
    Cells,
    apart,
    known_month,
    node,
    service,
    tags,
    write_csv,
)
from tests.builders.stack import stack_settings
from tests.unit.lab.ledger.test_bill import HOUR, MONTH, bill_of, refusal

ROWS = known_month()
TRUTH = 40.02  # the sum of the known day


def moved(region: str = "us-east-1", account: str = ACCOUNT, name: str = "acme", **cells: Any) -> list[Cells]:
    """Return the known day of another cluster of the customer: its tagged rows with other resources."""

    def resource(row: Cells) -> str:
        text = str(row.get("line_item_resource_id", ""))
        for old, new in (
            (ACCOUNT, account),
            ("us-east-1", region),
            ("cluster/acme", f"cluster/{name}"),
            ("i-0", "i-1"),
        ):
            text = text.replace(old, new)
        return text

    return [
        {
            **row,
            "identity_line_item_id": f"{region}-{account}-{name}-{row['identity_line_item_id']}",
            "line_item_resource_id": resource(row),
            "line_item_usage_account_id": account,
            "product": {"region": region},
            **cells,
        }
        for row in ROWS
        if row["resource_tags"] == tags() or "user_ebbtide_dev_node_group" in row["resource_tags"]
    ]


def amortised(bill: Bill) -> float:
    return round(sum(bill.parts.values()), 4)


@pytest.mark.parametrize(
    "other",
    [
        moved(region="eu-west-1"),
        moved(account=SECOND_ACCOUNT, name="basin"),
        moved(name="basin", resource_tags=tags(aws_eks_cluster_name="basin")),
        moved(region="", product_region_code="eu-west-1"),
        moved(region="", product={"region_code": "eu-west-1"}),
        moved(region="", line_item_availability_zone="eu-west-1a"),
    ],
    ids=["region", "account", "name", "region code", "product", "zone"],
)
def test_another_cluster_of_the_customer_is_apart(tmp_path: Path, other: Sequence[Cells]) -> None:
    bill = bill_of(tmp_path, *ROWS, *other)

    assert amortised(bill) == TRUTH
    assert bill.elsewhere_usd == pytest.approx(TRUTH - 4.0)  # taxes, credits and refunds included
    assert bill.accounts == 1
    assert "this customer's other regions, clusters or accounts" in [row[0] for row in bill_sheet(bill).body]


def test_two_clusters_that_only_the_account_tells_apart_are_refused_without_an_account_id(tmp_path: Path) -> None:
    [message] = refusal(tmp_path, *ROWS, *moved(account=SECOND_ACCOUNT))

    assert message == (
        "--bill: 2 accounts have a cluster acme in us-east-1: wanted one, since only the account tells their rows "
        "apart (for example an export of the cluster's account)"
    )


def test_an_existing_cluster_is_the_one_that_its_context_names(tmp_path: Path) -> None:
    context = CLUSTER.replace(ACCOUNT, SECOND_ACCOUNT)
    settings = stack_settings(cluster=ClusterSettings(kind=ClusterKind.EXISTING, context=context))
    path = write_csv(tmp_path / "cur.csv", [*ROWS, *moved(account=SECOND_ACCOUNT)])

    bill = read_bill([path], settings, MONTH)

    assert (amortised(bill), bill.elsewhere_usd) == (TRUTH, pytest.approx(TRUTH - 4.0))


def existing(context: str = "prod", **changes: Any) -> StackSettings:
    return stack_settings(cluster=ClusterSettings(kind=ClusterKind.EXISTING, context=context), **changes)


def bill_of_existing(folder: Path, *rows: Cells, **changes: Any) -> Bill:
    return read_bill([write_csv(folder / "cur.csv", rows)], existing(**changes), MONTH)


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_an_existing_cluster_without_a_region_is_in_the_one_of_its_rows(tmp_path: Path, region: str) -> None:
    bill = bill_of_existing(tmp_path, *moved(region=region, name="prod"))

    assert (amortised(bill), bill.elsewhere_usd) == (TRUTH, 0.0)


def test_an_existing_cluster_with_a_region_has_its_rows_alone(tmp_path: Path) -> None:
    rows = [*moved(region="eu-west-1", name="prod"), *moved(name="basin")]

    bill = bill_of_existing(tmp_path, *rows, region="eu-west-1", region_set=True)

    assert (amortised(bill), bill.elsewhere_usd) == (TRUTH, pytest.approx(TRUTH - 4.0))


NAMED = {"resource_tags": tags(aws_eks_cluster_name="prod")}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (moved(name="prod") + moved(name="basin"), "2 cluster names"),
        ([{**node(HOUR, 0.8), **NAMED}, *moved(name="basin")], "2 cluster names"),
        (moved(name="prod") + moved(name="prod", account=SECOND_ACCOUNT), "2 accounts"),
        ([node(HOUR, 0.8), node(HOUR, 0.8, line_item_resource_id="i-1", product={"region": "eu-west-1"})], "2 regions"),
        (
            moved(name="prod") + moved("eu-west-1", SECOND_ACCOUNT, "basin"),
            "2 cluster names and 2 accounts and 2 regions",
        ),
    ],
)
def test_rows_of_several_clusters_are_refused_if_the_stack_file_names_none(
    tmp_path: Path, rows: Sequence[Cells], found: str
) -> None:
    with pytest.raises(LedgerError) as invalid:
        bill_of_existing(tmp_path, *rows)

    assert str(invalid.value).splitlines()[0] == (
        f"--bill: wanted rows of one cluster, found {found} under this customer's tag, and the stack file does not "
        "name its cluster (for example context: arn:aws:eks:eu-west-1:111122223333:cluster/prod)"
    )


def test_several_clusters_and_two_deliveries_are_refused_at_once(tmp_path: Path) -> None:
    copies = [node(HOUR, 0.8, line_item_resource_id="i-9")] * 2

    with pytest.raises(LedgerError) as invalid:
        bill_of_existing(tmp_path, *copies, *moved(name="prod"), *moved(name="basin"))

    lines = str(invalid.value).splitlines()
    assert [line.partition(": wanted ")[0] for line in lines] == ["--bill", "cur.csv"]


def test_a_bucket_in_another_region_is_no_second_cluster_of_an_unnamed_one(tmp_path: Path) -> None:
    bucket = {**service(HOUR, "AmazonS3", "TimedStorage", 1.0, "bucket"), "product": {"region": "eu-west-1"}}

    assert amortised(bill_of_existing(tmp_path, *moved(name="prod"), bucket)) == TRUTH + 1.0


def test_a_bill_of_other_regions_alone_names_the_region_of_the_clusters_arn(tmp_path: Path) -> None:
    context = CLUSTER.replace("us-east-1", "eu-west-1")

    with pytest.raises(LedgerError, match=r"no charge of 2026-11 in eu-west-1 has the tag"):
        bill_of_existing(tmp_path, node(HOUR, 0.8), context=context)


def test_accounts_are_counted_if_no_row_names_the_cluster(tmp_path: Path) -> None:
    rows = [
        node(HOUR, 0.8, line_item_resource_id=f"i-{account}", line_item_usage_account_id=account)
        for account in (ACCOUNT, SECOND_ACCOUNT)
    ]

    bill = bill_of(tmp_path, *rows)

    assert (amortised(bill), bill.accounts) == (1.6, 2)
    assert "Rows of 2 accounts have this customer's tag, and no row names the cluster." in [*bill_notes(bill)]


def test_a_tax_without_a_region_belongs_to_no_cluster_if_the_account_has_two(tmp_path: Path) -> None:
    tax = apart(HOUR, "Tax", 7.0, product={})

    alone, beside = bill_of(tmp_path, *ROWS, tax), bill_of(tmp_path, *ROWS, tax, *moved(region="eu-west-1"))

    assert (alone.apart[Charge.TAX], alone.unplaced_usd) == (10.0, 0.0)
    assert (beside.apart[Charge.TAX], beside.unplaced_usd) == (3.0, 7.0)


def test_a_bucket_in_another_region_is_no_second_cluster(tmp_path: Path) -> None:
    bucket = {**service(HOUR, "AmazonS3", "TimedStorage", 1.0, "bucket"), "product": {"region": "eu-west-1"}}

    bill = bill_of(tmp_path, *ROWS, bucket, apart(HOUR, "Tax", 7.0, product={}))

    assert (bill.elsewhere_usd, bill.apart[Charge.TAX], bill.unplaced_usd) == (1.0, 10.0, 0.0)


def test_a_stack_without_a_charge_in_its_region_is_refused(tmp_path: Path) -> None:
    [message] = refusal(tmp_path, *moved(region="eu-west-1"))

    assert message == (
        "--bill: no charge of 2026-11 in us-east-1 has the tag ebbtide.dev/customer=acme: all are in other regions, "
        "clusters or accounts"
    )


STRANGE = {"line_item_line_item_type": "Prize"}
EURO = {"line_item_currency_code": "EUR"}


@pytest.mark.parametrize(
    "other", [{"resource_tags": {}}, {"resource_tags": tags("other")}, {"product": {"region": "eu-west-1"}}]
)
@pytest.mark.parametrize(
    ("odd", "line"),
    [(STRANGE, ("2 rows of unknown type Prize", "$40.00")), (EURO, ("2 rows in currency EUR", "40.00 EUR"))],
)
def test_rows_that_no_cluster_here_can_have_are_a_line(
    tmp_path: Path, other: Cells, odd: Cells, line: tuple[str, str]
) -> None:
    bill = bill_of(tmp_path, *ROWS, *[node(HOUR, 20.0, **other, **odd)] * 2)

    assert amortised(bill) == TRUTH
    assert line in [tuple(row) for row in bill_sheet(bill).body]


@pytest.mark.parametrize("odd", [STRANGE, EURO])
def test_such_a_row_of_the_cluster_itself_is_refused(tmp_path: Path, odd: Cells) -> None:
    [message] = refusal(tmp_path, *ROWS, node(HOUR, 20.0, line_item_resource_id="i-7", **odd))

    assert message.startswith(f"cur.csv:{len(ROWS) + 2}: line_item_")


def test_an_unknown_type_that_is_no_word_is_not_repeated(tmp_path: Path) -> None:
    row = apart(HOUR, "Grace Hopper", 20.0, resource_tags={}, line_item_currency_code="USD")

    assert [*bill_of(tmp_path, *ROWS, row).left_out] == ["of unknown type"]


@pytest.mark.parametrize(
    ("rows", "before"),
    [
        (ROWS, True),
        ([*ROWS, apart(HOUR, "EdpDiscount", -1.0)], False),
        ([*ROWS, apart(HOUR, "PrivateRateDiscount", -1.0, resource_tags={})], False),
        ([{**row, "line_item_net_unblended_cost": row["line_item_unblended_cost"]} for row in ROWS], False),
    ],
)
def test_a_bill_without_discounts_says_that_it_is_before_them(
    tmp_path: Path, rows: Sequence[Cells], before: bool
) -> None:
    bill = bill_of(tmp_path, *rows)

    assert ("before negotiated discounts" in bill_sheet(bill).caption) is before
    assert any("Before negotiated discounts" in note for note in bill_notes(bill)) is before


def test_no_account_leaves_the_reader(tmp_path: Path) -> None:
    bill = bill_of(tmp_path, *ROWS, *moved(region="eu-west-1"))

    assert not [account for account in (ACCOUNT, SECOND_ACCOUNT) if account in f"{bill!r} {plain(bill)}"]


def test_a_fault_of_another_cluster_is_no_fault_of_this_one(tmp_path: Path) -> None:
    """Other clusters may have rows of a day, or copies of their rows."""
    daily = moved(region="eu-west-1", line_item_usage_end_date="2026-11-09T00:00:00Z")
    twice = [{**row, "identity_line_item_id": ""} for row in moved(region="eu-west-1")] * 2

    assert amortised(bill_of(tmp_path, *ROWS, *daily, *twice)) == TRUTH


NO_PLANS = tuple(name for name in COLUMNS if not name.startswith(("savings_plan_", "reservation_")))


@pytest.mark.parametrize(
    ("other", "is_needed"),
    [
        ({"line_item_line_item_type": "DiscountedUsage", "resource_tags": tags("other")}, False),
        ({"line_item_line_item_type": "DiscountedUsage", "resource_tags": {}}, True),
        ({"line_item_line_item_type": "SavingsPlanRecurringFee", "resource_tags": tags("other")}, True),
    ],
)
def test_a_column_is_needed_if_the_row_is_in_a_figure(tmp_path: Path, other: Cells, is_needed: bool) -> None:
    rows = [node(HOUR, 0.8), node(HOUR, 0.8, **other)]

    if is_needed:
        [message] = refusal(tmp_path, *rows, columns=NO_PLANS)
        assert message.startswith("cur.csv:3: no column ")
    else:
        assert amortised(bill_of(tmp_path, *rows, columns=NO_PLANS)) == 0.8


def test_faults_are_refused_with_the_deliveries_all_at_once(tmp_path: Path) -> None:
    anonymous = node(HOUR, 0.8, line_item_resource_id="")
    copies = [node(HOUR, 0.8, line_item_resource_id="i-9")] * 2

    with pytest.raises(LedgerError) as invalid:
        bill_of(tmp_path, anonymous, *copies)

    assert [line.partition(": ")[0] for line in str(invalid.value).splitlines()] == ["cur.csv:2", "cur.csv"]
