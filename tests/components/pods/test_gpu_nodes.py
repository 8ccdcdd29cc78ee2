"""The nodes of a pod that requires GPU memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from components.pods.rules import labelled_memory, one_of_groups, required, resources, tolerations
from ebbtide.recording.resources import Resource, kind_of, name_of
from ebbtide.settings.sections.pods.pod import Gpu
from tests.builders.components import pod_of
from tests.builders.existing import onprem
from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest

TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
GROUPS = """\
ebbtide:nodeGroups:
  gpu: { instanceTypes: [g5.2xlarge], max: 4 }
  gpu-large: { kind: gpu, instanceTypes: [g6e.2xlarge], max: 4 }
  gpu-huge: { kind: gpu, instanceTypes: [p5.48xlarge], max: 4 }
"""
PODS = """\
ebbtide:workloads:
  serve: { category: flexible, image: "example.com/s:1", cpu: 1, memory: 4Gi, gpu: GPU }
ebbtide:jobs:
  fit: { image: "example.com/f:1", cpu: 1, memory: 4Gi, longestRun: 1h, gpu: GPU }
"""


def rendered(text: str, folder: Path) -> dict[str, Mapping[str, Any]]:
    found = record(loaded(text.replace("GPU }", "{ memory: 40Gi } }"), folder))
    kinds = ("Deployment", "Job")
    return {name_of(one): pod_of(one) for one in found if kind_of(one) in kinds}


def expressions(pod: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    terms = pod["affinity"].get("nodeAffinity", {}).get(TERMS, {}).get("nodeSelectorTerms", [])
    return [term["matchExpressions"] for term in terms]


def test_a_service_lands_on_the_groups_with_enough_alone(tmp_path: Path) -> None:
    pods = rendered(shortest(train="gpu: { memory: 40Gi }", more=GROUPS + PODS), tmp_path)

    groups = {"key": "ebbtide.dev/node-group", "operator": "In", "values": ["gpu-huge", "gpu-large"]}
    assert expressions(pods["serve"]) == [[groups]]
    assert pods["serve"]["nodeSelector"] == {"ebbtide.dev/node-kind": "gpu"}


def test_pools_and_jobs_select_one_group_and_need_no_more(tmp_path: Path) -> None:
    pods = rendered(shortest(train="gpu: { memory: 40Gi }", more=GROUPS + PODS), tmp_path)

    for name in ("train", "fit"):
        assert pods[name]["nodeSelector"] == {"ebbtide.dev/node-group": "gpu-large"}
        assert expressions(pods[name]) == []


def test_on_nodes_of_others_nvidias_label_decides_for_all(tmp_path: Path) -> None:
    pods = rendered(onprem(train="gpu: { memory: 40Gi }", more=PODS), tmp_path)

    more = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40959"]}
    assert [expressions(pods[name]) for name in ("serve", "train", "fit")] == [[[more]]] * 3


def node_groups(found: tuple[Resource, ...]) -> list[Resource]:
    return [one for one in found if one.type == "aws:eks/nodeGroup:NodeGroup"]


def test_a_wish_for_memory_changes_no_node_group(tmp_path: Path) -> None:
    with_count = record(loaded(shortest(more=GROUPS + PODS.replace("GPU }", "1 }")), tmp_path))
    with_memory = record(loaded(shortest(more=GROUPS + PODS.replace("GPU }", "{ memory: 40Gi } }")), tmp_path))

    assert node_groups(with_count)
    assert node_groups(with_count) == node_groups(with_memory)


def required_of(pod: dict[str, Any], memory: int = 1024) -> dict[str, Any]:
    narrowed = cast("dict[str, Any]", required(cast("Any", pod), labelled_memory(memory)))
    return narrowed["affinity"]["node_affinity"]["required_during_scheduling_ignored_during_execution"]


MORE_THAN_1023 = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["1023"]}


def test_a_fragments_own_terms_are_narrowed_and_no_way_around() -> None:
    """Terms are alternatives, so a separate term would allow further nodes."""
    here, there = ({"key": "site", "operator": "In", "values": [site]} for site in ("a", "b"))
    terms: list[dict[str, Any]] = [{"match_expressions": [here]}, {"match_fields": [there]}, {}]
    affinity = {"required_during_scheduling_ignored_during_execution": {"node_selector_terms": terms}}

    assert required_of({"affinity": {"node_affinity": affinity}}) == {
        "node_selector_terms": [
            {"match_expressions": [here, MORE_THAN_1023]},
            {"match_fields": [there], "match_expressions": [MORE_THAN_1023]},
            {},
        ]
    }


def test_a_fragment_of_the_file_is_narrowed_as_it_is_rendered(tmp_path: Path) -> None:
    here = "{ key: site, operator: In, values: [a] }"
    way = f"{{ nodeAffinity: {{ {TERMS}: {{ nodeSelectorTerms: [{{ matchExpressions: [{here}] }}] }} }} }}"

    pods = rendered(onprem(train=f"gpu: {{ memory: 40Gi }}, pod: {{ affinity: {way} }}"), tmp_path)

    assert expressions(pods["train"]) == [
        [
            {"key": "site", "operator": "In", "values": ["a"]},
            {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40959"]},
        ]
    ]


def test_preferences_and_other_affinity_stay() -> None:
    pod: Any = {"affinity": {"pod_affinity": {"x": 1}, "node_affinity": {"preferred": [1]}}, "priority": 1}

    narrowed = cast("dict[str, Any]", required(pod, one_of_groups(["b", "a"])))

    assert narrowed["affinity"]["pod_affinity"] == {"x": 1}
    assert narrowed["affinity"]["node_affinity"]["preferred"] == [1]
    assert narrowed["priority"] == 1


@pytest.mark.parametrize(
    ("resource", "keys"),
    [
        ("nvidia.com/gpu", [("nvidia.com/gpu", "Equal")]),
        ("nvidia.com/mig-1g.10gb", [("nvidia.com/gpu", "Equal"), ("nvidia.com/mig-1g.10gb", "Exists")]),
        ("amd.com/gpu", [("amd.com/gpu", "Exists")]),
    ],
)
def test_a_pod_asks_for_its_device_and_tolerates_the_taint_of_its_nodes(
    resource: str, keys: list[tuple[str, str]]
) -> None:
    gpu = Gpu(count=2, resource=resource)

    asked = resources(cpu=1000, memory=1024, gpu=gpu)
    assert asked["requests"] == {"cpu": "1", "memory": "1Gi", resource: "2"}  # pyright: ignore[reportTypedDictNotRequiredAccess]
    assert asked["limits"] == {"memory": "1Gi", resource: "2"}  # pyright: ignore[reportTypedDictNotRequiredAccess]
    assert [(found.get("key"), found.get("operator")) for found in tolerations(gpu)] == keys
