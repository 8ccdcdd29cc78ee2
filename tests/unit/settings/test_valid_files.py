"""Valid files: defaults, units, placement of workers."""

from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings import load_stack, parse_stack, stack_names
from tests.builders.settings import loaded, shortest
from tests.paths import DATA


def test_the_shortest_file_is_a_customer_hours_and_one_pool(tmp_path: Path) -> None:
    settings = loaded(shortest(), tmp_path)

    assert settings.stack == "acme"
    assert settings.region == "us-east-1"
    assert {name: group.kind for name, group in settings.node_groups.items()} == {
        "fixed": NodeKind.FIXED,
        "flexible": NodeKind.FLEXIBLE,
    }
    assert settings.workers["train"].node_group == "flexible"
    assert settings.workers["train"].min == 0
    assert settings.controller.closing_guard == timedelta(minutes=15)


def test_units_are_parsed_once(tmp_path: Path) -> None:
    more = """
        ebbtide:workloads:
          api: { category: flexible, image: "example.com/api:1", cpu: 1500m, memory: 2Gi }
    """
    settings = loaded(shortest(more=more), tmp_path)

    assert settings.workers["train"].cpu == 4000
    assert settings.workers["train"].memory == 16 * 1024
    assert settings.workers["train"].longest_job == timedelta(hours=12)
    assert settings.workloads["api"].cpu == 1500


def test_a_gpu_pool_brings_a_gpu_group_of_its_own(tmp_path: Path) -> None:
    settings = loaded(shortest(train="gpu: 1"), tmp_path)

    assert settings.workers["train"].node_group == "gpu"
    assert settings.node_groups["gpu"].instance_types == ("g5.2xlarge",)
    assert settings.node_groups["gpu"].disk_size == 100, "frameworks with CUDA make large images"


def test_a_spot_group_has_four_types_to_be_served_from(tmp_path: Path) -> None:
    settings = loaded(shortest(more="ebbtide:nodeGroups: { spot: { max: 4 } }"), tmp_path)

    assert len(settings.node_groups["spot"].instance_types) == 4


@pytest.mark.parametrize(("most", "group"), [(4, "snug"), (7, "big")])
def test_a_pool_goes_to_the_group_that_is_cheapest_for_all_its_workers(most: int, group: str, tmp_path: Path) -> None:
    more = """
        ebbtide:nodeGroups:
          big: { kind: flexible, instanceTypes: [m7i.8xlarge], max: 4 }
          snug: { kind: flexible, instanceTypes: [c7i.4xlarge], max: 4 }
    """
    text = shortest(more=more).replace("max: 4, cpu: 4, memory: 16Gi", f"max: {most}, cpu: 4, memory: 8Gi")

    # 7 workers fit on a node for 1.6128 USD, 3 on one for 0.714: four take one or two, seven take one or three.
    assert loaded(text, tmp_path).workers["train"].node_group == group


@pytest.mark.parametrize(("region", "group"), [("af-south-1", "plain"), ("ap-east-2", "large")])
def test_an_estimated_price_decides_placement_and_without_one_the_cpu_does(
    region: str, group: str, tmp_path: Path
) -> None:
    """Both types have 16 vCPUs, and `large` sorts first."""
    more = f"""
        ebbtide:nodeGroups:
          large: {{ kind: flexible, instanceTypes: [r8i.4xlarge], max: 4 }}
          plain: {{ kind: flexible, instanceTypes: [m8i.4xlarge], max: 4 }}
        aws:region: {region}
    """

    assert loaded(shortest(more=more), tmp_path).workers["train"].node_group == group


def test_kind_follows_from_a_groups_name_only_where_it_is_a_kind(tmp_path: Path) -> None:
    more = """
        ebbtide:nodeGroups:
          gpu: { max: 4 }
          gpu-large: { kind: gpu, instanceTypes: [g6.8xlarge], max: 4 }
    """
    groups = loaded(shortest(more=more), tmp_path).node_groups

    assert groups["gpu"].kind is groups["gpu-large"].kind is NodeKind.GPU


def test_values_of_other_namespaces_and_secrets_pass(tmp_path: Path) -> None:
    more = """
        aws:region: eu-central-1
        aws:profile: 012
        pulumi:tags: { on: no }
        registry:token: { secure: AAABBB }
        ebbtide:redisPassword: { secure: AAABBB }
    """
    text = "encryptionsalt: v1:abc\nsecretsprovider: passphrase\n" + shortest(more=more)

    settings = loaded(text, tmp_path)

    assert settings.region == "eu-central-1"
    assert settings.redis_password_set


def test_a_config_mapping_gives_the_same_settings_as_the_file(tmp_path: Path) -> None:
    config = {
        "ebbtide:customer": "acme",
        "ebbtide:redisPassword": "in the clear, as Pulumi hands it out",
        "ebbtide:businessHours": {"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}},
        "ebbtide:workers": {
            "train": {
                "source": {"queues": ["train"]},
                "image": "example.com/train:1",
                "max": 4,
                "cpu": 4,
                "memory": "16Gi",
                "longestJob": "12h",
            }
        },
    }
    text = shortest(more="ebbtide:redisPassword: { secure: AAABBB }")

    assert parse_stack(config, stack="acme", file="a program") == loaded(text, tmp_path)


def test_the_example_stacks_are_valid() -> None:
    assert set(stack_names(DATA)) >= {"demo", "example-berlin"}
    for name in stack_names(DATA):
        assert load_stack(name, DATA).stack == name


def test_each_worker_of_the_demo_fits_its_own_group() -> None:
    pools = load_stack("demo", DATA).workers

    assert {name: pool.node_group for name, pool in pools.items()} == {
        "prep": "flexible",
        "train": "gpu",
        "train-large": "gpu-large",
    }
