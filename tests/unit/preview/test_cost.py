"""The estimate: one bill calculated by hand, and the effect of unknown parts."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.preview.cost.comparison import compare_costs
from ebbtide.preview.cost.monthly import GroupCost, group_costs, not_in_figures
from ebbtide.preview.render.stack import stack_parts
from tests.builders.settings import loaded, shortest

DAY = date(2026, 6, 1)

GROUPS = """
    ebbtide:nodeGroups:
      fixed: { instanceTypes: [m7i.2xlarge], min: 2, max: 4 }
      flexible: { instanceTypes: [m7i.4xlarge, m6i.4xlarge], max: 10 }
"""


def lines(text: str, folder: Path, **node_hours: float) -> dict[str, GroupCost]:
    return {line.name: line for line in group_costs(loaded(text, folder), DAY, node_hours or None)}


def test_one_bill_by_hand(tmp_path: Path) -> None:
    bill = lines(shortest(more=GROUPS), tmp_path, fixed=1460, flexible=1000)

    # m7i.2xlarge costs 0.4032 an hour, m7i.4xlarge 0.8064 (m6i.4xlarge is 0.768: the dearest counts)
    assert bill["fixed"].usd_at_min == pytest.approx(0.4032 * 2 * 730)  # 588.67
    assert bill["fixed"].usd_at_max == pytest.approx(1177.344)
    assert bill["fixed"].usd_at_usage == pytest.approx(588.672)
    assert bill["flexible"].usd_at_min == 0
    assert bill["flexible"].usd_at_max == pytest.approx(5886.72)
    assert bill["flexible"].usd_at_usage == pytest.approx(806.40)
    assert bill["EKS control plane"].usd_at_min == bill["EKS control plane"].usd_at_max == pytest.approx(73.00)
    assert bill["NAT gateway"].usd_at_usage == pytest.approx(32.85)
    assert bill["public IPv4 address"].usd_at_usage == pytest.approx(3.65)
    assert bill["KMS key"].usd_at_usage == 1.00
    assert bill["node disks"].usd_at_usage == pytest.approx(0.08 * 50 * 2460 / 730)
    assert bill["Redis volume"].usd_at_usage == pytest.approx(8 * 0.08)
    assert bill["fixed"].price_date == date(2026, 7, 20)
    assert bill["NAT gateway"].price_date == bill["node disks"].price_date == date(2025, 4, 24)
    assert not bill["fixed"].approximate


def test_a_group_of_karpenter_with_several_sizes_has_the_range_of_its_cost(tmp_path: Path) -> None:
    sizes = "flexible: { instanceTypes: [m7i.4xlarge, m7i.2xlarge], max: 10, provisioner: karpenter }"
    bill = lines(shortest(more=f"ebbtide:nodeGroups: {{ {sizes} }}"), tmp_path)

    assert bill["flexible"].usd_at_max == pytest.approx(5886.72)
    types = "from m7i.2xlarge to m7i.4xlarge, as Karpenter chooses"
    assert bill["flexible"].note == f"$2,943 to $5,887 at max: {types}"
    used = lines(shortest(more=f"ebbtide:nodeGroups: {{ {sizes} }}"), tmp_path, flexible=1000)["flexible"]
    assert used.note == f"$2,943 to $5,887 at max, $403 to $806 at usage: {types}"
    assert lines(shortest(more=GROUPS), tmp_path)["flexible"].note == ""


def test_a_plan_is_cheaper_approximate_and_as_old_as_its_discount(tmp_path: Path) -> None:
    text = shortest(more=GROUPS + "    ebbtide:costs: { pricingAssumption: compute-1y-no-upfront }")

    fixed = lines(text, tmp_path)["fixed"]

    assert fixed.usd_at_min == pytest.approx(588.672 * (1 - 0.265))
    assert fixed.approximate
    assert fixed.price_date == date(2025, 4, 24)


def test_a_plan_covers_a_group_up_to_its_min_and_the_rest_is_on_demand(tmp_path: Path) -> None:
    text = shortest(more=GROUPS + "    ebbtide:costs: { pricingAssumption: compute-1y-no-upfront }")

    bill = lines(text, tmp_path, fixed=2000, flexible=1000)

    # two m7i.2xlarge at 0.4032 less 26.5 % for 730 h are 432.67; each node-hour beyond 1,460 costs 0.4032
    assert bill["fixed"].usd_at_max == pytest.approx(432.674 + 588.672)
    assert bill["fixed"].usd_at_usage == pytest.approx(432.674 + 540 * 0.4032)
    assert bill["fixed"].assumption == "compute-1y-no-upfront for 2, the rest on-demand"
    assert bill["flexible"].usd_at_usage == pytest.approx(806.40)
    assert (bill["flexible"].assumption, bill["flexible"].approximate) == ("on-demand", False)
    assert bill["flexible"].price_date == date(2026, 7, 20)
    # the plan is paid whether its hours are used or not
    assert lines(text, tmp_path, fixed=100)["fixed"].usd_at_usage == bill["fixed"].usd_at_min


def test_without_stated_hours_the_file_counts_and_without_those_it_is_open(tmp_path: Path) -> None:
    text = shortest(more=GROUPS + "    ebbtide:costs: { expectedNodeHours: { flexible: 500 } }")

    bill = lines(text, tmp_path)

    assert bill["flexible"].usd_at_usage == pytest.approx(403.20)
    assert bill["fixed"].usd_at_usage is bill["node disks"].usd_at_usage is None
    assert lines(text, tmp_path, fixed=1.0)["flexible"].usd_at_usage is None


def test_no_plan_covers_spot(tmp_path: Path) -> None:
    more = GROUPS + "      spot: { max: 4 }\n    ebbtide:costs: { pricingAssumption: compute-3y-no-upfront }"

    bill = lines(shortest(more=more), tmp_path)

    assert bill["spot"].assumption == "spot, typical"
    assert bill["spot"].approximate


def test_an_estimated_price_counts_and_is_marked(tmp_path: Path) -> None:
    more = """
        ebbtide:nodeGroups: { flexible: { instanceTypes: [m5.4xlarge, m8i.4xlarge], max: 4 } }
        aws:region: af-south-1
    """

    bill = lines(shortest(more=more), tmp_path)

    assert bill["flexible"].usd_at_max == pytest.approx(4 * 730 * 1.12016)
    assert bill["flexible"].assumption == "on-demand; m8i.4xlarge estimated from us-east-1"
    assert bill["flexible"].estimated
    assert bill["flexible"].approximate


def test_a_region_without_prices_leaves_the_amounts_open_and_says_why(tmp_path: Path) -> None:
    bill = lines(shortest(more=GROUPS + "    aws:region: ap-east-2"), tmp_path)

    assert bill["fixed"].usd_at_max is bill["NAT gateway"].usd_at_max is None
    assert bill["EKS control plane"].usd_at_max == 73.0  # the same in every region
    assert bill["fixed"].note == bill["NAT gateway"].note == "no price is known in ap-east-2"


@pytest.mark.parametrize(
    ("network", "wanted"),
    [
        ("nat: single", {"NAT gateway": 32.85, "public IPv4 address": 3.65}),
        ("nat: per-zone", {"NAT gateway (3)": 98.55, "public IPv4 address (3)": 10.95}),
        ("nat: none", {"interface endpoint (24)": 175.20}),  # eight in each of three zones, 0.01 an hour
        (
            "vpc: { id: vpc-0a1b2c3d, privateSubnets: { a: subnet-000000aa, b: subnet-000000bb, c: subnet-000000cc } }",
            {},
        ),
    ],
)
def test_the_ways_out_of_the_network_are_on_the_bill(network: str, wanted: dict[str, float], tmp_path: Path) -> None:
    zones = "    ebbtide:cluster: { zones: [a, b, c] }"
    bill = lines(shortest(more=f"{GROUPS}    ebbtide:network: {{ {network} }}\n{zones}"), tmp_path)
    ways_out = {name: line.usd_at_min for name, line in bill.items() if not line.node_group}

    assert ways_out.keys() - wanted.keys() == {"EKS control plane", "KMS key", "node disks", "Redis volume"}
    assert {name: ways_out[name] for name in wanted} == pytest.approx(wanted)


def test_a_cache_is_billed_by_the_node_and_one_without_a_price_is_left_open(tmp_path: Path) -> None:
    cache = "ebbtide:redisPassword: {{ secure: AAA }}\nebbtide:redis: {{ kind: elasticache, nodeType: {0} }}"

    bill = lines(shortest(more=cache.format("cache.t4g.small")), tmp_path)
    unpriced = lines(shortest(more=cache.format("cache.r6gd.xlarge")), tmp_path)

    assert bill["ElastiCache node (2)"].usd_at_min == pytest.approx(0.0256 * 2 * 730)  # a primary and its standby
    assert unpriced["ElastiCache node (2)"].usd_at_min is None
    assert unpriced["ElastiCache node (2)"].note == "no price is known in us-east-1"
    assert not [name for name in lines(shortest(), tmp_path) if name.startswith("ElastiCache")]


def test_load_balancers_are_named_beside_the_bill_and_their_public_addresses_are_on_it(tmp_path: Path) -> None:
    pod = "category: flexible, image: api:1, cpu: 1, memory: 1Gi, ports: { http: 80 }"
    text = shortest(
        more=f"""
        ebbtide:workloads:
          api: {{ {pod}, expose: {{ public: true }} }}
          web: {{ {pod}, expose: {{}} }}
          own: {{ {pod} }}
        """
    )

    settings = loaded(text, tmp_path)
    (missing,) = not_in_figures(settings)

    assert "2 network load balancers (api, web)" in missing
    assert missing in stack_parts(settings, (), DAY)
    assert missing in compare_costs(None, settings, DAY).confidence
    assert not_in_figures(loaded(shortest(), tmp_path)) == ()
    assert lines(text, tmp_path)["public IPv4 address (3)"].usd_at_min == pytest.approx(3 * 3.65)


VOLUMES = """
    ebbtide:workloads:
      db:
        category: fixed
        kind: stateful-set
        image: example.com/pg:17
        replicas: 2
        cpu: 1
        memory: 1Gi
        volumes: { data: { perPod: 100Gi, at: /data }, log: { perPod: 10Gi, class: gp3, at: /log } }
"""


def test_snapshots_are_not_in_the_figures_and_named_as_such(tmp_path: Path) -> None:
    saved = VOLUMES.replace("perPod: 100Gi,", "perPod: 100Gi, snapshots: { every: 24h, keep: 7 },")

    (missing,) = not_in_figures(loaded(shortest(more=GROUPS + saved), tmp_path))

    assert missing.startswith("without the snapshots of ")
    assert ".data, which AWS bills" in missing
    assert not_in_figures(loaded(shortest(more=GROUPS + VOLUMES), tmp_path)) == ()


def test_disks_of_services_are_paid_all_month_one_for_each_pod(tmp_path: Path) -> None:
    bill = lines(shortest(more=GROUPS + VOLUMES), tmp_path, fixed=1, flexible=1)

    # two pods with 100 and 10 GB each, at 0.08 a GB
    volumes = bill["service volume (4)"]
    assert volumes.usd_at_min == volumes.usd_at_max == volumes.usd_at_usage == pytest.approx(2 * 110 * 0.08)
    assert volumes.note == ""


def test_a_disk_of_a_class_of_ones_own_is_not_priced_and_says_so(tmp_path: Path) -> None:
    text = shortest(more=GROUPS + VOLUMES.replace("gp3", "fast"))

    bill = lines(text, tmp_path, fixed=1, flexible=1)

    assert bill["service volume (2)"].usd_at_usage == pytest.approx(2 * 100 * 0.08)
    assert bill["service volume of class fast (2)"].usd_at_usage is None
    assert "not priced" in bill["service volume of class fast (2)"].note
    whole = compare_costs(None, loaded(text, tmp_path), DAY)
    assert whole.without == ((), ("service volume of class fast",))
    assert "without service volume of class fast, whose prices are not known" in whole.confidence
    assert "prices update" not in whole.confidence  # no table has the price


def test_a_stack_without_such_disks_has_no_line_for_them(tmp_path: Path) -> None:
    assert [name for name in lines(shortest(more=GROUPS), tmp_path) if "service volume" in name] == []


def test_the_requests_that_count_messages_in_sqs_are_told_with_their_cost(tmp_path: Path) -> None:
    brokers = "ebbtide:brokers: { aws: { kind: sqs } }\n"
    source = "kind: consumer, broker: aws, queues: [scan, mail.fifo]"
    text = shortest(more=brokers).replace("queues: [train]", source).replace("longestJob: 12h", "longestJob: 1h")

    (missing,) = not_in_figures(loaded(text, tmp_path))

    assert all(part in missing for part in ("SQS", "2 queues", "5.3 million a month", "$2.37"))
    assert not_in_figures(loaded(shortest(more=brokers), tmp_path)) == ()


def test_the_endpoint_of_sqs_is_on_the_bill_of_a_closed_network(tmp_path: Path) -> None:
    brokers = "ebbtide:brokers: { aws: { kind: sqs } }\nebbtide:network: { nat: none }\n"
    source = "kind: consumer, broker: aws, queues: [scan]"
    text = shortest(more=brokers).replace("queues: [train]", source).replace("longestJob: 12h", "longestJob: 1h")

    assert "interface endpoint (18)" in lines(text, tmp_path)  # eight and SQS, in two zones
