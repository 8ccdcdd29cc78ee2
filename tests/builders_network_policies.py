"""Who may talk to whom under a set of network policies, by the rules of Kubernetes: no plugin enforces them here.

A connection needs both ends: an egress rule of some policy that selects the caller, and an ingress rule of one that
selects the called. An end that no policy selects for that direction is open. Addresses outside the cluster have no
policies, and a pod is found by its labels alone: whether a range holds pods too is left open by Kubernetes, so no test
may count on it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from ebbtide.preview.resources import Resource


@dataclass(frozen=True, kw_only=True)
class Pod:
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Outside:
    address: str


End = Pod | Outside


class Policies:
    """The NetworkPolicies among what a program registered."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._all = [resource.inputs for resource in resources if resource.type.endswith(":NetworkPolicy")]

    def allow(self, source: End, target: End, port: int, protocol: str = "TCP") -> bool:
        wanted = (port, protocol)
        return self._open(source, "Egress", "to", target, wanted) and self._open(
            target, "Ingress", "from", source, wanted
        )

    def _open(self, end: End, direction: str, peers: str, other: End, wanted: tuple[int, str]) -> bool:
        if isinstance(end, Outside):
            return True
        specs = [
            policy["spec"]
            for policy in self._all
            if policy["metadata"]["namespace"] == end.namespace
            and direction in policy["spec"]["policyTypes"]
            and selects(policy["spec"]["podSelector"], end.labels)
        ]
        rules = [rule for spec in specs for rule in spec.get(direction.lower(), [])]
        return not specs or any(_matches(rule, rule.get(peers, []), other, wanted) for rule in rules)


def _matches(rule: Mapping[str, Any], peers: Sequence[Mapping[str, Any]], other: End, wanted: tuple[int, str]) -> bool:
    ports = [(port["port"], port["protocol"]) for port in rule.get("ports", [])]
    return (not ports or wanted in ports) and (not peers or any(_is_peer(peer, other) for peer in peers))


def _is_peer(peer: Mapping[str, Any], other: End) -> bool:
    if isinstance(other, Outside):
        return "ipBlock" in peer and _holds(peer["ipBlock"], other.address)
    if "ipBlock" in peer:
        return False
    namespace = {"kubernetes.io/metadata.name": other.namespace}
    return selects(peer["namespaceSelector"], namespace) and selects(peer.get("podSelector", {}), other.labels)


def _holds(block: Mapping[str, Any], text: str) -> bool:
    address = ip_address(text)
    return address in ip_network(block["cidr"]) and not any(
        address in ip_network(hole) for hole in block.get("except", [])
    )


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """An empty selector selects everything."""
    exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return exact and all(_meets(each, labels) for each in selector.get("matchExpressions", []))


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "NotIn":
            return value not in requirement["values"]
        case "Exists":
            return value is not None
        case operator:
            raise AssertionError(f"no test needs the operator {operator} so far")
