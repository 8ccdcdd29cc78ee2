"""Spot groups with GPUs: types of several sizes, and the pods that may use them."""

from pathlib import Path

import pytest

from ebbtide.prices import instance_type
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings import warnings_of
from ebbtide.settings.capacity.placement import admits, gpu_memory, node_of, smallest_node
from tests.builders.settings import loaded, problem_of, shortest
from tests.builders.stack import group_settings

TYPES = "g6e.2xlarge, g6e.4xlarge, g5.2xlarge, g5.4xlarge, g6.4xlarge"
REQUIRED = 'checkpoints: { store: "s3://saves/jobs", required: true }'


def stack(*, types: str = TYPES, group: str = "max: 30", train: str = f"gpu: 1, {REQUIRED}", more: str = "") -> str:
    """The shortest file with a spot group with GPUs, which its pool names."""
    groups = f"gpu-spot: {{ kind: spot, instanceTypes: [{types}], {group} }}"
    cluster = "ebbtide:cluster: { zones: [a, b, c] }"
    return shortest(
        train=f"{train}, nodeGroup: gpu-spot", more=f"{cluster}\nebbtide:nodeGroups: {{ {groups} }}\n{more}"
    )


def cautions(text: str, folder: Path, code: str) -> list[str]:
    return [str(caution) for caution in warnings_of(loaded(text, folder)) if caution.code == code]


def test_a_pool_with_required_checkpoints_runs_on_spot_nodes_with_gpus(tmp_path: Path) -> None:
    settings = loaded(stack(), tmp_path)

    assert settings.on_spot(settings.workers["train"])
    assert NodeKind.GPU not in [group.kind for group in settings.node_groups.values()], "no default group beside it"


@pytest.mark.parametrize(("jobs", "refused"), [("1h", False), ("61m", True)])
def test_without_required_checkpoints_jobs_are_as_short_as_on_other_spot_nodes(
    jobs: str, refused: bool, tmp_path: Path
) -> None:
    text = stack(train="gpu: 1").replace("longestJob: 12h", f"longestJob: {jobs}")

    if refused:
        assert problem_of(text, tmp_path).tells("spot.long-jobs", "or take a gpu group")
    else:
        (told,) = cautions(text, tmp_path, "spot.workers-not-told")
        assert "no stop signal" in told
        assert "required: true" in told


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (REQUIRED, ("flexible or spot without GPUs", "found 'gpu-spot' of kind spot, whose nodes have GPUs")),
        (f"gpu: 2, {REQUIRED}", ()),
        (f"gpu: {{ count: 1, memory: 40Gi }}, {REQUIRED}", ("gpu-spot 22888Mi (NVIDIA A10G or NVIDIA L4)",)),
    ],
)
def test_pods_must_fit_the_smallest_node_and_gpu(train: str, words: tuple[str, ...], tmp_path: Path) -> None:
    code = {REQUIRED: "node-group.kind", f"gpu: 2, {REQUIRED}": "pod.too-large"}.get(train, "gpu.too-much-memory")

    assert problem_of(stack(train=train), tmp_path).tells(code, *words)


def test_capacity_and_gpu_memory_are_those_of_the_smallest(tmp_path: Path) -> None:
    group = loaded(stack(), tmp_path).node_groups["gpu-spot"]

    assert node_of(group) == smallest_node([instance_type("g5.2xlarge")])
    assert gpu_memory(group) == instance_type("g5.2xlarge").gpu_memory_mib


def test_with_karpenter_too_although_every_kubelet_reserves_what_the_largest_needs(tmp_path: Path) -> None:
    alone = smallest_node([instance_type("g5.2xlarge")])

    node = node_of(loaded(stack(group="max: 30, provisioner: karpenter"), tmp_path).node_groups["gpu-spot"])

    assert alone.cpu - 100 < node.cpu < alone.cpu
    assert alone.memory - 1024 < node.memory < alone.memory


def test_with_karpenter_a_type_with_more_processors_and_fewer_gpus_decides_what_kubelets_reserve(
    tmp_path: Path,
) -> None:
    """230 millicores on a g5.16xlarge, which has one GPU, and 190 on a g4dn.12xlarge, which has four."""

    def cpu(types: str) -> int:
        text = stack(types=types, group="max: 30, provisioner: karpenter")
        return node_of(loaded(text, tmp_path).node_groups["gpu-spot"]).cpu

    assert cpu("g4dn.12xlarge") - cpu("g4dn.12xlarge, g5.16xlarge") == 230 - 190


def test_pods_with_gpus_go_there_only_by_name(tmp_path: Path) -> None:
    text = stack(more='ebbtide:workloads: { viz: { category: flexible, image: "a:1", cpu: 1, memory: 1Gi, gpu: 1 } }')

    assert "gpu" in loaded(text, tmp_path).node_groups, "the default group, for the service"


def test_nor_do_variants_of_services_on_spot_nodes(tmp_path: Path) -> None:
    settings = loaded(stack(), tmp_path)

    assert not admits(settings.node_groups["gpu-spot"], NodeKind.SPOT, settings.workers["train"])
    assert admits(group_settings(NodeKind.SPOT), NodeKind.SPOT, settings.workers["train"])


def test_disks_are_as_large_as_those_of_other_gpu_nodes(tmp_path: Path) -> None:
    assert loaded(stack(), tmp_path).node_groups["gpu-spot"].disk_size == 100
    assert loaded(stack(group="max: 30, diskSize: 60"), tmp_path).node_groups["gpu-spot"].disk_size == 60


@pytest.mark.parametrize(("types", "told"), [("g5.2xlarge", True), ("g5.2xlarge, g6e.2xlarge", False)])
def test_fewer_than_six_pools_of_capacity_are_told_with_the_reason(types: str, told: bool, tmp_path: Path) -> None:
    words = cautions(stack(types=types), tmp_path, "spot.few-pools")

    assert [("1 type in 3 zones" in text, "none of these 3 has capacity" in text) for text in words] == (
        [(True, True)] if told else []
    )


def test_of_few_pools_only_jobs_without_a_fallback_wait(tmp_path: Path) -> None:
    both = "nodeGroups: { gpu: { instanceTypes: [g5.2xlarge], max: 3 },"
    text = stack(types="g5.2xlarge", train=f"gpu: 1, fallback: gpu, {REQUIRED}").replace("nodeGroups: {", both)

    (told,) = cautions(text, tmp_path, "spot.few-pools")

    assert "none of these 3 has capacity, jobs without a fallback wait." in told


def test_a_type_without_a_typical_price_is_named(tmp_path: Path) -> None:
    (told,) = cautions(stack(types="p5.4xlarge, g5.2xlarge"), tmp_path, "spot.no-price")

    assert "no typical spot saving is known for p5.4xlarge in us-east-1" in told
    assert cautions(stack(), tmp_path, "spot.no-price") == []


EIGHT_SIZES = "g5.2xlarge, g5.4xlarge, g5.8xlarge, g5.16xlarge, g6e.2xlarge, g6e.4xlarge, g6e.8xlarge, g6e.16xlarge"


def test_more_managed_groups_than_eks_allows_are_told(tmp_path: Path) -> None:
    """In three zones; fixed and flexible nodes have six."""
    code, group = "node-groups.above-quota", "max: 90"

    (told,) = cautions(stack(types=f"{EIGHT_SIZES}, g6e.12xlarge", group=group), tmp_path, code)

    assert "they become 33 managed node groups" in told
    assert cautions(stack(types=EIGHT_SIZES, group=group), tmp_path, code) == []
