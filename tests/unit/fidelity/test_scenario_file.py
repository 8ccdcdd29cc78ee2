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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"flags": {"expander": "cheapest"}}, "flags.expander: wanted one or more of least-nodes"),
        ({"flags": {"scan_interval_s": 0}}, "flags.scan_interval_s: wanted seconds above 0, found 0"),
        ({"flags": {"balance_similar": "yes"}}, "flags.balance_similar: wanted true or false"),
        ({"flags": {"max_drain_paralelism": 2}}, "did you mean max_drain_parallelism?"),
        ({"end_s": float("nan")}, "end_s: wanted seconds above 0"),
        ({"timeline": [{"at_s": 5, "scale": {"aip": 1}}]}, "timeline[0].scale: wanted the name of a workload"),
        ({"timeline": [{"at_s": 5, "scale": {"api": 10**9}}]}, "timeline[0].scale: wanted numbers by name"),
        ({"node_groups": [GROUP, GROUP]}, "node_groups[1].name: wanted a name of its own"),
        ({"node_groups": [{**GROUP, "min": 6}]}, "node_groups[0].min: wanted no more than max"),
        ({"node_groups": [{**GROUP, "taints": [{"colour": "red"}]}]}, "taints: wanted a list of key, value and effect"),
        ({"observed": [{"t_s": 1}]}, "observed[0].nodes: wanted numbers by name, found nothing"),
        ({"final_packing": ["api"]}, "final_packing: wanted a list of the workloads on each node"),
    ],
)
def test_each_fault_is_one_line_with_what_is_wanted(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    (line,) = faults(tmp_path, {**SHORTEST, **change})

    assert says in line


@pytest.mark.parametrize("document", ["", "{", "[]", "3", "null", '{"scenarios": []}', "[" * 100_000])
def test_what_is_no_list_of_scenarios_is_refused_in_one_line(tmp_path: Path, document: str) -> None:
    assert len(faults(tmp_path, document)) == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioInvalid, match=r"missing\.json: cannot be read: No such file"):
        read_scenarios(tmp_path / "missing.json")


def test_a_key_that_nobody_knows_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    read = read_scenarios(written(tmp_path, {**SHORTEST, "weather": "fine"}))

    assert [remark.partition("scenarios.json: ")[2] for remark in read.remarks] == ["[0].weather: unknown, left out"]
    assert "weather" not in read.scenarios[0]
