"""A stack with a Prometheus that is there, what its operator is given, and that operator's own definitions."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from ebbtide.recording.resources import Resource
from ebbtide.settings.model import StackSettings
from tests.builders.recorded import record
from tests.builders.stack import Recorded
from tests.components.ray.stack import ray_settings
from tests.paths import DATA

WATCHED = {"prometheus": "existing", "namespace": "monitoring", "labels": {"release": "stack"}}
KINDS = {"PodMonitor", "PrometheusRule"}

SIZE = {"image": "one:1", "cpu": 1, "memory": "2Gi"}
WORKERS = {
    name: {"source": {"queues": [name]}, "max": 3, "longestJob": "1h", **SIZE, **more}
    for name, more in {"train": {"ports": {"metrics": 9100}}, "prep": {"ports": {"http": 8000}}}.items()
}
WORKLOADS = {
    "api": {"category": "flexible", "ports": {"http": 8000, "metrics": 9090}, **SIZE},
    "db": {"category": "fixed", "ports": {"sql": 5432}, **SIZE},
}


def settings_with(**more: Any) -> StackSettings:
    return ray_settings(**{"workers": WORKERS, "workloads": WORKLOADS, **more})


@cache
def settings() -> StackSettings:
    """A stack with Ray, and with a pool and a workload that name a port for metrics."""
    return settings_with(monitoring=WATCHED)


@cache
def stack() -> Recorded:
    return Recorded(record(settings()))


def objects() -> Mapping[tuple[str, str, str], Resource]:
    """Those of Prometheus' operator, by kind, namespace and name."""
    found = [one for one in stack().all if one.inputs.get("kind") in KINDS]
    return {(one.inputs["kind"], *place_of(one)): one for one in found}


def place_of(resource: Resource) -> tuple[str, str]:
    metadata = resource.inputs["metadata"]
    return metadata["namespace"], metadata["name"]


@cache
def definitions() -> Mapping[str, dict[str, Any]]:
    """The CustomResourceDefinitions, by kind."""
    found = json.loads(gzip.decompress((DATA / "prometheus-operator" / "crds.json.gz").read_bytes()))
    return {crd["spec"]["names"]["kind"]: crd for crd in found}
