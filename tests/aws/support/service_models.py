"""AWS' own models of its services, as botocore brings them: which operation a request is, and what it says.

A request is read by the protocol of its service: the form of EC2, that of the older ones, JSON in a body, JSON and a
path. What the model does not have is kept by the name that it was sent by, for `malformed` to find.
"""

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from tests.aws.support.imitation import PYTHON

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it was recorded."""

    service: str
    method: str
    uri: str
    target: str
    body: bytes

    @classmethod
    def of(cls, line: Json) -> "Sent":
        body = base64.b64decode(line["body"])
        return cls(line["service"], line["method"], line["uri"], line["target"], body)


@cache
def model(service: str) -> Json:
    files = PYTHON.parents[1].glob(f"lib/python*/site-packages/botocore/data/{service}/*/service-2.json.gz")
    return json.loads(gzip.decompress(max(files).read_bytes()))


def operation(sent: Sent) -> str:
    """Its name. Raises LookupError where the service has none that is asked like that."""
    about = model(sent.service)
    if sent.target:
        name = sent.target.rpartition(".")[2]
    elif about["metadata"]["protocol"] == "rest-json":
        name = next((each for each, _ in _by_path(sent)), "")
    else:
        name = dict(parse_qsl(sent.body.decode()))["Action"]
    if name not in about["operations"]:
        raise LookupError(f"{sent.service}: {sent.method} {urlsplit(sent.uri).path} {name} is no operation")
    return name


def input_shape(sent: Sent) -> str:
    return model(sent.service)["operations"][operation(sent)].get("input", {}).get("shape", "")


def values(sent: Sent) -> dict[str, Any]:
    """What is asked, by the names of the members."""
    about = model(sent.service)
    shapes, shape = about["shapes"], input_shape(sent)
    protocol = about["metadata"]["protocol"]
    if protocol in ("query", "ec2"):
        fields = dict(parse_qsl(sent.body.decode(), keep_blank_values=True))
        tree = _tree({key: value for key, value in fields.items() if key not in ("Action", "Version")})
        return _structure(tree, shapes[shape], shapes, protocol == "ec2") if shape else tree
    body: dict[str, Any] = json.loads(sent.body) if sent.body else {}
    return body if protocol == "json" else {**body, **_outside_the_body(sent, shapes[shape], shapes)}


def _by_path(sent: Sent) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The operations with this method and path, the one with the most fixed parts first."""
    operations: Mapping[str, Json] = model(sent.service)["operations"]
    for name, about in sorted(operations.items(), key=lambda each: each[1]["http"]["requestUri"].count("{")):
        form = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(about["http"]["requestUri"]))
        found = re.fullmatch(form, urlsplit(sent.uri).path)
        if found and about["http"]["method"] == sent.method:
            yield name, found.groupdict()


def _outside_the_body(sent: Sent, shape: Json, shapes: Json) -> dict[str, Any]:
    _, parts = next(_by_path(sent))
    query = parse_qs(urlsplit(sent.uri).query, keep_blank_values=True)
    told: dict[str, Any] = {}
    for name, about in shape.get("members", {}).items():
        said = about.get("locationName", name)
        if about.get("location") == "uri":
            told[name] = unquote(parts[said])
        elif about.get("location") == "querystring" and said in query:
            given = query.pop(said)
            kind = shapes[about["shape"]]
            told[name] = given if kind["type"] == "list" else _scalar(given[0], kind)
    return {**told, **query}


def _tree(fields: Mapping[str, str]) -> dict[str, Any]:
    """`A.1.B=x` as {"A": {"1": {"B": "x"}}}."""
    tree: dict[str, Any] = {}
    for key, value in fields.items():
        *way, last = key.split(".")
        at = tree
        for part in way:
            at = at.setdefault(part, {})
        at[last] = value
    return tree


def _read(tree: Any, shape: Json, shapes: Json, ec2: bool) -> Any:
    if not isinstance(tree, dict):
        empty = tree == "" and shape["type"] == "list"  # how an empty list is written
        return [] if empty else _scalar(tree, shape)
    inner = cast("dict[str, Any]", tree)
    if shape["type"] == "structure":
        return _structure(inner, shape, shapes, ec2)
    if shape["type"] == "list":
        about = shape["member"]
        items = inner if ec2 or shape.get("flattened") else inner.get(about.get("locationName", "member"), inner)
        if all(key.isdigit() for key in items):
            kind = shapes[about["shape"]]
            return [_read(items[key], kind, shapes, ec2) for key in sorted(items, key=int)]
    return inner


def _structure(tree: Mapping[str, Any], shape: Json, shapes: Json, ec2: bool) -> dict[str, Any]:
    left, told = dict(tree), dict[str, Any]()
    for name, about in shape["members"].items():
        said = _name(name, about, ec2)
        if said in left:
            told[name] = _read(left.pop(said), shapes[about["shape"]], shapes, ec2)
    return {**left, **told}


def _name(name: str, about: Json, ec2: bool) -> str:
    said = about.get("locationName", name)
    return about.get("queryName", said[0].upper() + said[1:]) if ec2 else said


def _scalar(text: str, shape: Json) -> Any:
    """Text that is no number where one is wanted stays text."""
    if shape["type"] == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if shape["type"] in ("integer", "long") and re.fullmatch(r"-?\d+", text):
        return int(text)
    return text
