"""Bundled images for services: each has a key, so that each can be named by digest."""

from pathlib import Path

import pytest

from tests.builders.settings import problem_of, problems_of, shortest
from tests.builders.workloads.services import with_services

DIGEST = "@sha256:" + "a" * 64
VERTICAL = (
    ("memory: 2Gi\n", "memory: 2Gi\n    vertical: initial\n"),
    ("cpu: 70% }, min: 1, max: 6", "query: { promql: x, target: 1 } }, min: 1, max: 6"),
)
BY_DIGEST = tuple(
    (f"ml/{name}", f"ml/{name}{DIGEST}") for name in ("embedder-small:3", "embedder:3", "ranker:1")
)  # each of the file's own
OF_SERVICES = (
    "keda",
    "kedaMetrics",
    "envoyGateway",
    "envoy",
    "vpaRecommender",
    "vpaUpdater",
    "vpaAdmission",
    "vpaCertgen",
)
OTHERS = ("redis", "autoscaler", "devicePlugin", "prometheus", "gpuExporter")


def strict(keys: tuple[str, ...], *changes: tuple[str, str]) -> str:
    """With these keys by digest, and all images of the file."""
    named = "".join(f", {key}: 'mirror.example.com/{key.lower()}{DIGEST}'" for key in keys)
    more = f"ebbtide:images: {{ requireDigests: true{named} }}\nebbtide:controller: {{ image: 'controller{DIGEST}' }}\n"
    text = with_services(*VERTICAL, *BY_DIGEST, *changes, more=more)
    return text.replace("example.com/train:1", f"example.com/train:1{DIGEST}")


def test_each_image_that_comes_with_services_may_be_missing_a_digest(tmp_path: Path) -> None:
    problems = problems_of(strict(()), tmp_path)

    assert {it.path.removeprefix("ebbtide:images.") for it in problems} == {*OTHERS, *OF_SERVICES}
    assert {it.code for it in problems} == {"image.no-digest"}


@pytest.mark.parametrize("image", ["embedder-small:3", "ranker:1"])
def test_the_image_of_a_service_itself_has_one_too(image: str, tmp_path: Path) -> None:
    text = strict((*OTHERS, *OF_SERVICES)).replace(f"{image}{DIGEST}", image)

    assert problem_of(text, tmp_path).tells("image.no-digest", "ebbtide:services.", image)


@pytest.mark.parametrize("key", ["vpaUpdater", "keda", "envoy"])
def test_an_image_that_no_service_asks_for_is_refused(key: str, tmp_path: Path) -> None:
    """A service with a fixed number of pods needs no bundled part."""
    alone = """
        ebbtide:services:
          ranker:
            image: registry.example.com/ml/ranker:1
            cpu: 1
            memory: 2Gi
            ports: { http: 8000 }
            port: http
            probes: { readiness: { tcp: http } }
            longestRequest: 10s
    """
    text = shortest(more=f"{alone}\n        ebbtide:images: {{ {key}: 'a/b:1' }}\n")
    assert problem_of(text, tmp_path).tells("image.unused", f"images.{key}:")
