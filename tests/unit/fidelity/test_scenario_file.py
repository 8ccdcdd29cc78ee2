"""Files of scenarios: what may be left out, and one clear line for each fault, all at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity.file import ScenarioInvalid, read_scenarios
from tests.fidelity.scenario import run_scenario

GROUP: dict[str, Any] = {"name": "flexible", "max": 5, "cpu_m": 4000, "memory_mib": 8192}
WORKLOAD: dict[str, Any] = {"name": "api", "replicas": 2, "cpu_m": 3000, "memory_mib": 1024}
SHORTEST: dict[str, Any] = {"node_groups": [GROUP], "workloads": [WORKLOAD], "end_s": 60}


def written(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "scenarios.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def faults(tmp_path: Path, document: object) -> list[str]:
    with pytest.raises(ScenarioInvalid) as raised:
        read_scenarios(written(tmp_path, document))
    return str(raised.value).splitlines()


@pytest.mark.parametrize("document", [SHORTEST, [SHORTEST], {"scenarios": [SHORTEST]}])
def test_one_scenario_alone_a_list_and_a_mapping_are_read_alike(tmp_path: Path, document: object) -> None:
    (scenario,) = read_scenarios(written(tmp_path, document)).scenarios

    assert scenario["name"] == "scenario 1"
    assert run_scenario(scenario).nodes[-1][1] == {"flexible": 2}


def test_as_with_the_recordings_provider_a_pod_that_fills_a_node_exactly_gets_none_from_zero(tmp_path: Path) -> None:
    filling = {**SHORTEST, "workloads": [{**WORKLOAD, "cpu_m": GROUP["cpu_m"]}]}
    (scenario,) = read_scenarios(written(tmp_path, filling)).scenarios

    assert run_scenario(scenario).nodes == ((0.0, {}),)


def test_what_is_left_out_has_the_autoscalers_own_defaults(tmp_path: Path) -> None:
    (scenario,) = read_scenarios(written(tmp_path, {**SHORTEST, "flags": {"scan_interval_s": 3}})).scenarios

    assert scenario["flags"]["scale_down_unneeded_s"] == 600
    assert scenario["flags"]["scale_down_delay_after_delete_s"] == 3  # by default the scan interval
    assert "observed" not in scenario


def test_all_faults_are_told_at_once_each_with_its_path(tmp_path: Path) -> None:
    group = {**GROUP, "cpu_m": "4", "max": -1}
    lines = faults(
        tmp_path, [SHORTEST, {"flags": {"utilization_threshold": 5}, "node_groups": [group], "workloads": "none"}]
    )

    assert [line.partition("scenarios.json: ")[2].partition(" (for")[0] for line in lines] == [
        "[1].end_s: wanted seconds above 0, found nothing",
        "[1].flags.utilization_threshold: wanted a share from 0 to 1, found 5",
        "[1].node_groups[0].max: wanted a whole number from 0 to 10000, found -1",
        "[1].node_groups[0].cpu_m: wanted a whole number above 0, found '4'",
        "[1].workloads: wanted a list, found 'none'",
    ]


def test_a_key_that_nobody_knows_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    read = read_scenarios(written(tmp_path, {**SHORTEST, "weather": "fine"}))

    assert [remark.partition("scenarios.json: ")[2] for remark in read.remarks] == ["[0].weather: unknown, left out"]
    assert "weather" not in read.scenarios[0]
