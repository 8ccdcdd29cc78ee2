"""What has expired, with the dollars of its pods that run, and who answers for what."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ebbtide.operate.idle.owners import expired, owners
from ebbtide.operate.idle.pods import PricedPod
from ebbtide.settings import StackSettings
from tests.builders.settings import loaded, shortest

DAY = date(2026, 12, 1)
ENDED = 'owner: team-search, expires: "2026-11-30"'
RAY = f"""
  flow: {{ version: "2.60.0", image: "example.com/ray:2.60.0", longestTask: 1h, head: {{ cpu: 1, memory: 4Gi }},
    groups: {{ cpu: {{ max: 2, cpu: 1, memory: 4Gi }} }}, {ENDED} }}
"""


def pod(workload: str, usd: float | None) -> PricedPod:
    return PricedPod(namespace="ebbtide", pod=f"{workload}-x", workload=workload, category="flexible", gpus=0, usd=usd)


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return loaded(shortest(train=ENDED, more=f"ebbtide:ray:{RAY}"), tmp_path)


def test_what_has_expired_costs_what_its_pods_cost(settings: StackSettings) -> None:
    pods = [pod("flow-head", 20), pod("flow-cpu", 70), pod("other", 500)]

    pool, cluster = expired(settings, DAY, pods)

    assert (cluster.kind, cluster.name, cluster.usd, cluster.owner) == ("expired", "flow", 90, "team-search")
    assert (cluster.expires, cluster.since) == (date(2026, 11, 30), datetime(2026, 12, 1, tzinfo=UTC))
    assert (pool.name, pool.usd) == ("train", 0)
    assert [*expired(settings, date(2026, 11, 30), pods)] == []


def test_without_a_price_or_without_prometheus_its_dollars_are_unknown(settings: StackSettings) -> None:
    assert [found.usd for found in expired(settings, DAY, [pod("train", None)])] == [None, 0]
    assert [found.usd for found in expired(settings, DAY, None)] == [None, None]


def test_a_name_of_two_owners_blames_neither(tmp_path: Path) -> None:
    workload = 'category: flexible, image: "example.com/a:1", cpu: 1, memory: 1Gi'
    both = f"train: {{ {workload}, owner: team-data }}, api: {{ {workload}, owner: team-web }}"
    settings = loaded(shortest(train="owner: team-search", more=f"ebbtide:workloads: {{ {both} }}"), tmp_path)

    assert {name: keys.owner for name, keys in owners(settings).items()} == {"api": "team-web"}
