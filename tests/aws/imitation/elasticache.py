"""What moto's ElastiCache lacks, from the API reference: groups of parameters, and the end of a subnet group."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from tests.aws.imitation.rest import Answer

_SPACE = "http://elasticache.amazonaws.com/doc/2015-02-02/"


class ElastiCache:
    def __init__(self, account: str) -> None:
        self._account = account
        self._groups: dict[str, dict[str, str]] = {}  # what each says of itself, by its name
        self._parameters: dict[str, dict[str, str]] = {}
        self._tags: dict[str, dict[str, str]] = {}

    def answer(self, region: str, body: bytes) -> Answer | None:
        """None for what moto answers."""
        given = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = given["Action"]
        name = given.get("CacheParameterGroupName", "")
        if action == "DeleteCacheSubnetGroup":
            backend: Any = import_module("moto.elasticache.models").elasticache_backends
            del backend[self._account][region].cache_subnet_groups[given["CacheSubnetGroupName"]]
            return _said(action, "")
        if action == "ListTagsForResource" and ":parametergroup:" in given["ResourceName"]:
            tags = self._tags[given["ResourceName"].rsplit(":", 1)[-1]]
            return _said(action, f"<TagList>{''.join(map(_tag, tags.items()))}</TagList>")
        if action == "CreateCacheParameterGroup":
            self._make(name, given, region)
            return _said(action, _group(self._groups[name]))
        if action not in _ABOUT_GROUPS:
            return None
        if name not in self._groups:
            return _refused("CacheParameterGroupNotFound", f"CacheParameterGroup not found: {name}")
        if action == "DescribeCacheParameterGroups":
            return _said(action, f"<CacheParameterGroups>{_group(self._groups[name])}</CacheParameterGroups>")
        if action == "DescribeCacheParameters":
            return _said(action, f"<Parameters>{''.join(map(_parameter, self._parameters[name].items()))}</Parameters>")
        if action == "ModifyCacheParameterGroup":
            self._modify(name, given)
            return _said(action, f"<CacheParameterGroupName>{name}</CacheParameterGroupName>")
        del self._groups[name]
        return _said(action, "")

    def left(self) -> list[str]:
        return list(self._groups)

    def _make(self, name: str, given: Mapping[str, str], region: str) -> None:
        said = {key: given[key] for key in ("CacheParameterGroupName", "CacheParameterGroupFamily", "Description")}
        arn = f"arn:aws:elasticache:{region}:{self._account}:parametergroup:{name}"
        self._groups[name] = {**said, "IsGlobal": "false", "ARN": arn}
        self._parameters[name] = {}
        self._tags[name] = _pairs(given, "Tags.Tag.", "Key", "Value")

    def _modify(self, name: str, given: Mapping[str, str]) -> None:
        pairs = _pairs(given, "ParameterNameValues.ParameterNameValue.", "ParameterName", "ParameterValue")
        self._parameters[name].update(pairs)


_ABOUT_GROUPS = frozenset(
    {
        "DescribeCacheParameterGroups",
        "DescribeCacheParameters",
        "ModifyCacheParameterGroup",
        "DeleteCacheParameterGroup",
    }
)


def _pairs(given: Mapping[str, str], prefix: str, name: str, value: str) -> dict[str, str]:
    """Of a list that is written as `prefix1.name`, `prefix1.value`, `prefix2.name`…"""
    names = [key for key in given if key.startswith(prefix) and key.endswith(f".{name}")]
    return {given[key]: given[key.removesuffix(name) + value] for key in names}


def _group(said: Mapping[str, str]) -> str:
    return "<CacheParameterGroup>" + "".join(map(_element, said.items())) + "</CacheParameterGroup>"


def _parameter(pair: tuple[str, str]) -> str:
    said = {"ParameterName": pair[0], "ParameterValue": pair[1], "Source": "user", "IsModifiable": "true"}
    return "<Parameter>" + "".join(map(_element, said.items())) + "</Parameter>"


def _tag(pair: tuple[str, str]) -> str:
    return f"<Tag>{_element(('Key', pair[0]))}{_element(('Value', pair[1]))}</Tag>"


def _element(pair: tuple[str, str]) -> str:
    return f"<{pair[0]}>{escape(pair[1])}</{pair[0]}>"


def _said(action: str, result: str) -> Answer:
    text = f'<{action}Response xmlns="{_SPACE}"><{action}Result>{result}</{action}Result></{action}Response>'
    return Answer(text.encode(), "text/xml")


def _refused(code: str, message: str) -> Answer:
    text = f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return Answer(f"{text}</ErrorResponse>".encode(), "text/xml", "404 Not Found")
