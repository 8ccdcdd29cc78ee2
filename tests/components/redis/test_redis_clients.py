"""Settings of workers and the controller for an encrypted Redis, and none of them without one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from components.controller.controller import Controller, ControllerArgs
from components.pods.redis_access import CA_FILE, RedisAuthority
from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from ebbtide.settings import parse_stack
from ebbtide.settings.sections.workers import Source, SourceKind
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.documents import load
from tests.builders.components import REDIS, STACK, controller_config, pod_of, recorded, the, worker_settings
from tests.builders.mutants import sound_config
from tests.builders.recorded import record

PRIVATE = RedisAuthority(secret="redis-tls")
ENCRYPTED = RedisEndpoint(host="cache.example", tls=True, password_env="REDIS_PASSWORD")


def worker(
    endpoint: RedisEndpoint = REDIS, kind: SourceKind = SourceKind.RQ, *, later_host: str = "", **more: Any
) -> Mapping[str, Any]:
    settings = worker_settings(source=Source.model_construct(kind=kind, queues=("train",)))
    args = WorkerPoolArgs(stack=STACK, name="train", settings=settings, redis=endpoint, **more)

    def program() -> None:
        host = pulumi.Output.from_input(later_host) if later_host else None  # an output belongs to a program
        WorkerPool("train", replace(args, stack=replace(STACK, cache_host=host)))

    return pod_of(the(recorded(program), "Deployment"))


def variables(pod: Mapping[str, Any]) -> dict[str, Any]:
    return {it["name"]: it.get("value") or it["valueFrom"]["secretKeyRef"]["key"] for it in pod["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("kind", "variable", "plain", "encrypted"),
    [
        (SourceKind.RQ, "RQ_REDIS_URL", "url", "python-url"),
        (SourceKind.CELERY, "CELERY_BROKER_URL", "url", "python-url"),
        (SourceKind.LIST, "REDIS_URL", "url", "url"),  # not Python, for all we know
    ],
)
def test_a_framework_gets_the_spelling_that_it_reads(
    kind: SourceKind, variable: str, plain: str, encrypted: str
) -> None:
    assert variables(worker(REDIS, kind))[variable] == plain
    assert variables(worker(ENCRYPTED, kind))[variable] == encrypted


def test_a_worker_sees_the_private_authority_where_there_is_one() -> None:
    trusting = worker(ENCRYPTED, redis_authority=PRIVATE)

    assert variables(trusting)["REDIS_CA_FILE"] == CA_FILE
    assert trusting["volumes"][0]["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    assert trusting["containers"][0]["volumeMounts"][0]["mountPath"] == CA_FILE.rpartition("/")[0]


def test_an_address_that_is_known_later_reaches_worker_and_controller() -> None:
    host = "master.cache.example"

    def program() -> None:
        stack = replace(STACK, cache_host=pulumi.Output.from_input(host))
        args = ControllerArgs(stack=stack, config=controller_config(), redis_authority=PRIVATE)
        Controller("controller", args)

    resources = recorded(program)
    document = load(ControllerConfig, the(resources, "ConfigMap").inputs["data"]["config.json"])
    mounts = pod_of(the(resources, "Deployment"))["containers"][0]["volumeMounts"]

    assert document.redis.host == host
    assert {mount["mountPath"] for mount in mounts} == {"/etc/ebbtide", "/etc/ebbtide-redis"}
    assert variables(worker(later_host=host))["REDIS_HOST"] == host


def test_the_controller_may_be_another_user_than_the_workers() -> None:
    stack = {
        **sound_config("shortest"),
        "ebbtide:redis": {
            "kind": "url",
            "url": "rediss://jobs@cache.example:6380/0",
            "controller": {"user": "reader", "secret": "redis-reader"},
        },
    }
    resources = record(parse_stack(stack, stack="acme", file="any"))
    deployments = {it.inputs["metadata"]["name"]: it for it in resources if it.type == "kubernetes:apps/v1:Deployment"}
    [document] = [
        it.inputs["data"]["config.json"]
        for it in resources
        if it.type == "kubernetes:core/v1:ConfigMap" and "config.json" in it.inputs["data"]
    ]

    controller, pool = (pod_of(deployments[name])["containers"][0]["env"] for name in ("ebbtide-controller", "train"))

    assert load(ControllerConfig, document).redis.username == "reader"
    assert _secrets(controller) == {"REDIS_PASSWORD": ("redis-reader", "password")}
    assert _secrets(pool)["REDIS_PASSWORD"] == ("ebbtide-redis", "password")


def _secrets(env: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    found = {it["name"]: it["valueFrom"]["secretKeyRef"] for it in env if "secretKeyRef" in it.get("valueFrom", {})}
    return {name: (reference["name"], reference["key"]) for name, reference in found.items()}
