"""ElastiCache: its settings, its clients, and how they get its address."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import pulumi

from components.aws.elasticache import ElastiCache, ElastiCacheArgs
from components.context import StackContext
from ebbtide.settings.sections.redis import RedisKind, RedisSettings
from infra.stack import compose
from tests.builders.stack import COST_TAGS, Recorded, run, stack_settings

TOKEN = "a-token-of-sixteen"


@cache
def stack() -> Recorded:
    settings = stack_settings(redis=RedisSettings(kind=RedisKind.ELASTICACHE))
    return run(lambda: compose(settings, redis_password=pulumi.Output.secret(TOKEN)))


def alone(**redis: Any) -> Recorded:
    """The cache without a stack."""
    args = ElastiCacheArgs(
        stack=StackContext(customer="acme", tags=COST_TAGS),
        settings=RedisSettings(kind=RedisKind.ELASTICACHE, **redis),
        vpc_id="vpc-1",
        subnet_ids=["subnet-1", "subnet-2"],
        clients="sg-1",
        token=TOKEN,
        windows=None,
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


def test_only_the_cluster_may_connect() -> None:
    (rule,) = [rule for rule in stack().of("SecurityGroupIngressRule") if rule.name.startswith("elasticache")]

    assert rule.inputs["referencedSecurityGroupId"] == "sg-cluster-control-plane"
    assert (rule.inputs["fromPort"], rule.inputs["toPort"]) == (6379, 6379)
    assert not {"cidrIpv4", "cidrIpv6"} & set(rule.inputs)
    assert "ingress" not in stack().named("elasticache-guard").inputs


def test_aws_works_on_it_in_a_closed_hour_and_takes_the_snapshot_after() -> None:
    told = cache_of(stack())  # New York, Monday to Friday

    assert (told["maintenanceWindow"], told["snapshotWindow"]) == ("sun:07:00-sun:08:00", "08:00-09:00")
    assert not told.get("applyImmediately")


def test_the_jobs_outlive_the_stack_unless_the_file_says_otherwise() -> None:
    assert cache_of(stack())["finalSnapshotIdentifier"].endswith("-last")
    assert "finalSnapshotIdentifier" not in cache_of(alone(keep_on_destroy=False))


def test_it_is_there_before_whoever_uses_it_and_gone_after() -> None:
    for name in ("redis-secret", "train-deployment", "controller-config"):
        assert "elasticache-queues" in stack().before(stack().named(name))
