"""The pods that Prometheus knows, with the dollars of what each of them requests."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ebbtide.monitoring.client import Prometheus, UnknownAnswer
from ebbtide.monitoring.links import Reply
from ebbtide.operate.idle.pods import running_pods
from ebbtide.prices import spot_typical
from tests.builders.settings import loaded, shortest

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
POD = {"namespace": "ebbtide-workers", "pod": "train-a"}
NODE = {"node": "ip-10-0-1-7"}


def _sample(labels: Mapping[str, str], value: float) -> dict[str, Any]:
    return {"metric": labels, "value": [0, str(value)]}


class Answering:
    """A Prometheus with these samples, which are new, and of one controller."""

    where = "Prometheus at test"

    def __init__(self, *samples: tuple[str, Mapping[str, str], float]) -> None:
        self._samples = [
            _sample({**({"__name__": name} if name else {}), **labels}, value) for name, labels, value in samples
        ]

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        assert path == "query", path
        told = {"max(": NOW.timestamp(), "sum(": 1.0}.get(str(query["query"])[:4])
        result = self._samples if told is None else [_sample({}, told)]
        return Reply({"status": "success", "data": {"result": result}}, NOW)


@pytest.mark.parametrize(
    "foreign",
    [
        ("ebbtide_pod_hours_total", {"team": "vision"}, 7.0),
        ("ebbtide_node_hours_total", {"team": "vision"}, 7.0),
        ("ebbtide_pod_requested_cpu_cores", {"pod": "train-a"}, 7.0),
        ("", {"customer": "acme"}, 7.0),
    ],
    ids=["of pods", "of nodes", "without a namespace", "without a name"],
)
def test_series_of_others_change_no_pod(foreign: tuple[str, Mapping[str, str], float], tmp_path: Path) -> None:
    answering = Answering(
        ("ebbtide_pod_info", {**POD, **NODE, "workload": "train", "category": "worker"}, 1),
        ("ebbtide_pod_requested_cpu_cores", POD, 2),
        ("ebbtide_pod_requested_memory_bytes", POD, 4),
        ("ebbtide_node_info", {**NODE, "instance_type": "m7i.xlarge", "capacity_type": "ON_DEMAND"}, 1),
        ("ebbtide_node_cpu_cores", NODE, 4),
        ("ebbtide_node_memory_bytes", NODE, 16),
        ("ebbtide_node_dollars_per_hour", NODE, 0.8),
        foreign,
    )

    pods = running_pods(Prometheus(answering, "acme", lambda: NOW), loaded(shortest(), tmp_path))

    assert not isinstance(pods, UnknownAnswer), pods
    assert [(pod.pod, pod.workload) for pod in pods] == [("train-a", "train")]
    assert pods[0].usd == pytest.approx(0.8 * (2 / 4 + 4 / 16) / 2 * 730)


ARN = "arn:aws:eks:eu-west-1:111122223333:cluster/prod"


@pytest.mark.parametrize(
    ("context", "region"), [("onprem", ""), ("onprem\naws:region: eu-west-1", "eu-west-1"), (ARN, "eu-west-1")]
)
def test_spot_prices_of_an_existing_cluster_are_of_the_stated_region(context: str, region: str, tmp_path: Path) -> None:
    name, _, more = context.partition("\n")
    settings = loaded(shortest(more=f"ebbtide:cluster: {{ kind: existing, context: '{name}' }}\n{more}"), tmp_path)
    answering = Answering(
        ("ebbtide_pod_info", {**POD, **NODE, "workload": "train", "category": "worker"}, 1),
        ("ebbtide_pod_requested_cpu_cores", POD, 4),
        ("ebbtide_pod_requested_memory_bytes", POD, 16),
        ("ebbtide_node_info", {**NODE, "instance_type": "m7i.xlarge", "capacity_type": "spot"}, 1),
        ("ebbtide_node_dollars_per_hour", NODE, 0.8),
        ("ebbtide_node_cpu_cores", NODE, 4),
        ("ebbtide_node_memory_bytes", NODE, 16),
    )

    pods = running_pods(Prometheus(answering, "acme", lambda: NOW), settings)

    assert not isinstance(pods, UnknownAnswer), pods
    wanted = pytest.approx(spot_typical(region, "m7i.xlarge") * 730) if region else None
    assert pods[0].usd == wanted
