"""The check of requests against AWS' models finds what is wrong with one, in each of the ways in which AWS is asked."""

import json
from urllib.parse import urlencode

import pytest

from tests.aws.support.malformed import malformed
from tests.aws.support.service_models import Sent

pytestmark = [pytest.mark.aws, pytest.mark.imitation]


def form(service: str, **fields: str) -> Sent:
    return Sent(
        service, "POST", "/", "", urlencode({key.replace("__", "."): value for key, value in fields.items()}).encode()
    )


def ec2(**more: str) -> Sent:
    return form("ec2", Action="CreateSubnet", VpcId="vpc-1", CidrBlock="10.0.0.0/24", **more)


def role(**more: str) -> Sent:
    return form("iam", **{"Action": "CreateRole", "RoleName": "node", "AssumeRolePolicyDocument": "{}", **more})


def log_group(**said: object) -> Sent:
    body = {"logGroupName": "/aws/eks/demo/cluster", **said}
    return Sent("logs", "POST", "/", "Logs_20140328.CreateLogGroup", json.dumps(body).encode())


def node_group(**said: object) -> Sent:
    body = {"nodegroupName": "fixed", "subnets": ["subnet-1"], "nodeRole": "arn:aws:iam::111122223333:role/n", **said}
    return Sent("eks", "POST", "/clusters/demo/node-groups", "", json.dumps(body).encode())


@pytest.mark.parametrize(
    "sent",
    [
        ec2(TagSpecification__1__ResourceType="subnet", TagSpecification__1__Tag__1__Key="a"),
        role(Tags__member__1__Key="team", Tags__member__1__Value="ml"),
        log_group(tags={"team": "ml"}),
        node_group(scalingConfig={"minSize": 0, "maxSize": 4}, capacityType="SPOT"),
        Sent("eks", "GET", "/clusters/demo/access-entries/arn%3Aaws%3Aiam%3A%3A111122223333%3Arole%2Fa", "", b""),
    ],
)
def test_a_sound_request_has_no_fault(sent: Sent) -> None:
    assert malformed(sent) == []


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        (ec2(Colour="blue"), ".Colour: there is no such member"),
        (ec2(TagSpecification__1__ResourceType="house"), ".TagSpecifications[0].ResourceType: 'house' is none of"),
        (form("ec2", Action="CreateSubnet", CidrBlock="10.0.0.0/24"), ".VpcId: is required"),
        (form("ec2", Action="CreateNothing"), "ec2: POST / CreateNothing is no operation"),
        (role(RoleName="n" * 65), ".RoleName: 65 is not in 1..64"),
        (role(MaxSessionDuration="long"), ".MaxSessionDuration: 'long' is no integer"),
        (log_group(logGroupName="a group"), ".logGroupName: 'a group' has not the form"),
        (node_group(scalingConfig={"maxSize": 0}), ".scalingConfig.maxSize: 0 is not in 1.."),
        (node_group(subnets="subnet-1"), ".subnets: 'subnet-1' is no list"),
    ],
)
def test_a_request_that_is_broken_by_hand_is_found(sent: Sent, fault: str) -> None:
    found = malformed(sent)

    assert len(found) == 1
    assert fault in found[0]
