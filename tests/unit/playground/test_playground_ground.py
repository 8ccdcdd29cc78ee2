"""What an afternoon leaves: nodes of each group, and disks for those who ask."""

from control_plane.playground.ground import ground_of, volume_for

from ebbtide.labels import NodeKind
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.simulator.strategies.plans import Strategy, cluster_plan
from ebbtide.simulator.world.world import ClusterPlan
from ebbtide.vocabulary.labels import Category
from tests.builders.stack import SIZE, group_settings, stack_settings


def plan_of(settings: StackSettings) -> ClusterPlan:
    return cluster_plan(settings, Strategy.FIXED_FLEXIBLE)


def services(count: int, cpu: str) -> StackSettings:
    api = WorkloadSettings.model_validate(
        {"category": Category.FLEXIBLE, "image": "api:1", **SIZE, "cpu": cpu, "replicas": count}
    )
    return stack_settings(workloads={"api": api})


def test_services_that_need_two_nodes_have_four_and_each_offers_a_part() -> None:
    settings = services(14, "2")  # 28 of the 32 that two nodes have

    ground = ground_of(settings, plan_of(settings))

    assert ground.numbers == {"fixed": 2, "flexible": 4, "gpu": 0}
    assert 4 * ground.offered >= 28_000
    assert ground.offered < 16_000 * 0.65


def test_a_group_is_never_larger_than_it_may_be() -> None:
    few = group_settings(NodeKind.FLEXIBLE, max=2)
    settings = services(14, "2").model_copy(
        update={"node_groups": {"fixed": group_settings(NodeKind.FIXED), "flexible": few}}
    )

    assert ground_of(settings, plan_of(settings)).numbers["flexible"] == 2


def test_a_node_offers_room_for_the_largest_service_at_least() -> None:
    settings = services(1, "14")

    assert ground_of(settings, plan_of(settings)).offered >= 14_000


def test_without_flexible_services_there_are_the_minimums_alone() -> None:
    settings = stack_settings(workloads={})

    ground = ground_of(settings, plan_of(settings))

    assert (ground.numbers, ground.scattered) == ({"fixed": 2, "flexible": 0, "gpu": 0}, "")


def test_a_disk_is_bound_to_the_claim_that_asked() -> None:
    claim = {
        "metadata": {"name": "data-redis-0", "namespace": "apps", "uid": "1-2"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gp3",
            "resources": {"requests": {"storage": "8Gi"}},
        },
    }

    volume = volume_for(claim)["spec"]

    assert volume["claimRef"] == {"namespace": "apps", "name": "data-redis-0", "uid": "1-2"}
    assert (volume["capacity"], volume["storageClassName"]) == ({"storage": "8Gi"}, "gp3")
