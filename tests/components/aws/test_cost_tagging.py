"""Everything that AWS bills has cost tags: resources with tags, and what controllers create."""

import inspect
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticCustomError

from components.aws.savings import PLAN_TYPE, SAVINGS_PLAN, STEADY_NODES
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings, load_stack
from ebbtide.settings.sections.costs import parse_cost_tags
from ebbtide.settings.sections.network import FlowLogSettings, Nat, NetworkSettings
from ebbtide.settings.sections.redis import RedisKind, RedisSettings
from ebbtide.vocabulary.labels import NODE_GROUP, NODE_KIND
from tests.builders.components import demo_stack
from tests.builders.recorded import record
from tests.builders.stack import stack_settings
from tests.paths import DATA, ROOT

STACKS = ("demo", "example-berlin", "with-everything")
DOCUMENT = Path(ROOT / "docs" / "how-to" / "cost-tags.md")


@cache
def settings_of(stack: str) -> StackSettings:
    if stack == "with-everything":
        network = NetworkSettings(nat=Nat.PER_ZONE, endpoints=True, flow_logs=FlowLogSettings())
        return stack_settings(network=network, redis=RedisSettings(kind=RedisKind.ELASTICACHE))
    return load_stack(stack, DATA)


@cache
def recorded(stack: str) -> tuple[Resource, ...]:
    return demo_stack() if stack == "demo" else record(settings_of(stack))


def cost_tags(stack: str) -> Mapping[str, str]:
    return {CUSTOMER: settings_of(stack).customer, **settings_of(stack).costs.tags}


@cache
def takes_tags(type_: str) -> bool:
    """True if the SDK's class has tags; a type is `aws:ec2/vpc:Vpc`."""
    _, module, name = type_.split(":")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of a neighbour that the package loads
        resource: Any = getattr(import_module(f"pulumi_aws.{module.split('/')[0]}"), name)
    return "tags" in inspect.signature(resource._internal_init).parameters


def taggable(stack: str) -> Iterator[Resource]:
    for resource in recorded(stack):
        if resource.type.startswith("aws:") and takes_tags(resource.type):
            yield resource


@pytest.mark.parametrize("stack", STACKS)
def test_all_that_takes_tags_carries_the_cost_tags(stack: str) -> None:
    untagged = [it.name for it in taggable(stack) if not cost_tags(stack).items() <= it.inputs.get("tags", {}).items()]

    assert untagged == []


@pytest.mark.parametrize("stack", STACKS)
def test_no_key_that_ebbtide_sets_can_be_taken_over(stack: str) -> None:
    """Tags of the resources, including separate resources for tags of Auto Scaling groups."""
    set_here = {key for it in taggable(stack) for key in it.inputs["tags"]}
    groups = [it.inputs["tag"]["key"] for it in recorded(stack) if it.type.endswith(":Tag")]
    ours = (set_here | set(groups)) - settings_of(stack).costs.tags.keys()

    assert "Name" in ours
    for key in ours:
        with pytest.raises(PydanticCustomError):
            parse_cost_tags({key: "another"})


def test_the_kinds_that_cost_most_are_among_them() -> None:
    kinds = {resource.type.rsplit(":", 1)[1] for stack in STACKS for resource in taggable(stack)}

    assert kinds >= {"NodeGroup", "LaunchTemplate", "NatGateway", "Eip", "ReplicationGroup", "LogGroup", "Key"}


@pytest.mark.parametrize("stack", ["demo", "example-berlin"])
def test_instances_volumes_and_network_interfaces_say_what_a_plan_is_meant_for(stack: str) -> None:
    templates = [resource for resource in recorded(stack) if resource.type.endswith(":LaunchTemplate")]
    specifications = [it for template in templates for it in template.inputs["tagSpecifications"]]

    assert {it["resourceType"] for it in specifications} == {"instance", "volume", "network-interface"}
    for it in specifications:
        assert cost_tags(stack).items() <= it["tags"].items()
        assert {NODE_GROUP, NODE_KIND, SAVINGS_PLAN} <= set(it["tags"])


@pytest.mark.parametrize("stack", ["demo", "example-berlin"])
def test_what_drivers_make_in_the_cluster_is_tagged_by_their_configuration(stack: str) -> None:
    configured = {
        resource.inputs["addonName"]: json.loads(resource.inputs["configurationValues"])
        for resource in recorded(stack)
        if resource.type.endswith(":Addon") and resource.inputs.get("configurationValues")
    }

    volumes = configured["aws-ebs-csi-driver"]["controller"]["extraVolumeTags"]
    interfaces = json.loads(configured["vpc-cni"]["env"]["ADDITIONAL_ENI_TAGS"])
    assert volumes == interfaces == cost_tags(stack)


def test_the_document_lists_the_keys_as_they_are() -> None:
    ours = {
        key for stack in STACKS for it in taggable(stack) for key in it.inputs["tags"] if key.startswith("ebbtide.dev/")
    }

    assert set(re.findall(r"`(ebbtide\.dev/[a-z-]+)`", DOCUMENT.read_text(encoding="utf-8"))) == ours
    assert {SAVINGS_PLAN, PLAN_TYPE, STEADY_NODES} <= ours
