"""A stack with a message broker: what its worker, its controller and its network policies get."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ebbtide.recording.resources import Resource
from ebbtide.settings import parse_stack
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from tests.builders.components import pod_of
from tests.builders.mutants import sound_config
from tests.builders.recorded import record
from tests.components.cluster.test_network_policies import Outside, Pod, Policies

ELSEWHERE = Outside("203.0.113.7")
CONTROLLER = Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "ebbtide-controller"})
WORKER = Pod(namespace="ebbtide-workers")


@cache
def resources() -> Sequence[Resource]:
    config = sound_config("shortest")
    pool = {**config["ebbtide:workers"]["train"]}
    source = {"kind": "celery", "acks": "late", "broker": "in-house", "queues": ["train"]}
    return record(
        parse_stack(
            {
                **config,
                "ebbtide:egress": {"allow": ["10.1.0.0/16"]},
                "ebbtide:brokers": {
                    "in-house": {
                        "kind": "rabbitmq",
                        "url": "amqps://mq.example.com/prod",
                        "management": "https://mq.example.com:15671",
                        "controller": {"user": "reader", "secret": "rabbit-reader"},
                        "consumerTimeout": "30h",
                    }
                },
                "ebbtide:workers": {"train": {**pool, "source": source}},
            },
            stack="acme",
            file="any",
        )
    )


def environment(name: str) -> Mapping[str, Any]:
    [deployment] = [
        it for it in resources() if it.type == "kubernetes:apps/v1:Deployment" and it.inputs["metadata"]["name"] == name
    ]
    env = pod_of(deployment)["containers"][0]["env"]
    return {it["name"]: it.get("value") or it["valueFrom"].get("secretKeyRef") for it in env}


def test_a_worker_reports_to_redis_and_the_team_gives_it_the_address_of_the_broker() -> None:
    env = environment("train")

    assert env["EBBTIDE_REDIS_URL"] == {"name": "ebbtide-redis", "key": "url"}
    assert env["EBBTIDE_CONSUMER_TIMEOUT"] == "108000"
    assert "CELERY_BROKER_URL" not in env


def test_the_controller_gets_the_password_of_its_user() -> None:
    [document] = [
        it.inputs["data"]["config.json"]
        for it in resources()
        if it.type == "kubernetes:core/v1:ConfigMap" and "config.json" in it.inputs["data"]
    ]
    [broker] = load(ControllerConfig, document).brokers

    assert (broker.host, broker.port, broker.username) == ("mq.example.com", 5671, "reader")
    assert environment("ebbtide-controller")[broker.password_env] == {"name": "rabbit-reader", "key": "password"}


def test_workers_reach_the_broker_and_only_the_controller_its_management_api() -> None:
    policies = Policies(resources())

    assert policies.allow(CONTROLLER, ELSEWHERE, 5671)
    assert policies.allow(CONTROLLER, ELSEWHERE, 15671)
    assert policies.allow(WORKER, ELSEWHERE, 5671)
    assert not policies.allow(WORKER, ELSEWHERE, 15671)
    assert not policies.allow(CONTROLLER, ELSEWHERE, 5672)
