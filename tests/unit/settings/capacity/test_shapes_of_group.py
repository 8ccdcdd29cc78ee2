"""The managed groups that a node group of the stack file becomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.prices import instance_type, instance_type_names
from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.capacity.shapes_of_group import parts_of, shape_text
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.stack import group_settings

TYPES = ("g6e.2xlarge", "g6e.4xlarge", "g5.2xlarge", "g5.4xlarge", "g6.4xlarge")
GPU_TYPES = [name for name in instance_type_names() if instance_type(name).gpu and not instance_type(name).device]
SOME_TYPES = st.lists(st.sampled_from(GPU_TYPES), min_size=1, max_size=8, unique=True)


def on_spot(*types: str, **changes: object) -> NodeGroupSettings:
    return group_settings(NodeKind.SPOT, instance_types=types, **{"max": 30, **changes})


def test_a_spot_group_with_gpus_has_a_managed_group_for_each_shape() -> None:
    parts = parts_of("gpu-spot", on_spot(*TYPES))

    assert {name: part.instance_types for name, part in parts.items()} == {
        "gpu-spot-8x32x1": ("g5.2xlarge",),
        "gpu-spot-8x64x1": ("g6e.2xlarge",),
        "gpu-spot-16x64x1": ("g5.4xlarge", "g6.4xlarge"),
        "gpu-spot-16x128x1": ("g6e.4xlarge",),
    }


def test_another_order_in_the_file_is_the_same_managed_groups() -> None:
    assert parts_of("x", on_spot(*TYPES[::-1], min=5)) == parts_of("x", on_spot(*TYPES, min=5))


@pytest.mark.parametrize(
    "group",
    [
        group_settings(NodeKind.GPU),
        group_settings(NodeKind.SPOT),
        on_spot(*TYPES, provisioner=Provisioner.KARPENTER),
        on_spot("g99.xlarge", shape={"cpu": 8, "memory": "32Gi", "gpu": 1}),
    ],
    ids=["on demand", "without GPUs", "of Karpenter", "described"],
)
def test_every_other_group_is_one_managed_group_under_its_own_name(group: NodeGroupSettings) -> None:
    assert parts_of("any", group) == {"any": group}


@given(types=SOME_TYPES, data=st.data())
def test_a_further_shape_changes_no_managed_group_but_its_share(types: list[str], data: st.DataObject) -> None:
    before = parts_of("x", on_spot(*types))
    shapes = {instance_type(name).shape for name in types}
    further = data.draw(st.sampled_from([name for name in GPU_TYPES if instance_type(name).shape not in shapes]))

    after = parts_of("x", on_spot(*data.draw(st.permutations([*types, further]))))

    assert {name: after[name].instance_types for name in before} == {
        name: part.instance_types for name, part in before.items()
    }
    assert len(after) == len(before) + 1


@given(types=SOME_TYPES, least=st.integers(0, 20), most=st.integers(20, 90))
def test_the_managed_groups_share_minimum_and_maximum(types: list[str], least: int, most: int) -> None:
    parts = parts_of("x", on_spot(*types, min=least, max=most)).values()

    for total, shares in ((least, [part.min for part in parts]), (most, [part.max for part in parts])):
        assert sum(shares) == total
        assert max(shares) - min(shares) <= 1
    assert all(part.min <= part.max for part in parts)


def test_types_of_different_shapes_have_different_names() -> None:
    kinds = [instance_type(name) for name in GPU_TYPES]

    assert len({shape_text(kind) + kind.arch for kind in kinds}) == len({kind.shape for kind in kinds})
