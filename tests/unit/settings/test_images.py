"""The section of images, and required digests."""

from pathlib import Path

import pytest

from tests.builders.settings import loaded, problem_of, problems_of, shortest, told

DIGEST = "@sha256:" + "a" * 64
ALL_BY_DIGEST = f"""
    ebbtide:images: {{ requireDigests: true, redis: "valkey:8{DIGEST}", autoscaler: "ca:1{DIGEST}" }}
    ebbtide:controller: {{ image: "controller{DIGEST}" }}
    ebbtide:workloads: {{ api: {{ category: flexible, image: "api:1{DIGEST}", cpu: 1, memory: 1Gi }} }}
"""


def by_digest(text: str) -> str:
    return text.replace("example.com/train:1", f"example.com/train:1{DIGEST}")


def test_a_stack_of_digests_is_taken(tmp_path: Path) -> None:
    settings = loaded(by_digest(shortest(more=ALL_BY_DIGEST)), tmp_path)

    assert settings.images.require_digests


def test_every_image_without_a_digest_is_named_at_once(tmp_path: Path) -> None:
    more = """
        ebbtide:images: { requireDigests: true, redis: "valkey:8" }
        ebbtide:workloads: { api: { category: flexible, image: "api:1", cpu: 1, memory: 1Gi } }
    """

    assert sorted(problem.path for problem in problems_of(shortest(more=more), tmp_path)) == [
        "ebbtide:controller.image",
        "ebbtide:images.autoscaler",
        "ebbtide:images.redis",
        "ebbtide:workers.train.image",
        "ebbtide:workloads.api.image",
    ]


def test_the_message_says_how_to_give_one(tmp_path: Path) -> None:
    more = ALL_BY_DIGEST.replace(f"valkey:8{DIGEST}", "valkey:8")

    assert problem_of(by_digest(shortest(more=more)), tmp_path).endswith(
        "ebbtide:images.redis: wanted an image with a digest, as images.requireDigests requires, found 'valkey:8' "
        "(for example valkey:8@sha256:…); docker buildx imagetools inspect shows the digest of a tag"
    )


def test_a_gpu_stack_needs_the_device_plugins_digest_too(tmp_path: Path) -> None:
    text = by_digest(shortest(train="gpu: 1", more=ALL_BY_DIGEST)).replace(
        "cpu: 4, memory: 16Gi", "cpu: 2, memory: 8Gi"
    )

    assert problem_of(text, tmp_path).tells("image.no-digest", "ebbtide:images.devicePlugin:")


@pytest.mark.parametrize(
    ("more", "at"),
    [
        ("ebbtide:images: { devicePlugin: plugin:1 }", "ebbtide:images.devicePlugin"),
        (
            "ebbtide:images: { redis: valkey:8 }\nebbtide:redis: { kind: url, url: 'rediss://cache:6379' }",
            "ebbtide:images.redis",
        ),
    ],
)
def test_an_image_that_this_stack_does_not_run_is_refused(more: str, at: str, tmp_path: Path) -> None:
    assert problem_of(shortest(more=more), tmp_path).tells("image.unused", f"{at}:")


@pytest.mark.parametrize("registry", ["https://mirror.example.com", "mirror.example.com/hub/", "Mirror", "", "a b"])
def test_a_registry_is_a_host_and_a_path(registry: str, tmp_path: Path) -> None:
    problem = problem_of(shortest(more=f"ebbtide:images: {{ registry: '{registry}' }}"), tmp_path)

    assert problem.tells("registry.form", "ebbtide:images.registry:")


@pytest.mark.parametrize(("registry", "hinted"), [("https://mirror.example.com", True), ("mirror.example.com/", False)])
def test_only_a_registry_with_a_scheme_is_told_to_leave_it_out(registry: str, hinted: bool, tmp_path: Path) -> None:
    problem = problem_of(shortest(more=f"ebbtide:images: {{ registry: '{registry}' }}"), tmp_path)

    assert ("leave out the scheme" in problem) is hinted


def test_pull_secrets_are_named_once_each(tmp_path: Path) -> None:
    more = "ebbtide:images: { pullSecrets: [regcred, regcred, Bad_Name] }"
    problems = [told(problem) for problem in problems_of(shortest(more=more), tmp_path)]

    assert len(problems) == 2
    assert any(problem.tells("list.twice", "pullSecrets:", "found 'regcred' twice") for problem in problems)
    assert any(problem.tells("pull-secret.name", "pullSecrets[2]:") for problem in problems)
