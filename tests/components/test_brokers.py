"""A stack with a message broker: what its worker, its controller and its network policies get."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from ebbtide.recording.answers import ACCOUNT
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
WORKER = Pod(namespace="ebbtide-workers", labels={"ebbtide.dev/workload": "train"})
JOB = Pod(namespace="ebbtide-workers", labels={"ebbtide.dev/workload": "nightly"})
WORKLOAD = Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "api"})


CELERY = {"kind": "celery", "acks": "late", "broker": "in-house", "queues": ["train"]}


@cache
def resources(*, workers: bool = False) -> Sequence[Resource]:
    """`workers`: the broker has a login of workers, and there is a plain consumer."""
    config = sound_config("shortest")
    pool = {**config["ebbtide:workers"]["train"]}
    scan = {**pool, "source": {"kind": "consumer", "broker": "in-house", "queues": ["scan"]}}
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
                        **({"workers": {"user": "etl@acme", "secret": "rabbit-etl"}} if workers else {}),
                    }
                },
                "ebbtide:workers": {"train": {**pool, "source": CELERY}, **({"scan": scan} if workers else {})},
            },
            stack="acme",
            file="any",
        )
    )


def environment(name: str, stack: Sequence[Resource] | None = None) -> dict[str, Any]:
    [deployment] = [
        it
        for it in stack or resources()
        if it.type == "kubernetes:apps/v1:Deployment" and it.inputs["metadata"]["name"] == name
    ]
    env = pod_of(deployment)["containers"][0]["env"]
    return {it["name"]: it.get("value") or it["valueFrom"].get("secretKeyRef") for it in env}


def test_a_worker_reports_to_redis_and_the_team_gives_it_the_address_of_the_broker() -> None:
    env = environment("train")

    assert env["EBBTIDE_REDIS_URL"] == {"name": "ebbtide-redis", "key": "url"}
    assert env["EBBTIDE_CONSUMER_TIMEOUT"] == "108000"
    assert env["EBBTIDE_LONGEST_JOB"] == "43200"
    assert not {"CELERY_BROKER_URL", "EBBTIDE_BROKER_PASSWORD"} & env.keys()


@pytest.mark.parametrize(("pool", "variable"), [("train", "CELERY_BROKER_URL"), ("scan", "EBBTIDE_BROKER_URL")])
def test_with_a_login_of_workers_their_pods_get_the_complete_address(pool: str, variable: str) -> None:
    """Kubernetes expands only variables that come first."""
    env = environment(pool, resources(workers=True))
    names = [*env]

    assert env["EBBTIDE_BROKER_PASSWORD"] == {"name": "rabbit-etl", "key": "password"}
    assert env[variable] == "amqps://etl%40acme:$(EBBTIDE_BROKER_PASSWORD)@mq.example.com:5671/prod"
    assert names.index("EBBTIDE_BROKER_PASSWORD") < names.index(variable)


def test_the_controller_gets_the_password_of_its_user() -> None:
    [document] = [
        it.inputs["data"]["config.json"]
        for it in resources()
        if it.type == "kubernetes:core/v1:ConfigMap" and "config.json" in it.inputs["data"]
    ]
    [broker] = load(ControllerConfig, document).brokers

    assert (broker.host, broker.port, broker.username) == ("mq.example.com", 5671, "reader")
    assert environment("ebbtide-controller")[broker.password_env] == {"name": "rabbit-reader", "key": "password"}


def test_workers_of_a_broker_reach_it_and_only_the_controller_its_management_api() -> None:
    policies = Policies(resources())

    assert policies.allow(CONTROLLER, ELSEWHERE, 5671)
    assert policies.allow(CONTROLLER, ELSEWHERE, 15671)
    assert policies.allow(WORKER, ELSEWHERE, 5671)
    assert not policies.allow(WORKER, ELSEWHERE, 15671)
    assert not policies.allow(CONTROLLER, ELSEWHERE, 5672)


@pytest.mark.parametrize("port", [443, 5671])
@pytest.mark.parametrize("pod", [WORKLOAD, JOB], ids=["workload", "job"])
def test_a_broker_opens_no_address_outside_the_allowed_ranges_to_other_pods(pod: Pod, port: int) -> None:
    assert not Policies(resources()).allow(pod, ELSEWHERE, port)
    assert not Policies(on_sqs()).allow(pod, ELSEWHERE, port)


@cache
def on_sqs(*, existing: bool = False, closed: bool = False) -> Sequence[Resource]:
    config = sound_config("shortest")
    pool = config["ebbtide:workers"]["train"]
    celery = {"kind": "celery", "acks": "late", "broker": "aws", "queues": ["train"]}
    consumer = {"kind": "consumer", "broker": "aws", "queues": ["scan", "scan.fifo"]}
    rights = {"buckets": {"acme-data": "read"}, "queues": {"results": "send", "scan.fifo": "send"}}
    config |= {
        "ebbtide:egress": {"allow": ["10.1.0.0/16"]},
        "ebbtide:brokers": {"aws": {"kind": "sqs"}},
        "ebbtide:workers": {
            "train": {**pool, "longestJob": "11h", "source": celery},
            "scan": {**pool, "longestJob": "11h", "source": consumer, **({} if existing else {"aws": rights})},
        },
    }
    if closed:
        config |= {
            "ebbtide:network": {"nat": "none"},
            "ebbtide:egress": {"httpsProxy": "http://proxy.example.com:3128"},
        }
    if existing:
        config |= {"ebbtide:cluster": {"kind": "existing", "context": "lab"}, "aws:region": "eu-central-1"}
    return record(parse_stack(config, stack="acme", file="any"))


def policy_of(role: str) -> Mapping[str, set[str]]:
    """The queues by action that a role allows."""
    [text] = [it.inputs["policy"] for it in on_sqs() if it.name == f"{role}-policy"]
    allowed: dict[str, set[str]] = {}
    for statement in json.loads(text)["Statement"]:
        for action in statement["Action"]:
            allowed.setdefault(action, set()).update(statement["Resource"])
    return allowed


def arns(*queues: str) -> set[str]:
    return {f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}" for queue in queues}


def test_the_controller_may_only_count_the_messages_of_the_named_queues() -> None:
    named = arns("train", "scan", "scan.fifo")

    assert policy_of("controller-ebbtide-controller-role") == {
        "sqs:GetQueueAttributes": named,
        "sqs:GetQueueUrl": named,
    }
    [association] = [it.inputs for it in on_sqs() if it.name == "controller-ebbtide-controller-role-identity"]
    assert (association["namespace"], association["serviceAccount"]) == ("ebbtide", "ebbtide-controller")


def test_workers_may_receive_and_complete_messages_of_their_queues_and_celery_may_send_its_retries() -> None:
    celery, consumer = policy_of("worker-train-role"), policy_of("worker-scan-role")
    actions = {
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ReceiveMessage",
        "SendMessage",
    }

    assert celery == {f"sqs:{action}": arns("train") for action in actions}
    assert consumer["sqs:ReceiveMessage"] == arns("scan", "scan.fifo")
    assert consumer["sqs:SendMessage"] == arns("scan.fifo", "results")  # granted in the file
    assert consumer["s3:GetObject"] == {"arn:aws:s3:::acme-data/*"}


def test_workers_on_sqs_get_the_region_and_celery_the_transport() -> None:
    celery, consumer = environment("train", on_sqs()), environment("scan", on_sqs())

    assert (celery["AWS_DEFAULT_REGION"], celery["CELERY_BROKER_URL"]) == ("us-east-1", "sqs://")
    assert consumer["AWS_DEFAULT_REGION"] == "us-east-1"
    assert "CELERY_BROKER_URL" not in consumer
    assert "EBBTIDE_CONSUMER_TIMEOUT" not in celery
    assert celery["EBBTIDE_REDIS_URL"] == {"name": "ebbtide-redis", "key": "url"}


def test_the_controller_reaches_sqs_and_workers_the_addresses_that_the_file_allows() -> None:
    policies, identity = Policies(on_sqs()), Outside("169.254.170.23")

    assert policies.allow(CONTROLLER, ELSEWHERE, 443)
    assert policies.allow(CONTROLLER, identity, 80)
    assert policies.allow(WORKER, Outside("10.1.0.9"), 443)
    assert not policies.allow(WORKER, ELSEWHERE, 443)
    assert policies.allow(WORKER, identity, 80)
    assert not Policies(resources()).allow(CONTROLLER, identity, 80)


def test_a_closed_network_has_the_endpoint_of_sqs_and_workers_call_it_without_the_proxy() -> None:
    closed = on_sqs(closed=True)
    services = [it.inputs["serviceName"] for it in closed if it.type.endswith(":VpcEndpoint")]

    assert "com.amazonaws.us-east-1.sqs" in services
    assert "sqs.us-east-1.amazonaws.com" in environment("train", closed)["NO_PROXY"].split(",")


def test_the_controllers_pods_are_replaced_when_they_get_a_role() -> None:
    """EKS injects credentials only when it creates a pod; the document of SQS alone changes a ConfigMap."""
    without = environment("ebbtide-controller", record(parse_stack(sound_config("shortest"), stack="a", file="any")))

    assert environment("ebbtide-controller", on_sqs()) == without | {"AWS_DEFAULT_REGION": "us-east-1"}


def test_on_an_existing_cluster_the_team_grants_the_rights_on_sqs() -> None:
    accounts = [
        it.inputs["metadata"]["name"] for it in on_sqs(existing=True) if it.type == "kubernetes:core/v1:ServiceAccount"
    ]

    assert not [it for it in on_sqs(existing=True) if it.type.startswith("aws:")]
    assert "train" not in accounts
    assert environment("train", on_sqs(existing=True))["AWS_DEFAULT_REGION"] == "eu-central-1"
