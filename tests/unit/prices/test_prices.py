"""Instance sizes, capacity for pods, and prices with their dates."""

import csv

import pytest

from ebbtide.prices import (
    Capacity,
    NoPrice,
    PricingAssumption,
    UnknownInstanceType,
    hourly,
    instance_type,
    instance_type_names,
    on_demand,
    price_date,
    service_price,
    spot_typical,
    usable,
)
from ebbtide.prices.data_files import shipped_text


def test_a_type_has_its_facts() -> None:
    kind = instance_type("g6.2xlarge")

    assert (kind.vcpu, kind.memory_mib, kind.gpu, kind.gpu_model, kind.arch) == (8, 32768, 1, "NVIDIA L4", "amd64")
    assert kind.max_pods == 110


def test_the_pod_limit_is_the_smaller_of_what_the_interfaces_and_a_managed_group_allow() -> None:
    for row in csv.DictReader(shipped_text("instance_types.csv").splitlines()):
        has_prefixes = row["instance_type"].partition(".")[0] not in ("i3", "p3") or "metal" in row["instance_type"]
        in_each_place = 16 if has_prefixes else 1  # Xen types have no prefix delegation
        addresses = int(row["enis"]) * (int(row["ipv4_per_eni"]) - 1) * in_each_place + 2
        cap = 110 if int(row["vcpu"]) < 30 else 250
        assert instance_type(row["instance_type"]).max_pods == min(addresses, cap)


def test_an_unknown_type_names_close_ones() -> None:
    with pytest.raises(UnknownInstanceType, match=r"'m7i.4xlrge'; did you mean m7i.4xlarge"):
        instance_type("m7i.4xlrge")


def test_pods_get_the_capacity_that_kubelet_and_system_pods_leave() -> None:
    # allocatable 15890m and 57691 MiB, less kube-proxy 100m, the CNI 50m, the EBS driver 30m and 120 MiB,
    # the node monitoring agent 10m and 30 MiB
    assert usable(instance_type("m7i.4xlarge")) == Capacity(cpu=15700, memory=57541, gpu=0, pods=105)


def test_gpu_nodes_also_run_a_device_plugin_and_a_gpu_monitor() -> None:
    with_gpu, without = usable(instance_type("g6.2xlarge")), usable(instance_type("m7i.2xlarge"))

    assert (without.cpu - with_gpu.cpu, without.memory - with_gpu.memory, without.pods - with_gpu.pods) == (20, 128, 2)


@pytest.mark.parametrize(
    ("name", "cpu", "gibibytes", "gpu"),
    [("m7i.4xlarge", 15_000, 55, 0), ("g6.2xlarge", 7_000, 28, 1), ("g6.8xlarge", 30_000, 114, 1)],
)
def test_a_worker_sized_for_a_node_fits_it_once(name: str, cpu: int, gibibytes: int, gpu: int) -> None:
    assert usable(instance_type(name)).copies(cpu=cpu, memory=gibibytes * 1024, gpu=gpu) == 1


def test_every_type_leaves_something_for_pods() -> None:
    for name in instance_type_names():
        room = usable(instance_type(name))
        assert min(room.cpu, room.memory, room.pods) > 0, name


def test_list_prices_are_those_of_the_region() -> None:
    assert on_demand("us-east-1", "m7i.2xlarge") == 0.4032
    assert on_demand("eu-central-1", "m7i.2xlarge") > on_demand("us-east-1", "m7i.2xlarge")


def test_a_plans_rate_is_the_list_price_less_its_discount() -> None:
    assert hourly("us-east-1", "m7i.2xlarge", "compute-1y-no-upfront") == pytest.approx(0.4032 * (1 - 0.265))
    assert hourly("us-east-1", "m7i.2xlarge", "on-demand") == 0.4032


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-southeast-2"])
def test_a_longer_commitment_is_never_dearer(region: str) -> None:
    one_year, three_years = PricingAssumption.COMPUTE_1Y, PricingAssumption.COMPUTE_3Y

    assert hourly(region, "g5.2xlarge", three_years) < hourly(region, "g5.2xlarge", one_year)


def test_only_list_prices_are_exact() -> None:
    assert [assumption for assumption in PricingAssumption if not assumption.approximate] == ["on-demand"]


def test_a_missing_price_says_how_to_give_it() -> None:
    with pytest.raises(NoPrice, match=r"no prices for region ap-east-2; .* update --region ap-east-2"):
        on_demand("ap-east-2", "m7i.2xlarge")
    with pytest.raises(NoPrice, match=r"no price for g6.2xlarge in me-south-1 in the tables of 2025-04-24 \(from AWS:"):
        on_demand("me-south-1", "g6.2xlarge")
    with pytest.raises(NoPrice, match=r"no compute-1y-no-upfront discount is known for p5.48xlarge"):
        hourly("us-east-1", "p5.48xlarge", "compute-1y-no-upfront")
    with pytest.raises(NoPrice, match=r"z9.large is not in the table"):
        on_demand("us-east-1", "z9.large")


def test_services_have_prices_too() -> None:
    assert service_price("us-east-1", "eks", "control_plane_standard") == 0.1
    with pytest.raises(NoPrice, match=r"no price for eks moon in us-east-1"):
        service_price("us-east-1", "eks", "moon")


def test_spot_is_cheaper_than_list_price_and_dated() -> None:
    assert 0 < spot_typical("us-east-1", "m7i.2xlarge") < on_demand("us-east-1", "m7i.2xlarge")
    assert price_date("us-east-1").on_demand > price_date("eu-west-1").on_demand
