"""Bundled images come from the file's registry; images that the file names stay unchanged."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from components.images import ImageSource
from ebbtide.settings.sections.controller import ControllerSettings
from ebbtide.settings.sections.images import ImageSettings
from tests.builders.recorded import record
from tests.builders.stack import Recorded, stack_settings

MIRROR = ImageSource(registry="mirror.example.com/hub")
DIGEST = "@sha256:" + "a" * 64
OWN = {
    "redis": f"registry.example.com/valkey:8{DIGEST}",
    "autoscaler": f"registry.example.com/ca:v1.35.2{DIGEST}",
    "devicePlugin": f"registry.example.com/plugin:v0.17.4{DIGEST}",
}


def stack_with(images: Mapping[str, Any], **changes: Any) -> Recorded:
    return Recorded(record(stack_settings(images=ImageSettings.model_validate(images, by_alias=True), **changes)))


@pytest.fixture(scope="module")
def mirrored() -> Recorded:
    return stack_with({"registry": "mirror.example.com/hub", "pullSecrets": ["regcred", "spare"]})


def pods(stack: Recorded) -> Iterator[Mapping[str, Any]]:
    for resource in stack.all:
        spec: Mapping[str, Any] = resource.inputs.get("spec") or {}
        template: Mapping[str, Any] | None = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            yield template["spec"]


def images(stack: Recorded) -> set[str]:
    return {container["image"] for pod in pods(stack) for container in pod["containers"]}


@pytest.mark.parametrize(
    ("image", "mirrored"),
    [
        ("registry.k8s.io/autoscaling/x:v1", "mirror.example.com/hub/registry.k8s.io/autoscaling/x:v1"),
        ("localhost:5000/x", "mirror.example.com/hub/localhost:5000/x"),
        ("valkey/valkey:8.1", "mirror.example.com/hub/docker.io/valkey/valkey:8.1"),
        (f"valkey:8{DIGEST}", f"mirror.example.com/hub/docker.io/library/valkey:8{DIGEST}"),
    ],
)
def test_a_mirror_keeps_the_upstreams_apart_by_their_hosts(image: str, mirrored: str) -> None:
    assert MIRROR.of(image) == mirrored


def test_all_that_ebbtide_brings_comes_from_the_mirror(mirrored: Recorded) -> None:
    customers = {"hub:1", "api:1", "train:1"}
    upstream = {image for image in images(mirrored) - customers if not image.startswith("mirror.example.com/hub/")}

    assert customers < images(mirrored)
    assert not upstream


def test_every_pod_has_the_pull_secrets(mirrored: Recorded) -> None:
    secrets = [pod.get("imagePullSecrets") for pod in pods(mirrored)]

    assert len(secrets) >= 7
    assert all(each == [{"name": "regcred"}, {"name": "spare"}] for each in secrets)


def test_an_image_that_the_file_names_is_not_looked_for_in_the_mirror() -> None:
    controller = ControllerSettings(image=f"registry.example.com/controller:1{DIGEST}")
    own = stack_with({"registry": "mirror.example.com/hub", **OWN}, controller=controller)

    assert images(own) == {"hub:1", "api:1", "train:1", controller.image, *OWN.values()}
