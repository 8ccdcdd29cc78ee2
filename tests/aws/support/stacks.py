"""The stacks whose AWS resources the provider sees: each shipped file, and variants of what a file may choose."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings, load_stack, parse_stack
from ebbtide.settings.capacity.shapes_of_group import LONGEST_NAME
from ebbtide.settings.sections.costs import MOST_TAGS
from tests.builders.generated import stack_text
from tests.builders.recorded import record
from tests.paths import ROOT, STACK_FILES

GENERATED = 20

_ROLE, _VIEWER = "arn:aws:iam::111122223333:role/platform", "arn:aws:iam::111122223333:user/on-call"
PASSWORD: Mapping[str, Any] = {"ebbtide:redisPassword": {"secure": "v1:abcdefgh:ijklmnop"}}
_FOUR_ZONES: Mapping[str, Any] = {"aws:region": "us-east-1"}  # the base's region has three
_LONG = "l" * 24  # a customer, a node group
_LONGEST = "w" * 40  # a workload


def shipped() -> dict[str, Path]:
    """By name, the files that a clone begins with."""
    files = [*STACK_FILES.glob("Pulumi.*.yaml"), *ROOT.glob("examples/*/Pulumi.*.yaml")]
    return {file.name.removeprefix("Pulumi.").removesuffix(".yaml"): file for file in sorted(files)}


def base() -> dict[str, Any]:
    """The config of a small stack, for variants and faults to change."""
    return {
        "aws:region": "eu-west-1",
        "ebbtide:customer": "acme",
        "ebbtide:businessHours": {"timezone": "Europe/Dublin", "week": {"mon-fri": "08:00-18:00"}},
        "ebbtide:cluster": {"version": "1.35", "zones": ["a", "b"]},
        "ebbtide:nodeGroups": {
            "fixed": {"instanceTypes": ["m7i.2xlarge"], "min": 2, "max": 4},
            "flexible": {"instanceTypes": ["m7i.4xlarge"], "max": 20},
            "gpu": {"instanceTypes": ["g5.2xlarge"], "max": 6},
        },
        "ebbtide:workloads": {
            "api": {"category": "flexible", "image": "example.com/api:1.0.0", "replicas": 3, "cpu": 1, "memory": "2Gi"}
        },
        "ebbtide:workers": {
            "train": {
                "source": {"kind": "rq", "queues": ["train"]},
                "image": "example.com/train:1.0.0",
                "max": 10,
                "cpu": 4,
                "memory": "16Gi",
                "longestJob": "8h",
            }
        },
    }


def _changed(**sections: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
    """The base with keys of its sections changed, or with sections that it lacks."""

    def config() -> dict[str, Any]:
        made = base()
        for section, keys in sections.items():
            made[f"ebbtide:{section}"] = {**made.get(f"ebbtide:{section}", {}), **keys}
        return made

    return config


def _cache(**keys: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {**_changed(redis={"kind": "elasticache", **keys})(), **PASSWORD}


def _widest() -> dict[str, Any]:
    """The longest names and the most tags that a file may have, in four zones."""
    config = _changed(
        network={"nat": "per-zone", "flowLogs": {"retentionDays": 30}},
        cluster={"zones": list("abcd"), "sessionManager": True, "admins": [_ROLE]},
        nodeGroups={
            _LONG: {"kind": "gpu", "instanceTypes": ["g5.2xlarge"], "max": 8, "diskSize": 16384},
            f"s{_LONG[1:]}": {
                "kind": "spot",
                "instanceTypes": ["m6i.2xlarge", "m7i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge"],
                "max": 8,
            },
        },
        workloads={_LONGEST: {**base()["ebbtide:workloads"]["api"], "aws": {"buckets": {"b" * 63: "write"}}}},
        redis={"kind": "elasticache", "replicas": 3},
        costs={"tags": {f"{number:03}{'k' * 125}": "v" * 256 for number in range(MOST_TAGS)}},
    )()
    config["ebbtide:nodeGroups"]["fixed"]["min"] = config["ebbtide:nodeGroups"]["fixed"]["max"] = 4
    return {**config, **PASSWORD, **_FOUR_ZONES, "ebbtide:customer": _LONG}


def _given_vpc() -> dict[str, Any]:
    subnets = {zone: f"subnet-{zone * 17}" for zone in "ab"}
    return _changed(network={"vpc": {"id": f"vpc-{'0' * 17}", "privateSubnets": subnets}})()


_SPOT = {"instanceTypes": ["m6i.2xlarge", "m7i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge"], "max": 12}
_GPUS_ON_SPOT = {
    "kind": "spot",
    "instanceTypes": ["g6e.2xlarge", "g6e.4xlarge", "g5.2xlarge", "g5.4xlarge", "g6.4xlarge", "p5.48xlarge"],
    "max": 30,
}
_RIGHTS = {"buckets": {"acme-data": "read", "acme-models": "write"}, "queues": {"uploads": "receive"}}

VARIANTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "ElastiCache with a standby": _cache(),
    "ElastiCache with five standbys": _cache(replicas=5, nodeType="cache.r7g.2xlarge"),
    "ElastiCache without standbys": _cache(replicas=0, keepOnDestroy=False),
    "a given VPC": _given_vpc,
    "public access": _changed(
        cluster={
            "publicAccess": ["203.0.113.0/24"],
            "privateAccess": ["10.20.0.0/16"],
            "admins": [_ROLE],
            "viewers": [_VIEWER],
        }
    ),
    "a closed network": _changed(network={"nat": "none"}, cluster={"sessionManager": True}),
    "spot nodes": _changed(nodeGroups={"spot": _SPOT}),
    "GPUs on spot nodes, the longest names": _changed(nodeGroups={_LONG[:LONGEST_NAME]: _GPUS_ON_SPOT}),
    "Karpenter, in a closed network": _changed(
        cluster={"provisioner": "karpenter"}, network={"nat": "none"}, nodeGroups={"spot": _SPOT}
    ),
    "four zones, a gateway in each": lambda: {
        **_changed(
            network={"nat": "per-zone"},
            cluster={"zones": list("abcd")},
            nodeGroups={"fixed": {"instanceTypes": ["m7i.2xlarge"], "min": 4, "max": 4}},
        )(),
        **_FOUR_ZONES,
    },
    "flow logs, in the smallest network": _changed(
        network={"cidr": "192.168.0.0/20", "flowLogs": {"retentionDays": 1}},
        nodeGroups={"flexible": {"instanceTypes": ["m7i.4xlarge"], "max": 8}},
    ),
    "ARM, extended support, a larger control plane": _changed(
        cluster={
            "version": "1.33",
            "supportType": "extended",
            "controlPlaneTier": "tier-xl",
            "deletionProtection": False,
        },
        nodeGroups={"flexible": {"instanceTypes": ["m7g.4xlarge"], "max": 20}},
    ),
    "pods with rights in AWS": _changed(
        workloads={
            "api": {
                **base()["ebbtide:workloads"]["api"],
                "aws": {**_RIGHTS, "policies": ["arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"]},
            }
        }
    ),
    "the longest names and the most tags": _widest,
}


def stacks() -> list[str]:
    return [*shipped(), *VARIANTS, *(f"generated {seed}" for seed in range(GENERATED))]


@cache
def settings_of(name: str) -> StackSettings:
    if name in shipped():
        return load_stack(str(shipped()[name]))
    if name in VARIANTS:
        return parse_stack(VARIANTS[name](), stack="variant", file="Pulumi.variant.yaml")
    text = stack_text(int(name.split()[-1]))
    return parse_stack(yaml.safe_load(text)["config"], stack="generated", file="Pulumi.generated.yaml")


@cache
def recorded(name: str) -> tuple[Resource, ...]:
    return record(settings_of(name))


def of_aws(resources: Sequence[Resource]) -> list[Resource]:
    return [resource for resource in resources if resource.type.startswith("aws:") and not resource.read]
