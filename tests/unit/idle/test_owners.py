"""What has expired, with the dollars of the pods that run without work, and who answers for what."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ebbtide.idle.owners import expired, owners
from ebbtide.prices import on_demand
from ebbtide.settings import StackSettings
from ebbtide.units.money import HOURS_PER_MONTH
from tests.builders.existing import stack_of
from tests.builders.settings import loaded, shortest

DAY = date(2026, 12, 1)
GROUPS = "ebbtide:nodeGroups: { flexible: { instanceTypes: [m7i.4xlarge], max: 9 } }"
ENDED = 'owner: team-search, expires: "2026-11-30"'


def stack(folder: Path, *, train: str = "", workloads: str = "") -> StackSettings:
    return loaded(shortest(train=train, more=f"{GROUPS}\nebbtide:workloads: {{ {workloads} }}"), folder)


def test_an_expired_workload_costs_the_part_of_its_node_that_its_pods_keep_from_others(tmp_path: Path) -> None:
    pods = f'category: flexible, image: "example.com/a:1", replicas: 3, cpu: 7, memory: 8Gi, {ENDED}'
    settings = stack(tmp_path, workloads=f"api: {{ {pods} }}")

    (finding,) = expired(settings, DAY)

    node = on_demand(settings.region, settings.node_groups["flexible"].types[0])
    assert (finding.kind, finding.name, finding.owner) == ("expired", "api", "team-search")
    assert (finding.expires, finding.since) == (date(2026, 11, 30), datetime(2026, 12, 1, tzinfo=UTC))
    assert finding.usd == pytest.approx(3 / 2 * node * HOURS_PER_MONTH)  # two of them fit on a node
    assert [*expired(settings, date(2026, 11, 30))] == []


def test_an_expired_pool_costs_its_minimum_and_without_one_nothing(tmp_path: Path) -> None:
    (kept,) = expired(stack(tmp_path, train=f"min: 2, {ENDED}"), DAY)
    (empty,) = expired(stack(tmp_path, train=ENDED), DAY)

    assert kept.usd is not None
    assert kept.usd > 0
    assert empty.usd == 0


def test_on_an_existing_cluster_an_expired_workload_has_no_price() -> None:
    (finding,) = expired(stack_of(train=f"min: 2, {ENDED}"), DAY)

    assert finding.usd is None


def test_a_name_of_two_owners_blames_neither(tmp_path: Path) -> None:
    pod = 'category: flexible, image: "example.com/a:1", cpu: 1, memory: 1Gi'
    settings = stack(
        tmp_path,
        train="owner: team-search",
        workloads=f"train: {{ {pod}, owner: team-data }}, api: {{ {pod}, owner: team-web }}",
    )

    assert {name: keys.owner for name, keys in owners(settings).items()} == {"api": "team-web"}
