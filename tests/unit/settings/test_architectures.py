"""Warnings about images on nodes of another processor than the one that they were built for."""

from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from tests.builders.existing import onprem
from tests.builders.settings import loaded, shortest

ARM_FIXED = "fixed: { instanceTypes: [m8g.2xlarge] }"
ARM_FLEXIBLE = "flexible: { instanceTypes: [m7g.4xlarge] }"
GPU = "gpu: { instanceTypes: [g6e.2xlarge] }"
RAY_IMAGE = "example.com/ray:2.60.0"
BOTH = f"ebbtide:nodeGroups: {{ {ARM_FIXED}, {GPU}, flexible: {{}} }}"
ALL_ARM = f"ebbtide:nodeGroups: {{ {ARM_FIXED}, {ARM_FLEXIBLE} }}"


def ray(*, head: str = "", group: str = "") -> str:
    return f"""
        ebbtide:ray:
          flow:
            version: "2.60.0"
            image: {RAY_IMAGE}
            head: {{ cpu: 2, memory: 6Gi{head} }}
            groups: {{ gpu: {{ max: 4, cpu: 3, memory: 12Gi, gpu: 1{group} }} }}
            longestTask: 30m
    """


def workload(name: str, image: str, *, category: str = "fixed", more: str = "") -> str:
    return f"ebbtide:workloads: {{ {name}: {{ category: {category}, image: {image}, cpu: 1, memory: 1Gi{more} }} }}"


def warnings(folder: Path, *more: str, train: str = "") -> list[tuple[str, str]]:
    cautions = warnings_of(loaded(with_sections(*more, train=train), folder))
    return [(caution.place, caution.text) for caution in cautions if caution.code == "image.multi-arch"]


def with_sections(*sections: str, train: str = "") -> str:
    text = shortest(train=train)
    for section in sections:
        text = text + shortest(more=section).removeprefix(shortest())
    return text


def test_one_image_on_both_processors_is_named_once_with_its_pods(tmp_path: Path) -> None:
    ((path, text),) = warnings(tmp_path, BOTH, ray())

    assert path == "ray.flow.head.arch"
    assert text == (
        f"{RAY_IMAGE} runs on amd64 nodes (ray.flow.groups.gpu) and arm64 nodes (ray.flow.head), so it must be "
        "multi-arch: write arch: any on one of these pods if it is"
    )


@pytest.mark.parametrize("declared", [{"head": ", arch: any"}, {"group": ", arch: any"}])
def test_an_image_that_is_declared_multi_arch_may_run_on_both(declared: dict[str, str], tmp_path: Path) -> None:
    assert warnings(tmp_path, BOTH, ray(**declared)) == []


def test_an_image_that_is_declared_for_one_processor_may_not_run_on_the_other(tmp_path: Path) -> None:
    assert len(warnings(tmp_path, BOTH, ray(head=", arch: arm64"))) == 1


def test_pods_of_several_sections_share_an_image(tmp_path: Path) -> None:
    ((_, text),) = warnings(tmp_path, BOTH, workload("api", '"example.com/train:1"', more=", arch: arm64"))

    assert "amd64 nodes (workers.train) and arm64 nodes (workloads.api)" in text


def test_an_image_on_arm_nodes_alone_is_named_until_the_file_says_what_it_is(tmp_path: Path) -> None:
    ((path, text),) = warnings(tmp_path, ALL_ARM)

    assert path == "workers.train.arch"
    assert text == (
        "example.com/train:1 runs on arm64 nodes (workers.train), where an amd64 image does not start: write "
        "arch: arm64, or arch: any for a multi-arch image"
    )


@pytest.mark.parametrize("declared", ["arch: arm64", "arch: any"])
def test_an_image_that_is_declared_for_its_nodes_is_not_named(declared: str, tmp_path: Path) -> None:
    assert warnings(tmp_path, ALL_ARM, train=declared) == []


def test_amd64_nodes_need_no_declaration(tmp_path: Path) -> None:
    assert warnings(tmp_path, ray()) == []


def test_an_image_without_arch_stays_on_amd64_where_groups_differ(tmp_path: Path) -> None:
    mixed = "ebbtide:nodeGroups: { flexible: {}, arm: { kind: flexible, instanceTypes: [m7g.4xlarge] } }"

    assert warnings(tmp_path, mixed) == []


@pytest.mark.parametrize("section", ["jobs", "cronJobs"])
def test_a_job_uses_the_processor_of_its_group(section: str, tmp_path: Path) -> None:
    groups = "ebbtide:nodeGroups: { flexible: {}, arm: { kind: flexible, instanceTypes: [m7g.4xlarge] } }"
    schedule = 'schedule: "0 2 * * *", ' if section == "cronJobs" else ""
    job = f"""
        ebbtide:{section}:
          nightly: {{ {schedule}image: example.com/job:1, cpu: 1, memory: 1Gi, longestRun: 1h, nodeGroup: arm }}
    """

    ((path, _),) = warnings(tmp_path, groups, job)

    assert path == f"{section}.nightly.arch"


def test_images_of_further_containers_count(tmp_path: Path) -> None:
    sidecar = (
        ", arch: arm64, pod: { initContainers: [{ name: log, image: example.com/train:1, restartPolicy: Always, "
        "resources: { requests: { cpu: 50m, memory: 64Mi } } }] }"
    )

    ((_, text),) = warnings(tmp_path, BOTH, workload("api", "example.com/api:1", more=sidecar))

    assert text.startswith("example.com/train:1 ")


def test_nodes_of_an_existing_cluster_count_if_the_file_describes_them(tmp_path: Path) -> None:
    selectors = "nodeSelectors: { flexible: { pool: batch } }"
    shapes = "nodeShapes: { flexible: { cpu: 15800m, memory: 60Gi, max: 4, arch: arm64 } }"

    described = warnings_of(loaded(onprem(f"{selectors}, {shapes}"), tmp_path))
    unknown = warnings_of(loaded(onprem(selectors), tmp_path))

    assert "image.multi-arch" in [caution.code for caution in described]
    assert "image.multi-arch" not in [caution.code for caution in unknown]
