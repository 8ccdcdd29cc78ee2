"""A stack with a Prometheus and an Alertmanager of its own, and what their pods are given."""

import json
from functools import cache
from typing import Any

from ebbtide.settings.file.problems import SECRET
from ebbtide.settings.model import StackSettings
from tests.builders.monitoring.watched import settings_with
from tests.builders.recorded import record
from tests.builders.stack import Recorded
from tests.components.ray.stack import ray_settings

HELD: dict[str, Any] = {
    "digestKey": SECRET,
    "secrets": {"oncall": {"url": SECRET, "password": SECRET, "routingKey": SECRET}, "beat": {"url": SECRET}},
}
ALERTS: dict[str, Any] = {
    "receiver": {"webhook": {"port": 8443}, "secret": "oncall"},
    "deadMan": {"secret": "beat"},
}


def settings(*, more: dict[str, Any] | None = None, **keys: Any) -> StackSettings:
    """`keys` of the section of monitoring, `more` of the stack."""
    return settings_with(**{**HELD, **(more or {})}, monitoring={"prometheus": "bundled", "alerts": ALERTS, **keys})


def on_an_existing_cluster() -> StackSettings:
    return ray_settings(existing={}, monitoring={"prometheus": "bundled"})


@cache
def stack() -> Recorded:
    return Recorded(record(settings()))


def document(made: Recorded, part: str, file: str) -> Any:
    """A file of the config of `prometheus` or `alertmanager`."""
    return json.loads(made.named(f"monitoring-{part}-config", ":ConfigMap").inputs["data"][file])


def jobs(made: Recorded) -> dict[str, Any]:
    return {job["job_name"]: job for job in document(made, "prometheus", "prometheus.json")["scrape_configs"]}


def pod(made: Recorded, part: str) -> Any:
    return made.named(f"monitoring-{part}-server").inputs["spec"]["template"]["spec"]
