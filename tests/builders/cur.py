"""Cost and Usage Reports 2.0 with AWS' own columns, and a month of a stack whose dollars are known.

Columns: AWS Data Exports User Guide, "Cost and Usage Report (CUR) 2.0", with resource ids and columns for net costs.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.paths import ROOT

COLUMNS = tuple((ROOT / "tests" / "data" / "cur-2.0-columns.txt").read_text().split())
SPLIT_COLUMNS = tuple(
    f"split_line_item_{name}"
    for name in (
        "actual_usage",
        "net_split_cost",
        "net_unused_cost",
        "parent_resource_id",
        "public_on_demand_split_cost",
        "public_on_demand_unused_cost",
        "reserved_usage",
        "split_cost",
        "split_usage",
        "split_usage_ratio",
        "unused_cost",
    )
)
"""Columns that a report has with the table configuration INCLUDE_SPLIT_COST_ALLOCATION_DATA."""
MAPS = ("cost_category", "discount", "product", "resource_tags")

PAYER, ACCOUNT, SECOND_ACCOUNT = "111122223333", "444455556666", "777788889999"
PERSON = "Grace Hopper"
PLAN = f"arn:aws:savingsplans::{PAYER}:savingsplan/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
GATEWAY = f"arn:aws:ec2:us-east-1:{ACCOUNT}:natgateway/nat-0123456789abcdef0"
BALANCER = f"arn:aws:elasticloadbalancing:us-east-1:{ACCOUNT}:loadbalancer/net/hub/50dc6c495c0c9188"
CLUSTER = f"arn:aws:eks:us-east-1:{ACCOUNT}:cluster/acme"
POD_ARN = f"arn:aws:eks:us-east-1:{ACCOUNT}:pod/{{}}"
SECRETS = (PAYER, ACCOUNT, SECOND_ACCOUNT, PERSON, "Hopper", "arn:", "i-0", "vol-0", "nat-0", "savingsplan/", "gh@corp")

Cells = Mapping[str, Any]


def line(hour: datetime, **cells: Any) -> dict[str, Any]:
    """One line item of an hour of the stack acme in its account; names of columns without their groups' prefix."""
    begin = hour.replace(day=1, hour=0)
    after = (begin + timedelta(days=32)).replace(day=1)
    values: dict[str, Any] = {
        "bill_bill_type": "Anniversary",
        "bill_billing_entity": "AWS",
        "bill_billing_period_start_date": stamp(begin),
        "bill_billing_period_end_date": stamp(after),
        "bill_payer_account_id": PAYER,
        "bill_payer_account_name": f"{PERSON} Inc",
        "line_item_currency_code": "USD",
        "line_item_line_item_description": f"charge of {ACCOUNT} for {PERSON}",
        "line_item_line_item_type": "Usage",
        "line_item_product_code": "AmazonEC2",
        "line_item_usage_account_id": ACCOUNT,
        "line_item_usage_account_name": PERSON,
        "line_item_user_identifier": "gh@corp.example",
        "line_item_usage_amount": 1.0,
        "line_item_usage_start_date": stamp(hour),
        "line_item_usage_end_date": stamp(hour + timedelta(hours=1)),
        "line_item_unblended_cost": 0.0,
        "pricing_public_on_demand_cost": 0.0,
        "pricing_unit": "Hrs",
        "product": {"product_name": "Amazon Elastic Compute Cloud", "region": "us-east-1"},
        "resource_tags": tags(),
    }
    return {**values, **cells}


def tags(customer: str = "acme", **more: str) -> dict[str, str]:
    return {"user_ebbtide_dev_customer": customer, "user_owner": PERSON, "aws_created_by": f"IAMUser:{PERSON}", **more}


def node(hour: datetime, usd: float, *, group: str = "flexible", kind: str = "m7i.4xlarge", **cells: Any) -> Cells:
    """An hour of a node at its public price."""
    usage = cells.pop("usage", "BoxUsage")
    values = {
        "line_item_usage_type": f"USE1-{usage}:{kind}",
        "line_item_resource_id": "i-0123456789abcdef0",
        "line_item_unblended_cost": usd,
        "pricing_public_on_demand_cost": usd,
        "product_instance_type": kind,
        "resource_tags": tags(user_ebbtide_dev_node_group=group),
    }
    return line(hour, **{**values, **cells})


def covered(hour: datetime, usd: float, effective: float, **cells: Any) -> Iterator[Cells]:
    """An hour that a Savings Plan covers, and the negation of its on-demand price."""
    plan = {"savings_plan_savings_plan_a_r_n": PLAN, "savings_plan_savings_plan_effective_cost": effective}
    yield node(hour, usd, line_item_line_item_type="SavingsPlanCoveredUsage", **plan, **cells)
    yield line(
        hour,
        line_item_line_item_type="SavingsPlanNegation",
        line_item_usage_type="USE1-BoxUsage:m7i.4xlarge",
        line_item_resource_id="i-0123456789abcdef0",
        line_item_unblended_cost=-usd,
        savings_plan_savings_plan_a_r_n=PLAN,
        savings_plan_savings_plan_effective_cost=0.0,
    )


def fee(hour: datetime, commitment: float, used: float) -> Cells:
    """An hour of the plan, which the payer bought, without tags."""
    return line(
        hour,
        line_item_line_item_type="SavingsPlanRecurringFee",
        line_item_product_code="ComputeSavingsPlans",
        line_item_usage_type="ComputeSP:1yrNoUpfront",
        line_item_usage_account_id=PAYER,
        line_item_resource_id=PLAN,
        line_item_unblended_cost=commitment,
        resource_tags={},
        savings_plan_savings_plan_a_r_n=PLAN,
        savings_plan_total_commitment_to_date=commitment,
        savings_plan_used_commitment=used,
    )


def service(hour: datetime, product: str, usage: str, usd: float, resource: str, **cells: Any) -> Cells:
    values = {
        "line_item_product_code": product,
        "line_item_usage_type": f"USE1-{usage}",
        "line_item_resource_id": resource,
        "line_item_unblended_cost": usd,
        "pricing_public_on_demand_cost": usd,
    }
    return line(hour, **{**values, **cells})


def apart(hour: datetime, kind: str, usd: float, **cells: Any) -> Cells:
    values = {"line_item_line_item_type": kind, "line_item_usage_type": "", "line_item_unblended_cost": usd}
    return line(hour, **{**values, **cells})


def hours(first: datetime, number: int) -> tuple[datetime, ...]:
    return tuple(first + timedelta(hours=count) for count in range(number))


def delivered(rows: Iterable[Cells], delivery: str = "first") -> list[Cells]:
    """Return the rows with the ids of one delivery: AWS gives the same charge another id in the next one."""
    return [{**row, "identity_line_item_id": f"{delivery}-{number}"} for number, row in enumerate(rows)]


def known_month(first: datetime = datetime(2026, 11, 2, tzinfo=UTC), number: int = 24) -> list[Cells]:
    """One day: two nodes of which a plan covers one, a spot node, and all other lines, taxes and credits."""
    return delivered(_known_rows(first, number))


def in_region(rows: Iterable[Cells], region: str) -> list[Cells]:
    """Return the rows as in another region."""
    return json.loads(json.dumps([*rows]).replace("us-east-1", region))


def _known_rows(first: datetime, number: int) -> Iterator[Cells]:
    for hour in hours(first, number):
        yield from covered(hour, 0.80, 0.55)
        yield node(hour, 0.80, line_item_resource_id="i-0aaaaaaaaaaaaaaaa")
        yield node(hour, 0.10, group="batch", usage="SpotUsage", kind="c5.xlarge", pricing_public_on_demand_cost=0.17)
        yield fee(hour, 0.60, 0.55)
        yield service(hour, "AmazonEKS", "AmazonEKS-Hours:perCluster", 0.10, CLUSTER)
        yield service(hour, "AmazonEC2", "EBS:VolumeUsage.gp3", 0.02, "vol-0123456789abcdef0", pricing_unit="GB-Mo")
        yield service(hour, "AmazonEC2", "NatGateway-Hours", 0.045, GATEWAY)
        yield service(hour, "AWSELB", "LoadBalancerUsage", 0.0225, BALANCER)
        yield service(hour, "AmazonEC2", "DataTransfer-Out-Bytes", 0.03, "i-0123456789abcdef0", pricing_unit="GB")
        yield service(hour, "AmazonEC2", "BoxUsage:m5.large", 9.0, "i-0bbbbbbbbbbbbbbbb", resource_tags=tags("other"))
    yield apart(first, "Credit", -5.0)
    yield apart(first, "Refund", -2.0)
    yield apart(first, "Tax", 3.0)
    yield apart(first, "Tax", 100.0, resource_tags={}, line_item_usage_account_id=SECOND_ACCOUNT)


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod of one hour: vCPUs and GB that it requested and used."""

    namespace: str
    workload: str = ""
    deployment: str = ""
    kind: str = "ReplicaSet"
    cpu: tuple[float, float] = (1.0, 0.5)
    memory: tuple[float, float] = (4.0, 2.0)


def split(
    hour: datetime, usd: float, *pods: Pod, listed: float = 0.0, cpus: float = 16.0, cluster: str = "acme", **cells: Any
) -> Iterator[Cells]:
    """The rows of a node's pods as AWS calculates them: a vCPU weighs nine GB, the larger of request and use counts.

    Source: AWS Data Exports User Guide, "Example of split cost allocation data".
    """
    unit = usd / (9 * cpus + 4 * cpus)
    for resource, weight, capacity in (("vCPU", 9.0, cpus), ("GB", 1.0, 4 * cpus)):
        sizes = [pod.cpu if resource == "vCPU" else pod.memory for pod in pods]
        total = sum(map(max, sizes))
        for number, (pod, size) in enumerate(zip(pods, sizes, strict=True)):
            name = f"{pod.workload or 'pod'}-{number}"
            cost, unused = weight * unit * max(size), weight * unit * (capacity - total) * max(size) / total
            named = {"workload_name": pod.workload, "workload_type": pod.kind, "deployment": pod.deployment}
            found = {f"aws_eks_{key}": text for key, text in named.items() if text} if pod.workload else {}
            values = {
                "line_item_operation": "EKSPod-EC2",
                "line_item_product_code": "AmazonEKS",
                "line_item_resource_id": f"{POD_ARN.format(cluster)}/{pod.namespace}/{name}/0",
                "line_item_usage_amount": max(size),
                "line_item_usage_type": f"USE1-EKS-EC2-{resource}-Hours",
                "pricing_unit": f"{resource}-Hours",
                "resource_tags": {**found, "aws_eks_namespace": pod.namespace} if found else {},
                "split_line_item_actual_usage": size[1],
                "split_line_item_parent_resource_id": "i-0123456789abcdef0",
                "split_line_item_public_on_demand_split_cost": cost * (listed or usd) / usd,
                "split_line_item_public_on_demand_unused_cost": unused * (listed or usd) / usd,
                "split_line_item_reserved_usage": size[0],
                "split_line_item_split_cost": cost,
                "split_line_item_split_usage": max(size),
                "split_line_item_split_usage_ratio": max(size) / capacity,
                "split_line_item_unused_cost": unused,
            }
            yield line(hour, **{**values, **cells})


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def write_csv(path: Path, rows: Iterable[Cells], columns: Sequence[str] = COLUMNS) -> Path:
    """Write CSV as AWS does, maps as JSON; packed if the name ends with gz."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: json.dumps(cell) if name in MAPS else cell for name, cell in row.items()})
    data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_parquet(path: Path, rows: Iterable[Cells]) -> Path:
    """Write Parquet with AWS' types: maps, doubles, timestamps and text."""
    pa: Any = import_module("pyarrow")  # has no types
    numbers = ("_cost", "_amount", "_to_date", "_commitment")

    def type_of(name: str) -> Any:
        if name in MAPS:
            return pa.map_(pa.string(), pa.string())
        if name.endswith("_date") and name != "savings_plan_total_commitment_to_date":
            return pa.timestamp("ms")
        return pa.float64() if name.endswith(numbers) else pa.string()

    def cell(name: str, value: Any) -> Any:
        if name in MAPS and value is not None:
            return list(value.items())
        if value is None or not pa.types.is_timestamp(type_of(name)):
            return value
        return datetime.fromisoformat(value).replace(tzinfo=None)

    table = list(rows)
    arrays = {name: pa.array([cell(name, row.get(name)) for row in table], type=type_of(name)) for name in COLUMNS}
    import_module("pyarrow.parquet").write_table(pa.table(arrays), path)
    return path
