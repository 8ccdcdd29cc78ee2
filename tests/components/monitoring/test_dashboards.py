"""Dashboards come along when they are asked for, where the sidecar of Grafana looks for them."""

import json
from collections.abc import Mapping

import pytest

from ebbtide.settings.sections.monitoring import MonitoringSettings, PrometheusKind
from tests.builders.recorded import record
from tests.builders.stack import Recorded, stack_settings

EXISTING = {"prometheus": PrometheusKind.EXISTING, "namespace": "monitoring"}
BUNDLED = {"prometheus": PrometheusKind.BUNDLED}


def config_maps(given: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """By name, the namespace and the data of each that has the sidecar's label."""
    monitoring = MonitoringSettings.model_validate(given)
    made = Recorded(record(stack_settings(monitoring=monitoring)))
    found = [one.inputs for one in made.all if one.type == "kubernetes:core/v1:ConfigMap"]
    return {
        one["metadata"]["name"]: {"namespace": one["metadata"]["namespace"], **one["data"]}
        for one in found
        if one["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
    }


@pytest.mark.parametrize(("given", "namespace"), [(EXISTING, "monitoring"), (BUNDLED, "ebbtide")])
def test_each_is_a_config_map_with_the_label_of_the_sidecar(given: Mapping[str, object], namespace: str) -> None:
    found = config_maps({**given, "dashboards": True})

    assert sorted(found) == [f"ebbtide-acme-{name}" for name in ("day", "money", "nodes", "queues", "serving")]
    for name, one in found.items():
        assert one["namespace"] == namespace
        assert json.loads(one[f"{name}.json"])["uid"] == name


def test_without_the_key_there_are_none() -> None:
    assert config_maps(EXISTING) == {}
