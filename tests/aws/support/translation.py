"""From what the program registered to what Terraform would hand the provider: other names and nesting, equal values.

Pulumi's AWS provider is HashiCorp's under other names: camelCase, a plural where a block may be repeated, no list
around a block that may come once. All of it follows from the schema: there is no table to keep, but for one type.

Terraform refuses some faults before it asks a provider: unknown names, missing ones, too many blocks. Here they are
found on the way.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ebbtide.recording.answers import identifier
from ebbtide.recording.record import SECRET
from ebbtide.recording.record import UNKNOWN as NOT_KNOWN
from ebbtide.recording.resources import Resource, short_type
from tests.aws.support.messagepack import UNKNOWN
from tests.aws.support.provider import Complaint
from tests.aws.support.schema import Attribute, Block, Nested

_OTHER_TYPES = {"aws:autoscaling/tag:Tag": "aws_autoscaling_group_tag"}
_NAMES = ("name", "replication_group_id")
"""What Pulumi fills in from a resource's own name and seven random digits, where the program gives neither the name nor
its beginning."""
_PREFIXES = {"name": "name_prefix"}
_RANDOM = 7
_ID_BEGINS = {
    "LaunchTemplate": "lt",
    "SecurityGroup": "sg",
    "RouteTable": "rtb",
    "InternetGateway": "igw",
    "NatGateway": "nat",
}


def terraform_type(type_: str, schemas: Mapping[str, Block]) -> str:
    """`aws:eks/nodeGroup:NodeGroup` is `aws_eks_node_group`; EC2's own resources have no service in their name."""
    service, name = type_.split(":")[1].split("/")
    both, alone = f"aws_{service}_{_snake(name)}", f"aws_{_snake(name)}"
    found = _OTHER_TYPES.get(type_) or (both if both in schemas else alone)
    if found not in schemas:
        raise LookupError(f"{type_}: the provider has neither {both} nor {alone}")
    return found


@dataclass
class Translated:
    """A resource's configuration, and what Terraform would say of it before the provider is asked."""

    config: dict[str, Any] = field(default_factory=dict[str, Any])
    complaints: list[Complaint] = field(default_factory=list[Complaint])
    unnamed: list[str] = field(default_factory=list[str])  # the names that Pulumi fills in


def translated(resource: Resource, block: Block, ids: Mapping[str, str]) -> Translated:
    """`ids` are those of `ids_of_aws`."""
    told = Translated()
    told.config = _object(_replaced(resource.inputs, ids), block, "", told.complaints)
    told.unnamed = list(_unnamed(told.config, block))
    told.config |= dict.fromkeys(told.unnamed, _made_name(resource))
    missing = [name for name, about in block.attributes.items() if about.required and told.config[name] is None]
    told.complaints += [Complaint(name, "is required") for name in missing]
    return told


def names_of_inputs(inputs: Iterable[str], block: Block) -> dict[str, str]:
    """The provider's name of each input that it knows."""
    found = {key: _name_of(key, block) for key in inputs}
    return {key: name for key, name in found.items() if name}


def ids_of_aws(resources: Iterable[Resource]) -> dict[str, str]:
    """By the id that the recording invented, one in the form that AWS gives.

    The trap is to mark them as not known yet, as Terraform does before the first `apply`: the provider then leaves out
    the whole block around them, and says nothing of the values beside.
    """
    return {identifier(each.type, each.name): _id(each) for each in resources}


def _id(resource: Resource) -> str:
    kind = short_type(resource.type)
    digits = hashlib.sha256(resource.urn.encode()).hexdigest()
    return f"{_ID_BEGINS.get(kind, _snake(kind))}-0{digits[:16]}"


def _replaced(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _replaced(each, ids) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_replaced(each, ids) for each in cast("list[Any]", value)]
    return ids.get(value, value) if isinstance(value, str) else value


def _unnamed(config: Mapping[str, Any], block: Block) -> Iterator[str]:
    """Neither they nor what they begin with is given."""
    for name in _NAMES:
        about = block.attributes.get(name)
        if about and about.settable and config[name] is None and config.get(_PREFIXES.get(name, "")) is None:
            yield name


def _made_name(resource: Resource) -> str:
    digits = hashlib.sha256(resource.urn.encode()).hexdigest()[:_RANDOM]
    return f"{resource.name}-{digits}"


def _object(inputs: Mapping[str, Any], block: Block, path: str, told: list[Complaint]) -> dict[str, Any]:
    given = dict(_renamed(inputs, block, path, told))
    config: dict[str, Any] = {}
    for name, about in block.attributes.items():
        value = given.get(name)
        if value is not None and not about.settable:
            told.append(Complaint(f"{path}{name}", "is the provider's to say"))
        config[name] = None if value is None else _value(value, about.type, f"{path}{name}", told)
        if path and about.required and value is None:
            told.append(Complaint(f"{path}{name}", "is required"))
    for name, nested in block.blocks.items():
        config[name] = _blocks(given.get(name), nested, f"{path}{name}", told)
    return config


def _renamed(inputs: Mapping[str, Any], block: Block, path: str, told: list[Complaint]) -> Iterator[tuple[str, Any]]:
    for key, value in inputs.items():
        name = _name_of(key, block)
        if name is None:
            told.append(Complaint(f"{path}{_snake(key)}", "there is no such property"))
        else:
            yield name, value


def _name_of(key: str, block: Block) -> str | None:
    return next((each for each in _candidates(key) if each in block.attributes or each in block.blocks), None)


def _candidates(key: str) -> Iterator[str]:
    name = _snake(key)
    yield name
    if name.endswith("ies"):
        yield f"{name[:-3]}y"
    if name.endswith("es"):
        yield name[:-2]
    if name.endswith("s"):
        yield name[:-1]


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).lower()


def _blocks(value: Any, nested: Nested, path: str, told: list[Complaint]) -> Any:
    if value is None:
        items: list[Any] = []
    else:
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if len(items) < nested.least or (nested.most and len(items) > nested.most):
        told.append(Complaint(path, f"{len(items)} of it, wanted {nested.least} to {nested.most or 'any number'}"))
    objects = [_nested(item, nested, path, told) for item in items]
    return (objects[0] if objects else None) if nested.single else objects


def _nested(item: Any, nested: Nested, path: str, told: list[Complaint]) -> Any:
    if not isinstance(item, Mapping):
        if item != NOT_KNOWN:
            told.append(Complaint(path, f"wanted a mapping, found {item!r}"))
        return UNKNOWN
    return _object(cast("Mapping[str, Any]", item), nested.block, f"{path}.", told)


def _value(value: Any, kind: Any, path: str, told: list[Complaint]) -> Any:
    """As the type has it. Text stands for numbers and truth in Pulumi too; a mark for what is not known stays one."""
    if value in (SECRET, NOT_KNOWN):
        return UNKNOWN
    if isinstance(kind, list):
        return _collection(value, cast("list[Any]", kind), path, told)
    made = _scalar(value, kind)
    if made is None:
        told.append(Complaint(path, f"wanted a {kind}, found {value!r}"))
        return UNKNOWN
    return made


def _collection(value: Any, kind: list[Any], path: str, told: list[Complaint]) -> Any:
    shape, inner = kind
    if shape in ("list", "set"):
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        return [_value(item, inner, path, told) for item in items]
    if not isinstance(value, Mapping):
        told.append(Complaint(path, f"wanted a mapping, found {value!r}"))
        return UNKNOWN
    given = cast("Mapping[str, Any]", value)
    if shape == "map":
        return {key: _value(each, inner, f"{path}.{key}", told) for key, each in given.items()}
    block = Block(
        {name: Attribute(each, required=False, settable=True, computed=False) for name, each in inner.items()}, {}
    )
    return _object(given, block, f"{path}.", told)


def _scalar(value: Any, kind: str) -> Any:
    if kind == "string":
        return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, str | int) else None
    if kind == "bool":
        return {"true": True, "false": False}.get(str(value).lower())
    number = re.fullmatch(r"-?\d+(\.\d+)?", str(value))
    return None if number is None else float(value) if number[1] else int(value)
