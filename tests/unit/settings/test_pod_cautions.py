"""Warnings about pods, and disks that no node has."""

from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from tests.builders.settings import loaded, problem_of, shortest

API = 'image: "example.com/a:1", cpu: 1, memory: 1Gi'


def cautions(folder: Path, *, api: str = "", train: str = "", more: str = "") -> dict[str, tuple[str, str]]:
    """Return path and text of each warning by its code, for a stack with a flexible service and a pool."""
    service = f"ebbtide:workloads: {{ api: {{ category: flexible, {API}{', ' + api if api else ''} }} }}"
    cautions = warnings_of(loaded(shortest(train=train, more="\n".join([service, more])), folder))
    return {caution.code: (caution.place, caution.text) for caution in cautions}


def test_a_flexible_service_without_port_and_probe_is_told_which_keys_would_help(tmp_path: Path) -> None:
    path, text = cautions(tmp_path)["workloads.no-readiness-probe"]

    assert path == "workloads"
    assert "probe: api." in text
    assert "probes.readiness" in text
    assert "ports" in text


@pytest.mark.parametrize(
    "says",
    [
        "ports: { http: 8080 }",
        'probes: { readiness: { exec: ["true"] } }',
        'probes: { startup: { exec: ["true"] } }',
    ],
)
def test_a_service_that_says_when_it_serves_is_not_named(says: str, tmp_path: Path) -> None:
    assert "workloads.no-readiness-probe" not in cautions(tmp_path, api=says)


def test_a_liveness_probe_does_not_say_when_a_service_serves(tmp_path: Path) -> None:
    alive = 'probes: { liveness: { exec: ["true"] } }'

    assert "workloads.no-readiness-probe" in cautions(tmp_path, api=alive)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASSWORD", "hunter2"),
        ("API_TOKEN", "hunter2"),
        ("apiKey", "redis://me:hunter2@host"),
        ("KEY", "hunter2"),
        ("aws.secret", "hunter2"),
        ("DATABASE_URL", "postgres://me:hunter2@db:5432/jobs"),
    ],
)
def test_a_plain_value_that_looks_like_a_secret_is_named_and_never_shown(name: str, value: str, tmp_path: Path) -> None:
    path, text = cautions(tmp_path, train=f'env: {{ {name}: "{value}" }}')["env.looks-secret"]

    assert path == f"workers.train.env.{name}"
    assert "{ secret: NAME, key: KEY }" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "env",
    [
        "DB_PASSWORD: { secret: db-login, key: password }",
        "TLS_KEY: /etc/tls/tls.key",
        "JWT_PUBLIC_KEY: MFkwEwYHKoZIzj0CAQ",
        "MONKEY: banana",
        'TOKEN: ""',
        "TOKENS_PER_SECOND: '5'",
        "DATABASE_URL: postgres://me@db:5432/jobs",
    ],
)
def test_a_reference_a_path_and_other_names_are_no_secrets(env: str, tmp_path: Path) -> None:
    assert "env.looks-secret" not in cautions(tmp_path, api=f"env: {{ {env} }}")


def test_scratch_volumes_that_the_disk_has_no_room_for_are_named(tmp_path: Path) -> None:
    disk = "ebbtide:nodeGroups: { flexible: { max: 4, diskSize: 50 } }"
    scratch = "volumes: {{ a: {{ scratch: 20Gi, at: /a }}, b: {{ scratch: {}Gi, at: /b }} }}"

    path, text = cautions(tmp_path, train=scratch.format(24), more=disk)["scratch.above-disk"]

    assert path == "workers.train.volumes"
    assert {"44Gi", "43Gi"} <= set(text.replace(":", "").split())
    assert "scratch.above-disk" not in cautions(tmp_path, train=scratch.format(23), more=disk)


def test_scratch_volumes_above_the_pods_own_limit_are_named(tmp_path: Path) -> None:
    volumes = "volumes: { a: { scratch: 20Gi, at: /a } }, ephemeralStorage: "

    assert cautions(tmp_path, api=volumes + "19Gi")["scratch.above-limit"][0] == "workloads.api.volumes"
    assert "scratch.above-limit" not in cautions(tmp_path, api=volumes + "20Gi")


def test_a_pod_that_asks_for_more_disk_than_a_node_has_is_refused(tmp_path: Path) -> None:
    refused = problem_of(shortest(train="ephemeralStorage: 44Gi"), tmp_path)

    assert refused.tells("pod.disk-too-large", ":5: ", "ephemeralStorage", "at most 43Gi", "found 44Gi", "diskSize")
    assert loaded(shortest(train="ephemeralStorage: 43Gi"), tmp_path).workers["train"].node_group == "flexible"


def test_a_pool_goes_to_a_group_whose_disk_holds_it(tmp_path: Path) -> None:
    groups = "ebbtide:nodeGroups: { flexible: { max: 4 }, wide: { kind: flexible, max: 4, diskSize: 200 } }"

    assert (
        loaded(shortest(train="ephemeralStorage: 100Gi", more=groups), tmp_path).workers["train"].node_group == "wide"
    )

    named = shortest(train="ephemeralStorage: 100Gi, nodeGroup: flexible", more=groups)
    assert problem_of(named, tmp_path).tells("pod.disk-too-large", "43Gi")


def test_a_disk_of_unknown_size_and_a_pod_that_fits_nowhere_are_not_blamed_twice(tmp_path: Path) -> None:
    unread = "ebbtide:nodeGroups: { flexible: { max: 4 }, wide: { kind: flexible, max: 4, diskSize: 500Gi } }"

    assert problem_of(shortest(train="ephemeralStorage: 100Gi", more=unread), tmp_path).code == "type.whole-number"
    large = shortest(train="ephemeralStorage: 100Gi").replace("cpu: 4,", "cpu: 40,")
    assert problem_of(large, tmp_path).code == "pod.too-large"
