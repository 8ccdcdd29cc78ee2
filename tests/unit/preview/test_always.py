"""What always runs: the pods at their minimum by the calendar, and the nodes that they need, calculated by hand."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.preview.cost.monthly import GroupCost, group_costs
from ebbtide.preview.cost.shares import service_costs
from ebbtide.prices import instance_type, usable
from ebbtide.settings.capacity.process_documents import sleepers_of
from tests.builders.settings import loaded, shortest

DAY = date(2026, 6, 1)
POD = 'image: "example.com/app:1", cpu: 1, memory: 2Gi'
PROBED = "ports: { http: 8080 }, port: http, probes: { readiness: { http: /, port: http } }"
SERVED = f"{POD}, {PROBED}, longestRequest: 10s"
HOURS = 365 * 24  # of 2026
WORKDAYS = 261


def always(more: str, folder: Path, *, train: str = "", hours: str = "") -> dict[str, GroupCost]:
    return {line.name: line for line in group_costs(loaded(shortest(train=train, hours=hours, more=more), folder), DAY)}


def test_four_gpu_pods_that_never_go_need_four_nodes_at_all_times(tmp_path: Path) -> None:
    bill = always(
        f"""
        ebbtide:nodeGroups: {{ gpu: {{ instanceTypes: [g5.2xlarge], max: 8, diskSize: 100 }} }}
        ebbtide:workloads: {{ infer: {{ {POD}, gpu: 1, replicas: 4, category: flexible }} }}
        """,
        tmp_path,
    )

    assert bill["gpu"].usd_always == pytest.approx(4 * 1.212 * 730)
    assert bill["gpu"].usd_at_min == 0
    assert bill["flexible"].usd_always == 0
    assert bill["node disks"].usd_always == pytest.approx(2 * 50 * 0.08 + 4 * 100 * 0.08)


def test_the_minimum_of_a_group_counts_whether_pods_need_it_or_not(tmp_path: Path) -> None:
    groups = "fixed: { instanceTypes: [m7i.2xlarge], min: 3, max: 4 }"
    bill = always(f"ebbtide:nodeGroups: {{ {groups} }}", tmp_path)

    assert bill["fixed"].usd_always == bill["fixed"].usd_at_min == pytest.approx(3 * 0.4032 * 730)


def test_pods_use_the_nodes_of_the_minimum_before_further_ones(tmp_path: Path) -> None:
    """Ten pods of 2 CPUs: three on each fixed node of 8 CPUs, so two more nodes than the minimum of two."""
    groups = "fixed: { instanceTypes: [m7i.2xlarge], min: 2, max: 6 }"
    workloads = f"db: {{ {POD.replace('cpu: 1', 'cpu: 2')}, category: fixed, replicas: 10 }}"
    bill = always(f"ebbtide:nodeGroups: {{ {groups} }}\nebbtide:workloads: {{ {workloads} }}", tmp_path)

    assert bill["fixed"].usd_always == pytest.approx(4 * 0.4032 * 730)


def test_no_group_has_more_nodes_than_its_maximum(tmp_path: Path) -> None:
    groups = "flexible: { instanceTypes: [m7i.4xlarge], max: 2 }"
    workloads = f"api: {{ {POD.replace('cpu: 1', 'cpu: 12')}, category: flexible, replicas: 5 }}"
    bill = always(f"ebbtide:nodeGroups: {{ {groups} }}\nebbtide:workloads: {{ {workloads} }}", tmp_path)

    assert bill["flexible"].usd_always == pytest.approx(2 * 0.8064 * 730) == bill["flexible"].usd_at_max


def test_a_service_asleep_overnight_counts_only_while_its_calendar_keeps_it_awake(tmp_path: Path) -> None:
    """Awake on 261 days from its start before 08:00, which a node and a pod need, until 18:00."""
    bill = always(
        f"""
        ebbtide:services: {{ rank: {{ {SERVED}, startsWithin: 20m, sleep: {{ when: outsideBusinessHours }} }} }}
        """,
        tmp_path,
    )
    settings = loaded(shortest(more=f"ebbtide:services: {{ rank: {{ {SERVED}, startsWithin: 20m }} }}"), tmp_path)
    lead = (settings.controller.node_startup.total_seconds() + 20 * 60) / 3600
    share = WORKDAYS * (10 + lead) / HOURS

    assert bill["flexible"].usd_always == pytest.approx(0.8064 * 730 * share)


def test_a_chart_that_sleeps_counts_only_while_its_calendar_keeps_it_awake(tmp_path: Path) -> None:
    rule = "namespace: notebooks, selector: { app: hub }, category: flexible, replicas: 1, cpu: 1, memory: 2Gi"
    sleep = "sleep: { when: outsideBusinessHours, scale: { kind: Deployment, name: hub } }"
    more = f'ebbtide:cluster: {{ version: "1.36" }}\nebbtide:adopted: {{ hub: {{ {rule}, {sleep} }} }}'
    (policy,) = sleepers_of(loaded(shortest(more=more), tmp_path))
    share = WORKDAYS * (10 + policy.lead.total_seconds() / 3600) / HOURS

    assert always(more, tmp_path)["flexible"].usd_always == pytest.approx(0.8064 * 730 * share)


def test_a_floor_of_the_calendar_raises_the_pods_of_a_service_and_its_share(tmp_path: Path) -> None:
    scale = "scale: { metrics: { cpu: 70% }, min: 1, max: 9, floor: calendar, open: 4 }"
    settings = loaded(
        shortest(more=f"ebbtide:services: {{ rank: {{ {SERVED}, startsWithin: 1m, {scale} }} }}"), tmp_path
    )
    lead = (settings.controller.node_startup.total_seconds() + 60) / 3600
    mean = 1 + 3 * WORKDAYS * (10 + lead) / HOURS
    (cost,) = service_costs(settings, 2026)

    assert cost.usd_at_min is not None
    assert cost.usd_always == pytest.approx(mean * cost.usd_at_min)


def test_a_pool_keeps_its_nodes_in_the_nights_and_mornings_that_are_planned(tmp_path: Path) -> None:
    """Three workers to a node of 16 CPUs: three from 02:00 for 2 h every day, and five at each opening for 30 min."""
    settings = loaded(shortest(), tmp_path)
    lead = settings.controller.node_startup.total_seconds() / 3600
    bill = always(
        "",
        tmp_path,
        train="morning: { workers: 4, for: 30m }",
        hours='overnight: [{ pool: train, at: "02:00", for: 2h, workers: 3 }]',
    )

    hours = 365 * (2 + lead) + 2 * WORKDAYS * (0.5 + lead)
    assert bill["flexible"].usd_always == pytest.approx(0.8064 * 730 * hours / HOURS, rel=1e-3)


def test_karpenter_takes_the_cheapest_type_that_holds_the_pods_of_a_node(tmp_path: Path) -> None:
    groups = "flexible: { instanceTypes: [m7i.4xlarge, m7i.2xlarge], max: 10, provisioner: karpenter }"
    text = (
        "ebbtide:nodeGroups: {{ {groups} }}\nebbtide:workloads: {{ api: {{ {pod}, category: flexible, replicas: 2 }} }}"
    )
    small, large = (
        always(text.format(groups=groups, pod=POD.replace("cpu: 1", f"cpu: {cpu}")), tmp_path) for cpu in (2, 6)
    )

    assert small["flexible"].usd_always == pytest.approx(0.4032 * 730)
    assert large["flexible"].usd_always == pytest.approx(0.8064 * 730)


def test_a_small_node_of_karpenter_reserves_what_the_largest_type_needs(tmp_path: Path) -> None:
    """Pods that fill a node of a group with one size do not fit its type in a group with a larger one."""
    pod = POD.replace("cpu: 1", f"cpu: {usable(instance_type('m7i.2xlarge')).cpu}m")
    alone, mixed = (
        always(
            f"""
            ebbtide:nodeGroups: {{ flexible: {{ instanceTypes: [{types}], max: 10, provisioner: karpenter }} }}
            ebbtide:workloads: {{ api: {{ {pod}, category: flexible }} }}
            """,
            tmp_path,
        )
        for types in ("m7i.2xlarge", "m7i.4xlarge, m7i.2xlarge")
    )

    assert alone["flexible"].usd_always == pytest.approx(0.4032 * 730)
    assert mixed["flexible"].usd_always == pytest.approx(0.8064 * 730)


def test_the_highest_priority_grows_first(tmp_path: Path) -> None:
    small, large = (f"kind: flexible, instanceTypes: [m7i.{size}xlarge], max: 4" for size in (2, 4))
    groups = f"a: {{ {small} }}, b: {{ {large}, priority: 5 }}"
    bill = always(
        f"ebbtide:nodeGroups: {{ {groups} }}\nebbtide:workloads: {{ api: {{ {POD}, category: flexible }} }}", tmp_path
    )

    assert bill["a"].usd_always == 0
    assert bill["b"].usd_always == pytest.approx(0.8064 * 730)


def test_a_ray_cluster_that_sleeps_counts_in_business_hours_only(tmp_path: Path) -> None:
    pods = "head: { cpu: 2, memory: 8Gi }, groups: { cpu: { min: 1, max: 4, cpu: 12, memory: 40Gi } }"
    ray = 'version: "2.60.0", image: "example.com/ray:2.60.0", longestTask: 30m'
    asleep, awake = (
        always(f"ebbtide:ray: {{ flow: {{ {ray}, {pods}{sleep} }} }}", tmp_path)
        for sleep in (", sleep: { when: outsideBusinessHours }", "")
    )

    assert awake["flexible"].usd_always == pytest.approx(0.8064 * 730)
    assert asleep["flexible"].usd_always == pytest.approx(0.8064 * 730 * WORKDAYS * 10 / HOURS)


def test_adopted_pods_count_with_their_number(tmp_path: Path) -> None:
    rule = "selector: { app: etl }, namespace: team, category: worker, usually: 3, cpu: 12, memory: 2Gi"
    bill = always(f'ebbtide:cluster: {{ version: "1.36" }}\nebbtide:adopted: {{ etl: {{ {rule} }} }}', tmp_path)

    assert bill["flexible"].usd_always == pytest.approx(3 * 0.8064 * 730)


def test_an_unknown_price_leaves_the_amount_unknown(tmp_path: Path) -> None:
    workloads = f"ebbtide:workloads: {{ api: {{ {POD}, category: flexible }} }}"
    bill = always(f"aws:region: ap-east-2\n{workloads}", tmp_path)

    assert bill["flexible"].usd_always is None
    assert bill["node disks"].usd_always is None
