"""Requests of the team's DaemonSets reduce every node's capacity: in check, simulator and policies."""

from datetime import date
from pathlib import Path

from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.policies import judge
from ebbtide.settings import StackSettings, warnings_of
from ebbtide.settings.capacity.placement import node_of
from tests.builders.recorded import record
from tests.builders.settings import loaded, problem_of, shortest

WHOLE = (15700, 57541)  # of a m7i.4xlarge
TAKEN = "ebbtide:nodeGroups: { flexible: { max: 4, reserved: { cpu: 500m, memory: 1Gi } } }"


def offers(settings: StackSettings) -> list[tuple[int, int]]:
    """Return CPU and memory of a flexible node, for the check and for the simulator."""
    node = node_of(settings.node_groups["flexible"])
    (model,) = (group for group in cluster_plan(settings, Strategy.FIXED_FLEXIBLE).groups if group.name == "flexible")
    return [(node.cpu, node.memory), (model.cpu_m, model.memory_mib)]


def test_a_node_offers_less_by_what_is_reserved_and_all_where_nothing_is(tmp_path: Path) -> None:
    assert offers(loaded(shortest(), tmp_path)) == [WHOLE] * 2
    assert offers(loaded(shortest(more=TAKEN), tmp_path)) == [(15200, 56517)] * 2


def test_a_pod_that_no_longer_fits_is_refused_with_what_is_left(tmp_path: Path) -> None:
    large = shortest(more=TAKEN).replace("cpu: 4,", "cpu: 15.3,")

    assert problem_of(large, tmp_path).tells("pod.too-large", "cpu: 15.2, memory: 56517Mi")
    assert loaded(large.replace("15.3", "15.2"), tmp_path)


def test_a_policy_sees_the_same_room(tmp_path: Path) -> None:
    text = shortest().replace("cpu: 4,", "cpu: 15.7,")
    settings = loaded(text, tmp_path)
    reserved = loaded(shortest(more=TAKEN), tmp_path).node_groups
    resources = record(settings)

    def broken(settings: StackSettings) -> set[str]:
        return {result.code for result in judge(settings, resources, date(2026, 11, 20))}

    assert broken(settings.model_copy(update={"node_groups": reserved})) - broken(settings) == {"EB013"}


def test_pools_need_more_nodes_where_less_of_each_is_left(tmp_path: Path) -> None:
    whole = "ebbtide:nodeGroups: { flexible: { max: 2 } }"
    third = "ebbtide:nodeGroups: { flexible: { max: 2, reserved: { memory: 12Gi } } }"
    pool = shortest().replace("max: 4,", "max: 6,")

    def small(groups: str) -> bool:
        cautions = warnings_of(loaded(pool + f"  {groups}\n", tmp_path))
        return "node-group.too-small" in {caution.code for caution in cautions}

    assert not small(whole)
    assert small(third)


def test_all_of_a_node_cannot_be_reserved(tmp_path: Path) -> None:
    groups = "ebbtide:nodeGroups: {{ flexible: {{ max: 4 }}, more: {{ kind: flexible, max: 4, reserved: {{ {} }} }} }}"

    for all_of_it in ("cpu: 16", "memory: 64Gi"):
        refused = problem_of(shortest(more=groups.format(all_of_it)), tmp_path)
        assert refused.tells("node-group.all-reserved", "nodeGroups.more.reserved", "cpu: 15.7, memory: 57541Mi")
