"""Faults between two sections."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from tests.builders.settings import loaded, problem_of, problems_of, shortest, told


def test_a_pod_larger_than_every_node_is_told_the_largest_that_fits(tmp_path: Path) -> None:
    text = shortest().replace("cpu: 4,", "cpu: 16,")

    assert problem_of(text, tmp_path) == (
        ":5: ebbtide:workers.train: wanted a pod that fits a flexible node; the largest that would: "
        "cpu: 15.7, memory: 57541Mi, found 16 CPU, 16Gi; "
        "each node also runs system pods, so less than its nominal size is left"
    )


def test_the_largest_pod_that_is_named_does_fit(tmp_path: Path) -> None:
    text = shortest().replace("cpu: 4, memory: 16Gi", "cpu: 15.7, memory: 57541Mi")

    assert loaded(text, tmp_path).workers["train"].node_group == "flexible"
    assert problem_of(text.replace("15.7,", "15.701,"), tmp_path).tells("pod.too-large", "15701m")


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            "flexible: { instanceTypes: [m7i.4xlarge, m7i.8xlarge], max: 4 }",
            ("node-group.shapes", "found m7i"),
        ),
        (
            "flexible: { instanceTypes: [m7i.4xlarge, m7g.4xlarge], max: 4 }",
            ("node-group.shapes", "16", "64", "0", "arm64"),
        ),
        (
            "flexible: { instanceTypes: [m7i.4xlrge], max: 4 }",
            ("instance-type.unknown", "found 'm7i.4xlrge'", "(for example m7i.4xlarge)", "did you mean"),
        ),
        ("flexible: { instanceTypes: [g5.4xlarge], max: 4 }", ("node-group.gpus",)),
        (
            "gpu: { instanceTypes: [g7.2xlarge], max: 4 }",
            ("node-group.no-image", "g7.2xlarge, which needs NVIDIA driver 595"),
        ),
        ("gpu: { instanceTypes: [g4ad.2xlarge], max: 4 }", ("node-group.no-image", "g4ad.2xlarge, whose AMD GPU")),
        ("gpu: { instanceTypes: [inf2.8xlarge], max: 4 }", ("node-group.no-image", "device plugin of AWS Neuron")),
        ("gpu: { instanceTypes: [m7i.4xlarge], max: 4 }", ("node-group.gpus",)),
        ("flexible: { instanceTypes: [], max: 4 }", ("list.empty",)),
        ("flexible: { instanceTypes: [m7i.4xlarge, m7i.4xlarge], max: 4 }", ("list.twice",)),
        ("flexible: { max: 1 }", ("node-group.max-below-zones", "found 1", "2")),
        ("flexible: { min: 5, max: 4 }", ("min.above-max", "flexible.min:", "found 5", "4")),
        ("fixed: { min: 0 }", ("node-group.fixed-min", "fixed.min:", "found 0", "1")),
        (
            "spot: { instanceTypes: [m6i.2xlarge, m7i.2xlarge], max: 4 }",
            ("spot.few-types", "found 2: m6i.2xlarge, m7i.2xlarge", "(for example [", "4"),
        ),
        (
            "spot: { instanceTypes: [c7i.4xlarge], max: 4 }",
            ("spot.few-types", "m7i-flex.2xlarge", "c7i.4xlarge", "c6i.4xlarge"),
        ),
        (
            "spot: { instanceTypes: [m7i.2xlrge, m6i.2xlarge, m6a.2xlarge, m7i-flex.2xlarge], max: 4 }",
            ("instance-type.unknown", "did you mean m7i.2xlarge?"),
        ),
        ("flexible: { max: 4, diskSize: 8 }", ("number.too-small", "flexible.diskSize:", "found 8", "20")),
        ("flexible: { max: 4, diskSize: 50Gi }", ("type.whole-number", "flexible.diskSize:", "found '50Gi'")),
        ("flexible: { max: 4, priority: 100 }", ("number.too-large", "flexible.priority:", "found 100", "99")),
        ("cheap: { max: 4 }", ("key.missing", "cheap.kind:")),
        ("cheap: { kind: spotty, max: 4 }", ("choice.unknown", "did you mean spot?")),
        ("Flexible: { kind: flexible, max: 4 }", ("name.form",)),
    ],
)
def test_a_node_group_must_be_one_that_can_exist(groups: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(shortest(more=f"ebbtide:nodeGroups: {{ {groups} }}"), tmp_path).tells(*words)


def test_two_pools_on_one_queue_are_refused(tmp_path: Path) -> None:
    pool = '    eval: { source: { queues: [train] }, image: "a:1", max: 2, cpu: 1, memory: 1Gi, longestJob: 1h }\n'

    assert problem_of(shortest() + pool, tmp_path) == (
        ":6: ebbtide:workers.eval.source.queues[0]: wanted a queue of only one pool, found 'train', "
        "which pool 'train' serves; both pools would scale up for the same jobs"
    )


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (
            "nodeGroup: spot",
            ("spot.long-jobs", "1h", "found 12h"),
        ),
        ("nodeGroup: flexibel", ("name.unknown", "found 'flexibel'", "did you mean flexible?")),
        ("nodeGroup: fixed", ("node-group.kind", "flexible or spot", "found 'fixed' of kind fixed")),
        ("nodeGroup: spot, gpu: 1", ("node-group.kind", "gpu", "found 'spot' of kind spot")),
    ],
)
def test_a_named_group_must_suit_its_pool(pool: str, words: tuple[str, ...], tmp_path: Path) -> None:
    text = shortest(train=pool, more="ebbtide:nodeGroups: { spot: { max: 4 } }")

    assert any(told(problem).tells(*words) for problem in problems_of(text, tmp_path))


def test_a_pool_too_large_for_the_group_it_names_is_refused(tmp_path: Path) -> None:
    text = shortest(train="nodeGroup: flexible").replace("memory: 16Gi", "memory: 64Gi")

    assert problem_of(text, tmp_path).tells("pod.too-large", "15.7", "57541Mi")


def test_workers_with_gpus_need_a_group_that_has_them(tmp_path: Path) -> None:
    text = shortest(train="gpu: 1", more="ebbtide:nodeGroups: { gpu: { kind: flexible, max: 4 } }")

    assert problem_of(text, tmp_path) == (
        ":5: ebbtide:workers.train: wanted a node group of kind gpu for it, found none "
        "(for example ebbtide:nodeGroups: { gpu: { max: 8 } })"
    )


def test_a_workload_must_fit_its_own_kind_of_node(tmp_path: Path) -> None:
    more = 'ebbtide:workloads: { head: { category: fixed, image: "a:1", cpu: 12, memory: 8Gi } }'

    assert problem_of(shortest(more=more), tmp_path).tells("pod.too-large", "head:")
    assert loaded(shortest(more=more.replace("fixed", "flexible")), tmp_path).workloads


def test_a_group_that_cannot_be_read_is_not_blamed_twice(tmp_path: Path) -> None:
    text = shortest(more="ebbtide:nodeGroups: { flexible: { instanceTypes: [m7i.4xlrge] } }").replace(
        "cpu: 4,", "cpu: 40,"
    )

    assert problem_of(text, tmp_path).startswith(":6: ebbtide:nodeGroups.flexible.instanceTypes[0]: wanted an instance")


def test_what_is_allowed_and_risky_is_a_warning(tmp_path: Path) -> None:
    text = shortest(train="safeStop: false", more="aws:region: ap-east-2").replace("[train]", "[train, train-slow]")

    warnings = {
        caution.code: caution for caution in warnings_of(loaded(text.replace("max: 4,", "max: 400,"), tmp_path))
    }

    assert warnings["image.no-digest"].place == "controller.image"
    assert warnings["source.several-queues"].place == "workers.train.source.queues"
    assert warnings["safe-stop.none"].place == "workers.train.safeStop"
    assert warnings["node-group.too-small"].place == "nodeGroups.flexible.max"
    assert {"20", "134"} < set(warnings["node-group.too-small"].text.replace(";", "").split())
    assert "region.no-prices" in warnings


@pytest.mark.parametrize("name", ["g7e.2xlarge", "g6f.2xlarge", "p5.48xlarge"])
def test_other_gpus_are_accepted(name: str, tmp_path: Path) -> None:
    groups = f"ebbtide:nodeGroups: {{ gpu: {{ instanceTypes: [{name}], max: 4 }} }}"

    assert loaded(shortest(more=groups), tmp_path).node_groups["gpu"].instance_types == (name,)


def warnings_in_africa(types: str, folder: Path) -> dict[str, str]:
    groups = f"ebbtide:nodeGroups: {{ flexible: {{ instanceTypes: [{types}], max: 4 }} }}"
    stack = loaded(shortest(more=f"{groups}\naws:region: af-south-1"), folder)
    return {caution.code: caution.text for caution in warnings_of(stack) if caution.place.startswith("nodeGroups.flex")}


def test_an_estimated_price_is_a_warning_since_it_decides_placement(tmp_path: Path) -> None:
    text = warnings_in_africa("m5.4xlarge, m8i.4xlarge", tmp_path)["node-group.price-estimated"]

    assert text.startswith("price of m8i.4xlarge estimated from us-east-1; costs use it, and so does the choice")


def test_a_type_without_a_price_in_its_region_is_a_warning(tmp_path: Path) -> None:
    assert (
        "no price is known for m6a.4xlarge in af-south-1"
        in warnings_in_africa("m6a.4xlarge", tmp_path)["node-group.no-price"]
    )
    assert warnings_in_africa("m5.4xlarge", tmp_path) == {}


def test_flexible_services_that_do_not_say_when_they_are_ready_are_one_line(tmp_path: Path) -> None:
    service = 'image: "example.com/a:1", cpu: 1, memory: 1Gi, replicas: 2'
    names = {"api": "flexible", "store": "fixed", "translate": "flexible"}
    listed = ", ".join(f"{name}: {{ category: {category}, {service} }}" for name, category in names.items())
    warnings = warnings_of(loaded(shortest(more=f"ebbtide:workloads: {{ {listed} }}"), tmp_path))

    (warning,) = [caution for caution in warnings if caution.code == "workloads.no-readiness-probe"]
    assert "api, translate." in warning.text
    assert "store" not in warning.text


def test_a_pool_on_spot_nodes_is_told_that_nobody_tells_its_workers(tmp_path: Path) -> None:
    train = "nodeGroup: spot, safeStop: true"
    spot = shortest(train=train, more="ebbtide:nodeGroups: { spot: { max: 4 } }").replace("12h", "30m")

    (caution,) = [caution for caution in warnings_of(loaded(spot, tmp_path)) if "spot" in str(caution)]
    assert (caution.code, caution.place) == ("spot.workers-not-told", "workers.train.nodeGroup")
    assert "ebbtide docs spot" in caution.text
    elsewhere = spot.replace("nodeGroup: spot", "nodeGroup: flexible")
    assert not [line for line in warnings_of(loaded(elsewhere, tmp_path)) if "spot" in str(line)]


def test_a_stack_with_nothing_to_say_about_has_no_warnings(tmp_path: Path) -> None:
    digest = "a" * 64
    controller = f"ebbtide:controller: {{ image: example.com/controller@sha256:{digest} }}"
    more = f'ebbtide:cluster: {{ version: "1.36" }}\n{controller}'

    assert warnings_of(loaded(shortest(more=more), tmp_path), date(2026, 8, 1)) == ()
