"""The check of requests against AWS' models finds what is wrong with one, in each of the ways in which AWS is asked."""

import json
from urllib.parse import urlencode

import pytest

from tests.aws.support.malformed import malformed
from tests.aws.support.service_models import Sent, values

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


def node_group(uri: str = "/clusters/demo/node-groups", **said: object) -> Sent:
    body = {"nodegroupName": "fixed", "subnets": ["subnet-1"], "nodeRole": "arn:aws:iam::111122223333:role/n", **said}
    return Sent("eks", "POST", uri, "", json.dumps(body).encode())


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
        (role(RoleName="a role"), ".RoleName: 'a role' has not the form"),
        (role(MaxSessionDuration="60"), ".MaxSessionDuration: 60 is not in 3600..43200"),
        (role(MaxSessionDuration="long"), ".MaxSessionDuration: 'long' is no integer"),
        (role(Tags__member__1__Value="ml"), ".Tags[0].Key: is required"),
        (log_group(logGroupName="a group"), ".logGroupName: 'a group' has not the form"),
        (log_group(tags={"team": 1}), ".tags.team: 1 is no string"),
        (node_group(capacityType="ONDEMAND"), ".capacityType: 'ONDEMAND' is none of"),
        (node_group(scalingConfig={"maxSize": 0}), ".scalingConfig.maxSize: 0 is not in 1.."),
        (node_group(subnets="subnet-1"), ".subnets: 'subnet-1' is no list"),
        (node_group(uri="/clusters/demo/nodes"), "eks: POST /clusters/demo/nodes  is no operation"),
    ],
)
def test_a_request_that_is_broken_by_hand_is_found(sent: Sent, fault: str) -> None:
    found = malformed(sent)

    assert len(found) == 1
    assert fault in found[0]


def test_an_arn_in_a_path_is_one_value() -> None:
    sent = Sent("eks", "GET", "/clusters/demo/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa", "", b"")

    assert values(sent) == {"clusterName": "demo", "principalArn": "arn:aws:iam::1:role/a"}
