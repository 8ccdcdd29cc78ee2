"""GPUs of a pod: a count, or requirements for each."""

from pathlib import Path

import pytest

from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.summary import summary
from ebbtide.vocabulary.labels import GPU_RESOURCE
from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, problems_of, shortest

TWO_GROUPS = """\
ebbtide:nodeGroups:
  gpu: { instanceTypes: [g5.2xlarge], max: 4 }
  gpu-large: { kind: gpu, instanceTypes: [g6e.2xlarge], max: 4 }
"""
SERVICE = "{ category: flexible, image: 'example.com/serve:1', cpu: 1, memory: 4Gi, gpu: %s }"


def with_service(gpu: str, more: str = TWO_GROUPS) -> str:
    return shortest(more=f"{more}ebbtide:workloads: {{ serve: {SERVICE % gpu} }}")


@pytest.mark.parametrize("gpu", ["2", "{ count: 2 }", "{ count: 2, resource: nvidia.com/gpu }"])
def test_a_number_alone_is_the_count(gpu: str, tmp_path: Path) -> None:
    text = shortest(train=f"gpu: {gpu}", more="ebbtide:nodeGroups: { gpu: { instanceTypes: [g5.12xlarge], max: 4 } }")

    assert loaded(text, tmp_path).workers["train"].gpu == Gpu(count=2, resource=GPU_RESOURCE, memory=None)


@pytest.mark.parametrize(
    ("gpu", "code", "parts"),
    [
        ("{ resource: gpu }", "gpu.resource", ("gpu.resource:", "found 'gpu'", "(for example amd.com/gpu)")),
        ("{ resource: amd.com/ }", "gpu.resource", ("found 'amd.com/'",)),
        ("{ resource: A.com/gpu }", "gpu.resource", ("found 'A.com/gpu'",)),
        ("{ resource: a..com/gpu }", "gpu.resource", ("found 'a..com/gpu'",)),
        ("{ resource: kubernetes.io/gpu }", "gpu.resource", ("found 'kubernetes.io/gpu'",)),
        ("{ resource: x.kubernetes.io/gpu }", "gpu.resource", ("found 'x.kubernetes.io/gpu'",)),
        ("{ resource: requests.amd.com/gpu }", "gpu.resource", ("found 'requests.amd.com/gpu'",)),
        ("{ count: 0, memory: 24Gi }", "gpu.of-none", ("gpu.count:", "found 0", "(for example 1)")),
        ("{ resource: amd.com/gpu, memory: 24Gi }", "gpu.memory-untold", ("gpu.memory:", "found amd.com/gpu")),
        ("{ memory: 24 GB }", "memory.form", ("gpu.memory:",)),
        ("{ count: two }", "type.whole-number", ("gpu.count:", "found 'two'")),
        ("two", "type.whole-number", ("train.gpu:", "found 'two'")),
        ("{ model: L4 }", "key.unknown", ("gpu.model:",)),
    ],
)
def test_what_no_gpu_can_be_is_refused_at_its_key(gpu: str, code: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(onprem(train=f"gpu: {gpu}"), tmp_path).tells(code, *parts)


def test_memory_that_no_gpu_of_any_group_has_is_refused_with_what_they_have(tmp_path: Path) -> None:
    assert problem_of(with_service("{ count: 1, memory: 80Gi }"), tmp_path) == (
        ":9: ebbtide:workloads.serve.gpu.memory: wanted at most what a GPU of the node groups for it has: "
        "gpu 22888Mi (NVIDIA A10G), gpu-large 45776Mi (NVIDIA L40S), found 80Gi (for example 45776Mi); "
        "by AWS's figures, which are below the maker's rounded ones; types with as much: p4de, p5"
    )


def test_of_memory_that_no_gpu_has_no_type_is_named(tmp_path: Path) -> None:
    assert "types with as much" not in problem_of(with_service("{ memory: 81Gi }"), tmp_path)


@pytest.mark.parametrize("memory", ["45776Mi", "44Gi", "16Gi"])
def test_memory_that_some_group_has_is_taken(memory: str, tmp_path: Path) -> None:
    assert loaded(with_service(f"{{ memory: {memory} }}"), tmp_path).workloads["serve"].gpu.count == 1


def test_a_group_counts_with_the_smallest_gpu_of_its_types(tmp_path: Path) -> None:
    """AWS may choose either; g4dn.xlarge and g5.xlarge have the same shape."""
    groups = "ebbtide:nodeGroups: { gpu: { instanceTypes: [g5.xlarge, g4dn.xlarge], max: 4 } }\n"

    assert loaded(with_service("{ memory: 16Gi }", groups).replace("memory: 4Gi", "memory: 2Gi"), tmp_path)
    problem = problem_of(with_service("{ memory: 20Gi }", groups).replace("memory: 4Gi", "memory: 2Gi"), tmp_path)
    assert problem.tells("gpu.too-much-memory", "gpu 16Gi (NVIDIA T4)")


@pytest.mark.parametrize(("memory", "group"), [("16Gi", "gpu"), ("24Gi", "gpu-large")])
def test_a_pool_goes_to_the_cheapest_group_with_enough(memory: str, group: str, tmp_path: Path) -> None:
    text = shortest(train=f"gpu: {{ memory: {memory} }}", more=TWO_GROUPS)

    assert loaded(text, tmp_path).workers["train"].node_group == group


def test_a_group_that_a_pool_names_must_have_enough_itself(tmp_path: Path) -> None:
    text = shortest(train="gpu: { memory: 24Gi }, nodeGroup: gpu", more=TWO_GROUPS)

    problem = problem_of(text, tmp_path)
    assert problem.tells(
        "gpu.too-much-memory", "workers.train.gpu.memory:", "has: gpu 22888Mi (NVIDIA A10G), found 24Gi"
    )


def test_nothing_is_said_of_memory_while_a_groups_types_are_wrong(tmp_path: Path) -> None:
    text = with_service("{ memory: 80Gi }").replace("g6e.2xlarge", "g6e.2xlrge")

    assert [problem.code for problem in problems_of(text, tmp_path)] == ["instance-type.unknown"]


def test_other_devices_than_the_nodes_made_here_offer_take_an_existing_cluster(tmp_path: Path) -> None:
    problem = problem_of(shortest(train="gpu: { resource: nvidia.com/mig-1g.10gb }"), tmp_path)

    assert problem.tells("gpu.resource-not-offered", "train.gpu.resource:", "found nvidia.com/mig-1g.10gb")
    text = onprem(train="gpu: { resource: nvidia.com/mig-1g.10gb }")
    assert loaded(text, tmp_path).workers["train"].gpu.resource == "nvidia.com/mig-1g.10gb"


def test_a_summary_names_the_devices_and_their_memory(tmp_path: Path) -> None:
    of_memory = loaded(onprem(train="gpu: { count: 2, memory: 40Gi }"), tmp_path)
    slices = loaded(onprem(train="gpu: { resource: nvidia.com/mig-1g.10gb }"), tmp_path)

    assert any(", 16Gi, 2 GPU of 40Gi, jobs" in line for line in summary(of_memory))
    assert any(", 16Gi, 1 nvidia.com/mig-1g.10gb, jobs" in line for line in summary(slices))
