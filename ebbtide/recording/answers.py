"""Invented answers of AWS and Kubernetes, for the outputs that the program reads.

Other outputs are the resource's own inputs. A component that reads another computed output needs a line in
`_AWS_ANSWERS`: without one the output is None, and the program fails in a recording although it would work in reality.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

ACCOUNT = "111122223333"  # the account number that AWS keeps for documentation
DEPLOYER = f"arn:aws:iam::{ACCOUNT}:role/deployer"

Properties: TypeAlias = Mapping[str, Any]


def identifier(type_: str, name: str) -> str:
    """The id of a resource: equal programs get equal ids."""
    return f"{name}-{hashlib.sha256(f'{type_}/{name}'.encode()).hexdigest()[:7]}"


def outputs_of(type_: str, name: str, inputs: Properties) -> dict[str, Any]:
    """The outputs that a resource has beyond its inputs."""
    package = type_.split(":", 1)[0]
    if package == "kubernetes":
        return {"metadata": {"name": name, **inputs.get("metadata", {})}}
    if package != "aws":
        return {}
    service = type_.split(":")[1].split("/")[0]
    answer = _AWS_ANSWERS.get(type_)
    return {
        "arn": f"arn:aws:{service}:{inputs.get('region', '')}:{ACCOUNT}:{identifier(type_, name)}",
        "name": name,
        **(answer(name, inputs) if answer else {}),
    }


def answer_call(token: str, arguments: Properties) -> dict[str, Any]:
    """The result of a provider's function. Raises `LookupError` for a function without an answer."""
    answer = _CALLS.get(token)
    if answer is None:
        raise LookupError(f"{token}: the recording has no answer for this function")
    return answer(arguments)


def _cluster(name: str, inputs: Properties) -> dict[str, Any]:
    return {
        "arn": f"arn:aws:eks::{ACCOUNT}:cluster/{inputs.get('name', name)}",
        "endpoint": f"https://{inputs.get('name', name)}.eks.example",
        "certificateAuthority": {"data": "bm90IGEgY2VydGlmaWNhdGU="},
        "vpcConfig": {**inputs.get("vpcConfig", {}), "clusterSecurityGroupId": f"sg-{name}"},
    }


def _node_group(name: str, _: Properties) -> dict[str, Any]:
    return {"resources": [{"autoscalingGroups": [{"name": f"eks-{name}"}], "remoteAccessSecurityGroupId": ""}]}


def _launch_template(_name: str, _: Properties) -> dict[str, Any]:
    return {"latestVersion": 1, "defaultVersion": 1}


def _cache(name: str, _: Properties) -> dict[str, Any]:
    return {"primaryEndpointAddress": f"master.{name}.a1b2c3.cache.amazonaws.example"}


def _role(name: str, inputs: Properties) -> dict[str, Any]:
    return {"arn": f"arn:aws:iam::{ACCOUNT}:role/{inputs.get('name', name)}"}


def _queue(name: str, _: Properties) -> dict[str, Any]:
    return {"url": f"https://sqs.us-east-1.amazonaws.example/{ACCOUNT}/{name}"}


_AWS_ANSWERS: Mapping[str, Callable[[str, Properties], dict[str, Any]]] = {
    "aws:eks/cluster:Cluster": _cluster,
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "aws:elasticache/replicationGroup:ReplicationGroup": _cache,
    "aws:ec2/launchTemplate:LaunchTemplate": _launch_template,
    "aws:iam/role:Role": _role,
    "aws:sqs/queue:Queue": _queue,
}

_CALLS: Mapping[str, Callable[[Properties], dict[str, Any]]] = {
    "aws:index/getAvailabilityZones:getAvailabilityZones": lambda _: {"id": "", "names": [], "zoneIds": []},
    "aws:index/getCallerIdentity:getCallerIdentity": lambda _: {
        "accountId": ACCOUNT,
        "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/deployer/session",
        "id": ACCOUNT,
        "userId": "AROAEXAMPLE:session",
    },
    "aws:iam/getSessionContext:getSessionContext": lambda arguments: {
        "arn": arguments["arn"],
        "id": arguments["arn"],
        "issuerArn": DEPLOYER,
        "issuerId": "AROAEXAMPLE",
        "issuerName": "deployer",
        "sessionName": "session",
    },
}
