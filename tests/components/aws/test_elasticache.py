"""The cache that AWS runs: what it is told, who reaches it, and how its address gets to those who need it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import pulumi
import pytest

from components.aws.elasticache import ElastiCache, ElastiCacheArgs
from ebbtide.settings.sections.redis import RedisKind, RedisSettings
from ebbtide.vocabulary.controller_config import load
from infra.stack import compose
from tests.builders.components import pod_of
from tests.builders.stack import COST_TAGS, Recorded, run, stack_settings

HOST = "master.elasticache-queues.a1b2c3.cache.amazonaws.example"
TOKEN = "a-token-of-sixteen"


@cache
def stack() -> Recorded:
    settings = stack_settings(redis=RedisSettings(kind=RedisKind.ELASTICACHE))
    return run(lambda: compose(settings, redis_password=pulumi.Output.secret(TOKEN)))


def alone(**redis: Any) -> Recorded:
    """The cache without the stack around it."""
    args = ElastiCacheArgs(
        customer="acme",
        settings=RedisSettings(kind=RedisKind.ELASTICACHE, **redis),
        vpc_id="vpc-1",
        subnet_ids=["subnet-1", "subnet-2"],
        clients="sg-1",
        token=TOKEN,
        windows=None,
        tags=COST_TAGS,
    )
    return run(lambda: ElastiCache("elasticache", args))


def cache_of(recorded: Recorded) -> Mapping[str, Any]:
    return recorded.named("elasticache-queues").inputs


def test_it_never_evicts_and_has_one_keyspace() -> None:
    (parameters,) = stack().of("ParameterGroup")

    assert parameters.inputs["parameters"] == [{"name": "maxmemory-policy", "value": "noeviction"}]
    assert not {"numNodeGroups", "nodeGroupConfigurations", "clusterMode"} & set(cache_of(stack()))


def test_it_is_encrypted_and_asks_for_the_token() -> None:
    told = cache_of(stack())

    assert told["atRestEncryptionEnabled"] is told["transitEncryptionEnabled"] is True
    assert told["authToken"] == "[secret]"
    for recorded in (stack(), alone()):  # alone it was given in the clear
        assert TOKEN not in json.dumps([asdict(resource) for resource in recorded.all])


@pytest.mark.parametrize(("replicas", "nodes", "standby"), [(None, 2, True), (0, 1, False), (3, 4, True)])
def test_a_standby_takes_over_where_there_is_one(replicas: int | None, nodes: int, standby: bool) -> None:
    told = cache_of(alone(replicas=replicas))

    assert told["numCacheClusters"] == nodes
    assert (told["automaticFailoverEnabled"], told["multiAzEnabled"]) == (standby, standby)


def test_only_the_cluster_may_connect() -> None:
    (rule,) = [rule for rule in stack().of("SecurityGroupIngressRule") if rule.name.startswith("elasticache")]

    assert rule.inputs["referencedSecurityGroupId"] == "sg-cluster-control-plane"
    assert (rule.inputs["fromPort"], rule.inputs["toPort"]) == (6379, 6379)
    assert not {"cidrIpv4", "cidrIpv6"} & set(rule.inputs)
    assert "ingress" not in stack().named("elasticache-guard").inputs


def test_it_lies_in_the_private_subnets() -> None:
    private = [f"network-private-{zone}" for zone in "ab"]

    assert {name for name in stack().before(stack().named("elasticache-subnets")) if name in private} == set(private)


def test_aws_works_on_it_in_a_closed_hour_and_takes_the_snapshot_after() -> None:
    told = cache_of(stack())  # New York, Monday to Friday

    assert (told["maintenanceWindow"], told["snapshotWindow"]) == ("sun:07:00-sun:08:00", "08:00-09:00")
    assert not told.get("applyImmediately")


def test_the_jobs_outlive_the_stack_unless_the_file_says_otherwise() -> None:
    assert cache_of(stack())["finalSnapshotIdentifier"].endswith("-last")
    assert "finalSnapshotIdentifier" not in cache_of(alone(keep_on_destroy=False))


def test_controller_and_workers_get_its_address_and_no_stand_in() -> None:
    document = load(stack().named("controller-config").inputs["data"]["config.json"])
    worker = pod_of(stack().named("train-deployment"))["containers"][0]
    variables = {variable["name"]: variable for variable in worker["env"]}

    assert (document.redis.host, document.redis.tls) == (HOST, True)
    assert variables["REDIS_HOST"]["value"] == HOST
    assert ".invalid" not in json.dumps([asdict(resource) for resource in stack().all])


def test_it_is_there_before_whoever_uses_it_and_gone_after() -> None:
    for name in ("redis-secret", "train-deployment", "controller-config"):
        assert "elasticache-queues" in stack().before(stack().named(name))


def test_no_server_runs_in_the_cluster_then() -> None:
    names = {resource.name for resource in stack().all}

    assert {"redis-secret", "redis-worker-secret"} <= names
    assert not names & {"redis-server", "redis-budget", "redis-kept", "redis-clients"}


def test_all_its_parts_carry_the_cost_tags() -> None:
    parts = [it for it in stack().all if it.name.startswith("elasticache-")]

    assert len(parts) == 5
    for part in parts:
        assert COST_TAGS.items() <= part.inputs["tags"].items(), part.name
