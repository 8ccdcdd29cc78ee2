"""Amazon EKS in memory, from its API reference: what is sent is kept and said again, with what AWS adds to it.

All of EKS, as moto's lacks add-ons, access entries and Pod Identity, and forgets most of what it takes. Groups and
security groups that EKS makes in other services are made in moto, as others name them.
"""

from dataclasses import replace
from importlib import import_module
from itertools import count
from typing import Any

from tests.aws.imitation.rest import Answer, Failed, Request, as_json, missing, now

Json = dict[str, Any]

_KINDS = {
    "node-groups": ("nodegroup", "nodegroupName", "nodegroupArn"),
    "addons": ("addon", "addonName", "addonArn"),
    "access-entries": ("accessEntry", "principalArn", "accessEntryArn"),
    "pod-identity-associations": ("association", "associationId", "associationArn"),
}


_DONE: Json = {"update": {"id": "1", "status": "Successful"}}
"""Every update is over by the time that it is asked about."""


class Eks:
    def __init__(self, account: str) -> None:
        self._account = account
        self._clusters: dict[str, Json] = {}
        self._parts: dict[tuple[str, str], dict[str, Json]] = {}  # by cluster and kind, by name
        self._policies: dict[tuple[str, str], dict[str, Json]] = {}  # by cluster and principal, by ARN
        self._numbers = count(1)

    def answer(self, request: Request) -> Answer:
        match request.method, request.parts:
            case "POST", ("clusters",):
                return as_json({"cluster": self._make_cluster(request)})
            case "GET", ("clusters",):
                return as_json({"clusters": list(self._clusters)})
            case "GET", ("clusters", name):
                return as_json({"cluster": self._cluster(name)})
            case "DELETE", ("clusters", name):
                return as_json({"cluster": self._delete_cluster(name, request.region)})
            case "POST", ("clusters", name, kind) if kind in _KINDS:
                return as_json({_KINDS[kind][0]: self._make(self._cluster(name), kind, request)})
            case "GET", ("clusters", name, "node-groups"):
                return as_json({"nodegroups": list(self._parts.get((name, "node-groups"), {}))})
            case "GET", ("clusters", name, kind, part) if kind in _KINDS:
                return as_json({_KINDS[kind][0]: self._part(name, kind, part)})
            case "DELETE", ("clusters", name, kind, part) if kind in _KINDS:
                return as_json({_KINDS[kind][0]: self._delete(name, kind, part, request.region)})
            case "POST", ("clusters", _, *_, "updates" | "update-config" | "update-version" | "update"):
                self._change(request)
                return as_json(_DONE)
            case "POST", ("tags", arn):
                self._by_arn(arn).setdefault("tags", {}).update(request.body["tags"])
                return as_json({})
            case "GET", ("clusters", _, "updates", _):
                return as_json(_DONE)
            case method, ("clusters", name, "access-entries", principal, "access-policies", *arn):
                self._part(name, "access-entries", principal)
                return as_json(self._policy(method, name, principal, arn, request))
            case _:
                raise Failed("InvalidRequestException", f"{request.method} {request.parts} is not imitated")

    def _make_cluster(self, request: Request) -> Json:
        given = dict(request.body)
        name = given["name"]
        if name in self._clusters:
            raise Failed("ResourceInUseException", f"Cluster already exists with name: {name}", "409 Conflict")
        ec2 = _backend("ec2", self._account, request.region)
        network = given["resourcesVpcConfig"]
        vpc = ec2.get_subnet(network["subnetIds"][0]).vpc_id
        group = ec2.create_security_group(f"eks-cluster-sg-{name}", "EKS created security group", vpc)
        network = {"securityGroupIds": list[str](), **network, "clusterSecurityGroupId": group.id, "vpcId": vpc}
        service = {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4", "elasticLoadBalancing": {"enabled": False}}
        self._clusters[name] = {
            **given,
            "arn": f"arn:aws:eks:{request.region}:{self._account}:cluster/{name}",
            "createdAt": now(),
            "endpoint": f"https://{name}.gr7.{request.region}.eks.amazonaws.com",
            "certificateAuthority": {"data": "bm90IGEgY2VydGlmaWNhdGU="},
            "identity": {"oidc": {"issuer": f"https://oidc.eks.{request.region}.amazonaws.com/id/{name}"}},
            "kubernetesNetworkConfig": {**service, **given.get("kubernetesNetworkConfig", {})},
            "platformVersion": "eks.1",
            "resourcesVpcConfig": network,
            "status": "ACTIVE",
        }
        return self._clusters[name]

    def _change(self, request: Request) -> None:
        """What is said takes the place of what was there. Of a cluster's network, what is said of it."""
        said = {key: value for key, value in request.body.items() if key != "clientRequestToken"}
        match request.parts:
            case _, name, ("updates" | "update-config"):
                cluster = self._cluster(name)
                network = {**cluster["resourcesVpcConfig"], **said.get("resourcesVpcConfig", {})}
                cluster.update(said, resourcesVpcConfig=network)
            case _, name, "node-groups", part, _ if not {"labels", "taints"} & said.keys():
                group = self._part(name, "node-groups", part)
                template = {**group.get("launchTemplate", {}), **said.get("launchTemplate", {})}
                group.update(said, launchTemplate=template)
            case _, name, "addons", part, "update":
                self._part(name, "addons", part).update(said)
            case parts:
                raise Failed("InvalidRequestException", f"{parts} with {sorted(said)} is not imitated")

    def _by_arn(self, arn: str) -> Json:
        parts = (part for names in self._parts.values() for part in names.values())
        named = (each for each in (*self._clusters.values(), *parts) if arn in each.values())
        if (found := next(named, None)) is None:
            raise missing(f"resource {arn}")
        return found

    def _cluster(self, name: str) -> Json:
        if name not in self._clusters:
            raise missing(f"cluster {name}")
        return self._clusters[name]

    def _delete_cluster(self, name: str, region: str) -> Json:
        gone = self._cluster(name)
        if self._parts.get((name, "node-groups")):
            raise Failed("ResourceInUseException", "Cluster has nodegroups attached", "409 Conflict")
        _backend("ec2", self._account, region).delete_security_group(
            group_id=gone["resourcesVpcConfig"]["clusterSecurityGroupId"]
        )
        return {**self._clusters.pop(name), "status": "DELETING"}

    def _make(self, cluster: Json, kind: str, request: Request) -> Json:
        _, key, arn = _KINDS[kind]
        number = next(self._numbers)
        made: Json = {**request.body, "clusterName": cluster["name"]}
        if kind == "pod-identity-associations":
            made["associationId"] = f"a-{number:017}"
        names = self._parts.setdefault((cluster["name"], kind), {})
        if made[key] in names:
            raise Failed("ResourceInUseException", f"{made[key]} exists in {cluster['name']}", "409 Conflict")
        made |= {"createdAt": now(), "modifiedAt": now()}
        made[arn] = f"arn:aws:eks:{request.region}:{self._account}:{key}/{cluster['name']}/{made[key]}"
        if kind in ("node-groups", "addons"):
            made |= {"status": "ACTIVE", "health": {"issues": []}}
        if kind == "node-groups":
            made |= self._machines(made, cluster, number, request.region)
        if kind == "addons":
            made["podIdentityAssociations"] = self._of_addon(made, cluster, request)
        if kind == "access-entries":
            made = {"type": "STANDARD", "kubernetesGroups": [], "username": made[key], **made}
        names[made[key]] = made
        return made

    def _machines(self, made: Json, cluster: Json, number: int, region: str) -> Json:
        """What EKS adds to a node group. The group of machines is empty, and made with a template that nobody uses."""
        name = f"eks-{made['nodegroupName']}-{number:08}"
        scaling = _backend("autoscaling", self._account, region)
        template = {"LaunchTemplateId": made["launchTemplate"]["id"], "Version": "$Latest"}
        subnet = _backend("ec2", self._account, region).get_subnet(made["subnets"][0])
        scaling.create_auto_scaling_group(
            name,
            [],
            0,
            made["scalingConfig"]["maxSize"],
            0,
            "",
            template,
            subnet.id,
            None,
            None,
            "EC2",
            [],
            [],
            "",
            [],
            [],
        )
        return {
            "capacityType": made.get("capacityType", "ON_DEMAND"),
            "version": made.get("version", cluster["version"]),
            "releaseVersion": made.get("releaseVersion", f"{cluster['version']}.0-20261101"),
            "resources": {"autoScalingGroups": [{"name": name}]},
        }

    def _of_addon(self, addon: Json, cluster: Json, request: Request) -> list[str]:
        """The associations that an add-on brings: it takes them whole, and says their ARNs."""
        kind = "pod-identity-associations"
        given = [{**each, "namespace": "kube-system"} for each in addon.get("podIdentityAssociations", [])]
        return [self._make(cluster, kind, replace(request, body=each))["associationArn"] for each in given]

    def _part(self, cluster: str, kind: str, name: str) -> Json:
        self._cluster(cluster)
        found = self._parts.get((cluster, kind), {})
        if name not in found:
            raise missing(f"{_KINDS[kind][0]} {name}")
        return found[name]

    def _delete(self, cluster: str, kind: str, name: str, region: str) -> Json:
        gone = self._part(cluster, kind, name)
        if kind == "node-groups":
            group = gone["resources"]["autoScalingGroups"][0]["name"]
            _backend("autoscaling", self._account, region).delete_auto_scaling_group(group)
        for arn in gone.get("podIdentityAssociations", []):
            self._delete(cluster, "pod-identity-associations", arn.rsplit("/")[-1], region)
        return self._parts[cluster, kind].pop(name)

    def _policy(self, method: str, cluster: str, principal: str, arn: list[str], request: Request) -> Json:
        policies = self._policies.setdefault((cluster, principal), {})
        said = {"clusterName": cluster, "principalArn": principal}
        if method == "POST":
            made: Json = {**request.body, "associatedAt": now(), "modifiedAt": now()}
            policies[made["policyArn"]] = made
            return {**said, "associatedAccessPolicy": made}
        if method == "DELETE":
            if policies.pop(arn[0], None) is None:
                raise missing(f"policy {arn[0]} of {principal}")
            return {}
        return {**said, "associatedAccessPolicies": list(policies.values())}


def _backend(service: str, account: str, region: str) -> Any:
    """moto's own, which is not installed where types are checked."""
    models: Any = import_module(f"moto.{service}.models")
    return getattr(models, f"{service}_backends")[account][region]
