"""Amazon ElastiCache in memory, from its API reference, but for subnet groups, which are moto's.

moto's has no groups of parameters and no members in a replication group, which the provider looks at.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from tests.aws.imitation.rest import Answer

Given = Mapping[str, str]

_SPACE = "http://elasticache.amazonaws.com/doc/2015-02-02/"


class _NotFound(LookupError):
    """By the code that AWS gives: what is asked for is not there."""


class ElastiCache:
    def __init__(self, account: str) -> None:
        self._account = account
        self._parameters: dict[str, dict[str, str]] = {}  # by group
        self._families: dict[str, Given] = {}
        self._caches: dict[str, Given] = {}  # as they were asked for
        self._tags: dict[str, dict[str, str]] = {}  # by ARN
        self._actions: dict[str, Callable[[Given, str], str]] = {
            "CreateCacheParameterGroup": self._make_parameters,
            "ModifyCacheParameterGroup": self._set_parameters,
            "DescribeCacheParameterGroups": self._say_groups,
            "DescribeCacheParameters": self._say_parameters,
            "DeleteCacheParameterGroup": self._delete_parameters,
            "DeleteCacheSubnetGroup": self._delete_subnets,
            "CreateReplicationGroup": self._make_cache,
            "DescribeReplicationGroups": self._say_caches,
            "DescribeCacheClusters": self._member,
            "DeleteReplicationGroup": self._delete_cache,
        }

    def answer(self, region: str, body: bytes) -> Answer | None:
        """None for what moto answers."""
        given = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = given["Action"]
        act = self._actions.get(action)
        if action == "ListTagsForResource" and given["ResourceName"] in self._tags:
            act = self._say_tags
        if act is None:
            return None
        try:
            result = act(given, region)
        except _NotFound as error:
            said = _element("Code", str(error)) + _element("Message", f"{action}: there is none")
            return Answer(_element("ErrorResponse", _element("Error", said)).encode(), "text/xml", "404 Not Found")
        text = f'<{action}Response xmlns="{_SPACE}">{_element(f"{action}Result", result)}</{action}Response>'
        return Answer(text.encode(), "text/xml")

    def _arn(self, kind: str, name: str, region: str) -> str:
        return f"arn:aws:elasticache:{region}:{self._account}:{kind}:{name}"

    def _make_parameters(self, given: Given, region: str) -> str:
        name = _name(given)
        self._parameters[name], self._families[name] = {}, given
        self._tags[self._arn("parametergroup", name, region)] = _pairs(given, "Tags.Tag.", "Key", "Value")
        return self._group(name, region)

    def _say_groups(self, given: Given, region: str) -> str:
        names = [_name(given)] if "CacheParameterGroupName" in given else list(self._parameters)
        return _element("CacheParameterGroups", "".join(self._group(name, region) for name in names))

    def _group(self, name: str, region: str) -> str:
        if name not in self._parameters:
            raise _NotFound("CacheParameterGroupNotFound")
        kept = {key: self._families[name][key] for key in ("CacheParameterGroupFamily", "Description")}
        arn = self._arn("parametergroup", name, region)
        return _element("CacheParameterGroup", _elements(CacheParameterGroupName=name, ARN=arn, **kept))

    def _set_parameters(self, given: Given, region: str) -> str:  # noqa: ARG002 - all actions are asked alike
        prefix = "ParameterNameValues.ParameterNameValue."
        self._parameters[_name(given)] |= _pairs(given, prefix, "ParameterName", "ParameterValue")
        return _elements(CacheParameterGroupName=_name(given))

    def _say_parameters(self, given: Given, region: str) -> str:  # noqa: ARG002
        said = self._parameters[_name(given)].items()
        each = (_elements(ParameterName=name, ParameterValue=value, Source="user") for name, value in said)
        return _element("Parameters", "".join(_element("Parameter", one) for one in each))

    def _delete_parameters(self, given: Given, region: str) -> str:  # noqa: ARG002
        del self._parameters[_name(given)]
        return ""

    def _delete_subnets(self, given: Given, region: str) -> str:
        backends: Any = import_module("moto.elasticache.models").elasticache_backends
        del backends[self._account][region].cache_subnet_groups[given["CacheSubnetGroupName"]]
        return ""

    def _make_cache(self, given: Given, region: str) -> str:
        name = given["ReplicationGroupId"]
        self._caches[name] = given
        for kind, part in (("replicationgroup", name), *(("cluster", each) for each in self._members(name))):
            self._tags[self._arn(kind, part, region)] = _pairs(given, "Tags.Tag.", "Key", "Value")
        return self._cache(name, region)

    def _say_caches(self, given: Given, region: str) -> str:
        names = [given["ReplicationGroupId"]] if "ReplicationGroupId" in given else list(self._caches)
        return _element("ReplicationGroups", "".join(self._cache(name, region) for name in names))

    def _members(self, name: str) -> list[str]:
        return [f"{name}-{number + 1:03}" for number in range(int(self._caches[name]["NumCacheClusters"]))]

    def _cache(self, name: str, region: str) -> str:
        if name not in self._caches:
            raise _NotFound("ReplicationGroupNotFoundFault")
        asked = self._caches[name]
        kept = {key: asked[key] for key in _KEPT if key in asked}
        ends = {
            end: _elements(Address=f"{word}.{name}.a1b2c3.cache.amazonaws.com", Port=asked["Port"])
            for end, word in (("PrimaryEndpoint", "master"), ("ReaderEndpoint", "replica"))
        }
        nodes = "".join(_element(end, said) for end, said in ends.items())
        group = _elements(NodeGroupId="0001", Status="available") + nodes
        return _element(
            "ReplicationGroup",
            _elements(
                **kept,
                Description=asked["ReplicationGroupDescription"],
                Status="available",
                ARN=self._arn("replicationgroup", name, region),
                AutomaticFailover=_state(asked, "AutomaticFailoverEnabled"),
                MultiAZ=_state(asked, "MultiAZEnabled"),
                AuthTokenEnabled=str("AuthToken" in asked).lower(),
                ClusterEnabled="false",
            )
            + _element("NodeGroups", _element("NodeGroup", group))
            + _element("MemberClusters", "".join(_element("ClusterId", each) for each in self._members(name))),
        )

    def _member(self, given: Given, region: str) -> str:
        name = given["CacheClusterId"]
        group = name.rpartition("-")[0]
        if group not in self._caches:
            raise _NotFound("CacheClusterNotFound")
        asked = self._caches[group]
        said = {key: asked[key] for key in (*_KEPT, "EngineVersion", "CacheSubnetGroupName") if key in asked}
        parameters = _elements(CacheParameterGroupName=asked["CacheParameterGroupName"])
        groups = (value for key, value in asked.items() if key.startswith("SecurityGroupIds."))
        secured = (_element("member", _elements(SecurityGroupId=each, Status="active")) for each in groups)
        arn = self._arn("cluster", name, region)
        cluster = _elements(**said, CacheClusterId=name, CacheClusterStatus="available", NumCacheNodes="1", ARN=arn)
        window = _elements(PreferredMaintenanceWindow=asked.get("PreferredMaintenanceWindow", "sun:05:00-sun:06:00"))
        more = _element("CacheParameterGroup", parameters) + _element("SecurityGroups", "".join(secured)) + window
        return _element("CacheClusters", _element("CacheCluster", cluster + more))

    def _delete_cache(self, given: Given, region: str) -> str:
        said = self._cache(given["ReplicationGroupId"], region)
        del self._caches[given["ReplicationGroupId"]]
        return said

    def _say_tags(self, given: Given, region: str) -> str:  # noqa: ARG002
        tags = self._tags[given["ResourceName"]].items()
        return _element("TagList", "".join(_element("Tag", _elements(Key=key, Value=value)) for key, value in tags))


_KEPT = (
    "ReplicationGroupId",
    "CacheNodeType",
    "Engine",
    "SnapshotRetentionLimit",
    "SnapshotWindow",
    "TransitEncryptionEnabled",
    "TransitEncryptionMode",
    "AtRestEncryptionEnabled",
    "AutoMinorVersionUpgrade",
    "KmsKeyId",
    "NetworkType",
    "IpDiscovery",
)


def _name(given: Given) -> str:
    return given["CacheParameterGroupName"]


def _state(asked: Given, key: str) -> str:
    return "enabled" if asked.get(key) == "true" else "disabled"


def _pairs(given: Given, prefix: str, name: str, value: str) -> dict[str, str]:
    """Of a list that is written as `prefix1.name`, `prefix1.value`, `prefix2.name`…"""
    names = [key for key in given if key.startswith(prefix) and key.endswith(f".{name}")]
    return {given[key]: given[key.removesuffix(name) + value] for key in names}


def _elements(**said: str) -> str:
    return "".join(_element(name, escape(value)) for name, value in said.items())


def _element(name: str, inner: str) -> str:
    return f"<{name}>{inner}</{name}>"
