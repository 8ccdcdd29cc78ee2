"""Interface endpoints: what a node needs in a closed network, and who may call them."""

import json
from functools import cache

from ebbtide.settings.sections.network import CALLED, Nat, NetworkSettings
from tests.builders.network import network
from tests.builders.recorded import record
from tests.builders.stack import Recorded, stack_settings

TO_JOIN = {"ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "sts"}
"""For a node's name, its images, and the roles of the pods that make it ready (EKS user guide, "Private clusters")."""


@cache
def closed_stack() -> Recorded:
    return Recorded(record(stack_settings(network=NetworkSettings(nat=Nat.NONE))))


def reached(seen: Recorded) -> dict[str, str]:
    """The services that have an endpoint, with its kind."""
    endpoints = [endpoint.inputs for endpoint in seen.of("VpcEndpoint")]
    return {e["serviceName"].removeprefix("com.amazonaws.us-east-1."): e["vpcEndpointType"] for e in endpoints}


def test_a_closed_network_reaches_what_a_node_needs_to_join() -> None:
    closed = reached(network("a", "b", nat="none"))

    assert {service for service, kind in closed.items() if kind == "Interface"} == set(CALLED)
    assert set(CALLED) >= TO_JOIN
    assert closed["s3"] == "Gateway"  # where the layers of images are


def test_the_autoscaler_reaches_every_service_it_has_rights_in() -> None:
    stack = closed_stack()
    rights = json.loads(stack.named("autoscaler-rights", "RolePolicy").inputs["policy"])["Statement"]
    services = {action.split(":")[0] for statement in rights for action in statement["Action"]}

    assert {"autoscaling", "ec2"} <= services <= set(reached(stack))


def test_only_https_from_the_vpc_is_let_in() -> None:
    seen = network("a", "b", nat="none", cidr="10.7.0.0/18")
    rule = seen.named("network-endpoints-https").inputs
    groups = {tuple(e.inputs["securityGroupIds"]) for e in seen.of("VpcEndpoint") if "securityGroupIds" in e.inputs}

    assert (rule["cidrIpv4"], rule["ipProtocol"], rule["fromPort"], rule["toPort"]) == ("10.7.0.0/18", "tcp", 443, 443)
    assert groups == {(rule["securityGroupId"],)}


def test_endpoints_outlive_the_nodes_that_use_them() -> None:
    stack = closed_stack()
    endpoints = {endpoint.name for endpoint in stack.of("VpcEndpoint")}

    assert all(endpoints <= stack.before(group) for group in stack.of("NodeGroup"))
