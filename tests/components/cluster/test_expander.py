"""The order in which groups grow, as the priority expander reads it from EKS' names."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.aws.node_shape import name_prefix
from components.cluster.autoscaler import NAMESPACE_RULES
from components.cluster.autoscaler_settings import priorities
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.plans import FLAGS
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.types import SHORT_NAME
from tests.builders.autoscaler import highest
from tests.builders.stack import Recorded, group_settings, stack_settings

# Names that could be taken for one another: a kind, a zone, the digits and letters that are put behind.
NAMES = st.one_of(
    st.sampled_from(["gpu", "a", "b", "a-b", "gpu-a", "flexible", "spot-b", "a-202611211640000000000000"]),
    st.from_regex(SHORT_NAME, fullmatch=True),
)
GROUPS = st.dictionaries(
    NAMES,
    st.builds(group_settings, st.sampled_from(NodeKind), priority=st.integers(0, 99)),
    min_size=1,
    max_size=6,
)
STAMPS = st.builds("{:018d}{:08x}".format, st.integers(0, 10**18 - 1), st.integers(0, 16**8 - 1))
UUIDS = st.uuids().map(str)
ZONES = ("a", "b", "c")
STAMP, UUID = "202611211640000000" + "00000001", "d8bdd47d-8232-234e-0544-7d7b3f16519d"


def in_aws(name: str, kind: NodeKind, zone: str, stamp: str, uuid: str) -> str:
    """The name of the Auto Scaling group that EKS creates for a node group."""
    return f"eks-{name_prefix(name, kind, zone)}{stamp}-{uuid}"


@given(groups=GROUPS, zone=st.sampled_from(ZONES), stamp=STAMPS, uuid=UUIDS, data=st.data())
def test_those_that_grow_are_the_groups_with_the_highest_priority(
    groups: dict[str, NodeGroupSettings], zone: str, stamp: str, uuid: str, data: st.DataObject
) -> None:
    able = data.draw(st.lists(st.sampled_from(sorted(groups)), min_size=1, unique=True))  # those that would do
    named = {in_aws(name, groups[name].kind, zone, stamp, uuid): groups[name].growth_priority for name in able}

    chosen = highest(priorities(groups, ZONES), named)

    assert chosen == {name for name, priority in named.items() if priority == max(named.values())}


@given(groups=GROUPS, zone=st.sampled_from(ZONES), stamp=STAMPS, uuid=UUIDS)
def test_no_two_groups_share_a_name(groups: dict[str, NodeGroupSettings], zone: str, stamp: str, uuid: str) -> None:
    named = {in_aws(name, group.kind, zone, stamp, uuid) for name, group in groups.items()}

    assert len(named) == len(groups)


def test_a_group_whose_name_was_not_foreseen_is_used_last_and_not_never() -> None:
    groups = {"flexible": group_settings()}
    ours, foreign = in_aws("flexible", NodeKind.FLEXIBLE, "a", STAMP, UUID), "by-hand"

    assert highest(priorities(groups, ZONES), [foreign]) == {foreign}
    assert highest(priorities(groups, ZONES), [foreign, ours]) == {ours}
    assert highest(priorities(groups, ZONES), [foreign, ours + "-more"]) == {foreign, ours + "-more"}


def test_the_file_orders_groups_of_one_kind() -> None:
    groups = {"covered": group_settings(priority=10), "flexible": group_settings()}
    covered, other = (in_aws(name, NodeKind.FLEXIBLE, "b", STAMP, UUID) for name in groups)

    assert highest(priorities(groups, ZONES), [other, covered]) == {covered}
    assert highest(priorities(groups, ZONES), [other]) == {other}


@pytest.mark.parametrize(
    ("first", "second"),
    [("a", "gpu-a"), ("gpu", "a"), ("gpu", "a-202611211640000000000000")],  # the end of it, its beginning, nearly all
)
def test_a_name_within_another_is_not_taken_for_it(first: str, second: str) -> None:
    groups = {first: group_settings(NodeKind.GPU, priority=1), second: group_settings(NodeKind.GPU)}
    names = {name: in_aws(name, NodeKind.GPU, "a", STAMP, UUID) for name in groups}

    assert highest(priorities(groups, ZONES), names.values()) == {names[first]}


def test_pods_that_name_no_kind_go_to_spot_nodes_last() -> None:
    order = sorted(NodeKind, key=lambda kind: group_settings(kind, priority=99).growth_priority, reverse=True)

    assert order[-1] is NodeKind.SPOT
    assert group_settings(NodeKind.FIXED, priority=99).growth_priority < group_settings().growth_priority
    assert group_settings(NodeKind.SPOT, priority=99).growth_priority < group_settings(NodeKind.FIXED).growth_priority


def test_the_replay_orders_groups_as_the_stack_does() -> None:
    settings = stack_settings(node_groups={**stack_settings().node_groups, "covered": group_settings(priority=10)})

    modelled = {group.name: group.priority for group in cluster_plan(settings, Strategy.FIXED_FLEXIBLE).groups}

    assert FLAGS.expander == "priority,least-waste"
    assert modelled == {name: group.growth_priority for name, group in settings.node_groups.items()}


def test_the_order_is_there_before_the_autoscaler_which_may_read_it(stack: Recorded) -> None:
    order = stack.named("autoscaler-priorities")
    settings = stack_settings()
    rules: list[dict[str, Any]] = [dict(rule) for rule in NAMESPACE_RULES]

    assert order.inputs["metadata"]["name"] == "cluster-autoscaler-priority-expander"
    assert order.inputs["metadata"]["namespace"] == "kube-system"
    assert order.inputs["data"] == {"priorities": priorities(settings.node_groups, settings.cluster.zones)}
    assert "autoscaler-priorities" in stack.before(stack.named("autoscaler-deployment"))
    assert any(rule["resources"] == ["configmaps"] and {"list", "watch"} <= set(rule["verbs"]) for rule in rules)
