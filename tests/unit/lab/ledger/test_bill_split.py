"""AWS' split cost allocation in a bill: no dollar twice, and whose pods the dollars are of."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ebbtide.lab.ledger.allocation import split_notes, split_sheets
from ebbtide.lab.ledger.bill.bill import Bill
from ebbtide.lab.ledger.bill.difference import difference_of
from ebbtide.lab.ledger.bill.focus import focus_rows
from ebbtide.lab.ledger.bill.lines import Part
from ebbtide.lab.ledger.bill.reading import read_bill
from ebbtide.lab.ledger.bill.split import PodDollars, sum_of_known
from ebbtide.lab.ledger.month import CostShare, LedgerError
from ebbtide.lab.ledger.page import render_page
from ebbtide.lab.ledger.sheets import view_of
from ebbtide.settings.sections.cluster import ClusterKind, ClusterSettings
from ebbtide.text.counts import DASH
from tests.builders.cur import (
    ACCOUNT,
    COLUMNS,
    POD_ARN,
    SECOND_ACCOUNT,
    SECRETS,
    SPLIT_COLUMNS,
    Cells,
    Pod,
    delivered,
    hours,
    in_region,
    known_month,
    node,
    service,
    split,
    tags,
    write_csv,
)
from tests.unit.lab.ledger.test_bill import HOUR, MONTH, SETTINGS, bill_of
from tests.unit.lab.ledger.test_bill_documents import LEDGER

ALL = (*COLUMNS, *SPLIT_COLUMNS)
TRAIN = Pod(namespace="workers", workload="train-5d9", deployment="train", cpu=(8.0, 2.0), memory=(16.0, 20.0))
DNS = Pod(namespace="kube-system", workload="coredns-7f", deployment="coredns", cpu=(0.1, 0.2))
PROXY = Pod(namespace="kube-system", workload="kube-proxy", kind="DaemonSet", cpu=(0.1, 0.0))
DAY = hours(datetime(2026, 11, 2, tzinfo=UTC), 24)


def split_day(*pods: Pod, **cells: Any) -> list[Cells]:
    """The known day, with the pods of the node that a plan covers at 0.55 of 0.80 dollars."""
    rows = [*known_month(), *(row for hour in DAY for row in split(hour, 0.55, *pods, listed=0.80, **cells))]
    return delivered(rows)


def dollars(bill: Bill) -> dict[str, PodDollars]:
    return {f"{pod.namespace}/{pod.workload}": pod.dollars for pod in bill.pods}


@pytest.fixture
def known(tmp_path: Path) -> Bill:
    return bill_of(tmp_path, *split_day(TRAIN, DNS, PROXY), columns=ALL)


def test_rows_of_pods_add_no_cent_to_the_bill(known: Bill, tmp_path: Path) -> None:
    assert known.amortised_usd == pytest.approx(40.02)
    assert (known.parts, known.shared_usd) == (bill_of(tmp_path, *known_month()).parts, known.shared_usd)


def test_what_pods_and_unused_capacity_cost_is_what_the_node_costs(known: Bill) -> None:
    costs = dollars(known)

    assert set(costs) == {"workers/train", "kube-system/coredns", "kube-system/kube-proxy"}
    assert sum(pod.usd + pod.unused_usd for pod in costs.values()) == pytest.approx(24 * 0.55)
    assert sum_of_known(
        usd for pod in costs.values() for usd in (pod.listed_usd, pod.unused_listed_usd)
    ) == pytest.approx(24 * 0.80)
    assert costs["workers/train"].usd == pytest.approx(24 * 0.55 * (9 * 8 + 20) / (9 * 16 + 64))


@pytest.mark.parametrize(
    "cells",
    [
        {"line_item_unblended_cost": 0.3, "line_item_net_unblended_cost": 0.3, "pricing_public_on_demand_cost": 0.4},
        {"line_item_unblended_cost": 0.3, "resource_tags": tags()},  # AWS imports Kubernetes' labels as tags
        {"line_item_unblended_cost": 0.3, "resource_tags": tags(), "split_line_item_parent_resource_id": ""},
        {
            "line_item_resource_id": "arn:aws:ecs:us-east-1:444455556666:task/other/1",
            "line_item_operation": "ECSTask-EC2",
            "line_item_unblended_cost": 0.3,
        },
    ],
)
def test_no_cost_or_tag_makes_a_pods_row_a_charge(cells: Cells, tmp_path: Path) -> None:
    without = bill_of(tmp_path, *known_month())

    bill = bill_of(tmp_path, *split_day(TRAIN, **cells), columns=ALL)

    assert (bill.parts, bill.shared_usd, bill.elsewhere_usd) == (without.parts, without.shared_usd, 0)


def test_net_costs_come_first(tmp_path: Path) -> None:
    cells: dict[str, Any] = {"split_line_item_net_split_cost": 0.1, "split_line_item_net_unused_cost": 0.2}
    found = dollars(bill_of(tmp_path, node(HOUR, 0.8), *split(HOUR, 0.8, TRAIN, **cells), columns=ALL))

    assert (found["workers/train"].usd, found["workers/train"].unused_usd) == pytest.approx((2 * 0.1, 2 * 0.2))


def test_copies_of_pods_rows_count_once_and_two_deliveries_are_refused(known: Bill, tmp_path: Path) -> None:
    rows = split_day(TRAIN, DNS, PROXY)
    pods = [row for row in rows if row.get("line_item_operation") == "EKSPod-EC2"]
    assert dollars(bill_of(tmp_path, *rows, *pods, columns=ALL)) == dollars(known)

    changed = [{**row, "split_line_item_split_cost": 1.0} for row in pods]
    other = tmp_path / "later"
    other.mkdir()
    files = [write_csv(tmp_path / "cur.csv", rows, ALL), write_csv(other / "cur.csv", changed, ALL)]
    with pytest.raises(LedgerError, match=r"wanted one delivery.*other amounts or tags under the same line item id"):
        read_bill(files, SETTINGS, MONTH)


@pytest.mark.parametrize(
    "rows",
    [
        [*split(HOUR, 0.8, TRAIN, cluster="basin")],
        [*split(datetime(2026, 11, 1, tzinfo=UTC), 0.8, TRAIN)],  # still October in New York
        [{**row, "line_item_resource_id": row["line_item_resource_id"].replace("us-east-1", "eu-west-1")}
         for row in split(HOUR, 0.8, TRAIN)],
    ],
    ids=["cluster", "hour", "region"],
)  # fmt: skip
def test_pods_of_other_clusters_and_hours_are_left_out(rows: Sequence[Cells], tmp_path: Path) -> None:
    assert dollars(bill_of(tmp_path, node(HOUR, 0.8), *rows, columns=ALL)) == {}


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        ({}, "workers/train"),
        ({"resource_tags": {}}, "workers/"),
        ({"resource_tags": {"aws_eks_workload_name": "set", "aws_eks_workload_type": "StatefulSet"}}, "workers/set"),
        ({"resource_tags": {"aws_eks_workload_name": "dump-29412345", "aws_eks_workload_type": "Job"}}, "workers/dump"),
        ({"resource_tags": {"user_ebbtide.dev/workload": "mine", "aws_eks_deployment": "theirs"}}, "workers/mine"),
        ({"resource_tags": {"aws_eks_deployment": "i-0123456789abcdef0"}}, "workers/"),
        ({"resource_tags": {"aws_eks_deployment": "of-444455556666"}}, "workers/"),
        ({"resource_tags": {"aws_eks_deployment": "Grace <b>"}}, "workers/"),
    ],
)
def test_tags_name_the_workload_and_no_identifier_leaves_the_report(cells: Cells, name: str, tmp_path: Path) -> None:
    assert [*dollars(bill_of(tmp_path, node(HOUR, 0.8), *split(HOUR, 0.8, TRAIN, **cells), columns=ALL))] == [name]


def fargate(hour: datetime) -> Cells:
    pod = f"{POD_ARN.format('acme')}/batch/report-1/0"
    return service(hour, "AmazonEKS", "Fargate-vCPU-Hours:perCPU", 0.04, pod, resource_tags={})


def test_a_pod_on_fargate_is_a_charge_and_a_line_of_its_own(tmp_path: Path) -> None:
    bill = bill_of(tmp_path, node(HOUR, 0.8), fargate(HOUR), *split(HOUR, 0.8, TRAIN), columns=ALL)

    assert sum(bill.shared_usd.values()) == pytest.approx(0.04)
    assert dollars(bill)["batch/"].fargate_usd == pytest.approx(0.04)
    assert cells_of(bill, "pods on Fargate") == ["-", "$0.04", "-", "-", "-"]


UNNAMED = SETTINGS.model_copy(update={"cluster": ClusterSettings(kind=ClusterKind.EXISTING, context="prod")})
NAMED_NODE = node(HOUR, 0.8, resource_tags=tags(aws_eks_cluster_name="prod", user_ebbtide_dev_node_group="flexible"))


@pytest.mark.parametrize(
    ("own", "names"), [(NAMED_NODE, ["workers/train"]), (node(HOUR, 0.8), [])], ids=["in the rows", "nowhere"]
)
def test_pods_of_an_existing_cluster_are_found_by_the_name_in_its_rows_or_said_to_be_left_out(
    own: Cells, names: list[str], tmp_path: Path
) -> None:
    """The stack has no pods of another cluster, nor of a cluster with its name in another account or region."""
    ours = [*split(HOUR, 0.8, TRAIN, cluster="prod")]
    foreign = json.loads(json.dumps([*split(HOUR, 0.8, DNS, cluster="prod")]).replace(ACCOUNT, SECOND_ACCOUNT))
    moved = in_region(split(HOUR, 0.8, DNS, cluster="prod"), "eu-west-1")
    rows = [own, *ours, *foreign, *moved, *split(HOUR, 0.8, PROXY, cluster="test")]

    bill = read_bill([write_csv(tmp_path / "cur.csv", rows, ALL)], UNNAMED, MONTH)

    assert [*dollars(bill)] == names
    said = any("neither the stack file nor a row names the cluster" in note for note in split_notes(bill))
    assert said is (not names)


SHARES = (
    CostShare(group="flexible", category="worker", workload="train", usd=9.0, namespace="workers"),
    CostShare(group="flexible", category="flexible", workload="api", usd=2.0, namespace="ebbtide"),
    CostShare(group="flexible", category="", workload="other pods", usd=1.0),
    CostShare(group="flexible", category="", workload="idle", usd=5.0, idle=True),
)


def cells_of(bill: Bill, name: str, shares: Sequence[CostShare] = SHARES) -> list[str]:
    sheet = split_sheets(bill, shares)["AWS' split of nodes"]
    cells = next(cells for row, *cells in sheet.body if row == name)
    return [cell.replace(DASH, "-").replace("\N{MINUS SIGN}", "-") for cell in cells]


def test_shares_are_beside_aws_and_a_difference_is_prices_and_shares(known: Bill) -> None:
    aws = 24 * 0.55 * (9 * 8 + 20) / (9 * 16 + 64)  # 5.84
    listed = aws * 0.80 / 0.55  # 8.49

    assert (round(aws, 2), round(listed, 2)) == (5.84, 8.49)
    assert cells_of(known, "workers/train") == ["$9.00", "$5.84", "-$3.16", "-$2.65", "-$0.51"]
    assert cells_of(known, "ebbtide/api") == ["$2.00", "-", "-", "-", "-"]


def test_both_totals_are_those_of_the_nodes(known: Bill) -> None:
    assert cells_of(known, "total")[:2] == ["$17.00", "$34.80"]
    assert known.parts[Part.NODES] == pytest.approx(34.80)
    assert cells_of(known, "nodes' hours that AWS did not split")[1] == "$21.60"  # of the other two nodes
    assert cells_of(known, "requested by no pod")[0] == "$5.00"


def test_without_split_rows_a_pod_on_fargate_is_a_line_of_the_bill_and_no_split(tmp_path: Path) -> None:
    """Rows of split cost with 0 dollars, of a pod that AWS gave no share, change nothing."""
    free = split(HOUR, 0.8, TRAIN, split_line_item_split_cost=0, split_line_item_unused_cost=0)
    tagged = {**fargate(HOUR), "resource_tags": tags()}

    for more in ((), tuple(free)):
        bill = bill_of(tmp_path, node(HOUR, 0.8), tagged, *more, columns=ALL)
        assert bill.parts == {Part.NODES: 0.8, Part.FARGATE: 0.04}
        assert (split_sheets(bill, SHARES), [*split_notes(bill)]) == ({}, [])


@pytest.mark.parametrize(
    "columns",
    [
        COLUMNS,
        tuple(name for name in ALL if not name.endswith("_unused_cost")),
        tuple(name for name in ALL if not name.startswith("split") or not name.endswith("_split_cost")),
    ],
)
def test_rows_of_pods_without_columns_of_their_cost_are_one_note_and_no_refusal(
    tmp_path: Path, columns: tuple[str, ...]
) -> None:
    bill = bill_of(tmp_path, *split_day(TRAIN), columns=columns)

    assert bill.parts == bill_of(tmp_path, *known_month()).parts
    assert split_sheets(bill, SHARES) == {}
    (note,) = split_notes(bill)
    assert note.endswith(
        "the export lacks the columns split_line_item_split_cost, split_line_item_unused_cost or both."
    )


@pytest.mark.parametrize(
    "columns", [tuple(name for name in ALL if "public_on_demand_" not in name or "pricing" in name), ALL]
)
def test_without_public_prices_what_prices_cause_is_not_known(columns: tuple[str, ...], tmp_path: Path) -> None:
    blank = {f"split_line_item_public_on_demand_{name}_cost": "" for name in ("split", "unused")}
    bill = bill_of(tmp_path, *split_day(TRAIN, DNS, **blank), columns=columns)

    assert cells_of(bill, "workers/train") == ["$9.00", "$5.84", "-$3.16", "-", "-"]
    assert cells_of(bill, "other pods")[2:] == ["-$0.63", "-", "-"]
    assert cells_of(bill, "requested by no pod")[3:] == ["-", "-"]


def test_a_pod_without_a_workload_hides_no_workload_of_its_namespace(tmp_path: Path) -> None:
    rows = split(HOUR, 0.8, TRAIN, Pod(namespace="workers"))
    bill = bill_of(tmp_path, node(HOUR, 0.8), *rows, columns=ALL)

    assert cells_of(bill, "workers/train")[:2] == ["$9.00", "$0.35"]
    assert [row[0] for row in split_sheets(bill, SHARES)["other pods by AWS"].rows] == ["workers, not attributed"]


def test_hours_of_nodes_outside_the_month_are_not_called_unsplit(tmp_path: Path) -> None:
    october = node(datetime(2026, 11, 1, tzinfo=UTC), 0.8)  # in New York
    bill = bill_of(tmp_path, october, node(HOUR, 0.8), *split(HOUR, 0.8, TRAIN), columns=ALL)

    rows = split_sheets(bill, SHARES)["AWS' split of nodes"].rows
    assert "nodes' hours that AWS did not split" not in [row[0] for row in rows]
    assert cells_of(bill, "hours of the billing month outside the ledger's")[1] == "$0.80"
    assert cells_of(bill, "total")[1] == "$1.60"
    assert bill.nodes_usd == pytest.approx(1.6)


def test_workloads_that_only_aws_names_are_listed_beside_our_other_pods(known: Bill) -> None:
    others = split_sheets(known, SHARES)["other pods by AWS"]

    assert [row[0] for row in others.rows] == ["kube-system/coredns", "kube-system/kube-proxy"]
    assert sum(row[1] for row in others.rows if isinstance(row[1], float)) == pytest.approx(
        sum(pod.usd for name, pod in dollars(known).items() if name.startswith("kube-system"))
    )
    assert cells_of(known, "other pods")[0] == "$1.00"


def test_a_namespace_without_names_of_workloads_is_one_line(tmp_path: Path) -> None:
    rows = split(HOUR, 0.8, replace(TRAIN, workload=""), DNS)
    bill = bill_of(tmp_path, node(HOUR, 0.8), *rows, columns=ALL)

    assert cells_of(bill, "workers")[0] == "$9.00"
    assert any("activate the cost allocation tags aws:eks:deployment" in note for note in split_notes(bill))


def test_a_ledger_of_an_earlier_release_has_no_namespaces_and_is_compared_by_name(known: Bill) -> None:
    shares = [replace(share, namespace="") for share in SHARES]

    assert cells_of(known, "train", shares)[:2] == ["$9.00", "$5.84"]


def test_many_workloads_are_a_few_lines_and_a_sum(tmp_path: Path) -> None:
    pods = [Pod(namespace="team", workload=f"set-{number}", kind="StatefulSet", cpu=(0.1, 0)) for number in range(60)]
    bill = bill_of(tmp_path, node(HOUR, 0.8), *split(HOUR, 0.8, *pods), columns=ALL)

    rows = split_sheets(bill, SHARES)["other pods by AWS"].rows

    assert (len(rows), rows[-1][0]) == (41, "20 more workloads")
    assert sum(row[1] for row in rows if isinstance(row[1], float)) == pytest.approx(
        sum(pod.dollars.usd for pod in bill.pods)
    )


def test_a_bill_alone_has_what_aws_says(known: Bill) -> None:
    (sheet,) = split_sheets(known).values()

    assert [row[0] for row in sheet.rows] == ["workers/train", "kube-system/coredns", "kube-system/kube-proxy"]


def test_a_report_without_such_rows_has_no_such_table(tmp_path: Path) -> None:
    bill = bill_of(tmp_path, *known_month())

    assert (split_sheets(bill, SHARES), [*split_notes(bill)]) == ({}, [])


def test_volumes_and_load_balancers_are_in_the_namespace_that_their_tags_name(tmp_path: Path) -> None:
    claim = tags(user_kubernetes_io_created_for_pvc_namespace="jupyter", user_kubernetes_io_created_for_pvc_name="gh")
    service_tag = tags(**{"user_kubernetes.io/service-name": "ebbtide/api"})
    stack_tag, group = tags(user_service_k8s_aws_stack="web/shop"), tags(user_ingress_k8s_aws_stack="shared")
    rows = [
        *known_month(),
        service(HOUR, "AmazonEC2", "EBS:VolumeUsage.gp3", 0.5, "vol-0aaaaaaaaaaaaaaaa", resource_tags=claim),
        service(HOUR, "AWSELB", "LoadBalancerUsage", 0.3, "lb-1", resource_tags=service_tag),
        service(HOUR, "AWSELB", "LCUUsage", 0.1, "lb-1", resource_tags=service_tag),
        service(HOUR, "AWSELB", "LoadBalancerUsage", 0.2, "lb-2", resource_tags=stack_tag),
        service(HOUR, "AWSELB", "LoadBalancerUsage", 0.05, "lb-3", resource_tags=group),
    ]
    bill = bill_of(tmp_path, *rows)

    sheet = view_of(LEDGER, bill, difference_of(LEDGER, bill)).sheets["volumes and load balancers"]

    assert sheet.body == [
        ["ebbtide/api", "$0.40", "load balancers"],
        ["web/shop", "$0.20", "load balancers"],
        ["not attributed", "$0.59", "load balancers"],
        ["jupyter", "$0.50", "volumes"],
        ["not attributed", "$0.48", "volumes"],
    ]
    assert bill.amortised_usd == pytest.approx(40.02 + 0.5 + 0.4 + 0.2 + 0.05)
    placed = [(row["x_Namespace"], row["x_Workload"]) for row in focus_rows(bill, LEDGER) if row["x_Namespace"]]
    assert placed == [("jupyter", None), ("ebbtide", "api"), ("web", "shop")]


def test_no_secret_of_pods_rows_reaches_a_page_or_a_document(known: Bill) -> None:
    view = view_of(LEDGER, known, difference_of(LEDGER, known))

    assert not [secret for secret in SECRETS for text in (render_page(view), str(view), str(known)) if secret in text]
