"""The JSON Schemas of stack files and bases, generated from the settings' models, for completion and checks in editors.

They cover single values. `ebbtide check` covers relations between values.

A base and a stack file with a base may leave out any key, or remove it with null. A list replaces a base's list, so its
items are complete.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, cast

import yaml
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import SchemaSerializer
from pydantic_core.core_schema import WithDefaultSchema

from ebbtide.settings.file.bases import OF_ONE_STACK
from ebbtide.settings.file.document import OURS, PULUMI_KEYS
from ebbtide.settings.file.keys import BASE, DIGEST_KEY, HOURS, REDIS_PASSWORD
from ebbtide.settings.file.problems import PLACEHOLDER
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.redis import SET_TOKEN
from ebbtide.settings.sections.secrets import SET_DIGEST_KEY
from ebbtide.settings.sections.serving.services import INHERITED, ServiceSettings, VariantSettings
from ebbtide.settings.sections.shapes import NodeSetShape

_NOT_IN_THE_FILE = ("stack", "region", "regionSet", "redisPasswordSet")
_REQUIRED = (OURS + "customer", HOURS)
_SECRET: dict[str, Any] = {
    "type": "object",
    "required": ["secure"],
    "additionalProperties": False,
    "properties": {"secure": {}},
}
_STACK_FILE, _BASE_FILE = "stack.schema.json", "base.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BASES: dict[str, Any] = {
    "description": "files whose values this file overrides, as a path or a list of paths from the stack file's folder; "
    "mappings merge, other values replace, null removes, and a later file wins",
    "examples": ["bases/production.yaml"],
    "anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string", "minLength": 1}}],
}


class _AsWritten(GenerateJsonSchema):
    """States defaults in the notation of the file: `20Gi`, `2m`. A section's default follows from its keys.

    An optional field whose absence has the effect of a value states that value in its `json_schema_extra`.
    """

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        default = self.get_default_value(schema)
        if isinstance(default, int | float | timedelta):
            written = SchemaSerializer(schema["schema"]).to_python(default, mode="json")
            described["default"] = written if isinstance(written, str) else described["default"]
        if isinstance(default, BaseModel):
            del described["default"]
        return described


def json_schema() -> dict[str, Any]:
    """Return the schema of a stack file: `config:` and the keys that Pulumi writes."""
    generated = StackSettings.model_json_schema(by_alias=True, schema_generator=_AsWritten)
    definitions = cast("dict[str, dict[str, Any]]", generated["$defs"])
    fields = cast("dict[str, dict[str, Any]]", generated["properties"])
    sections = {OURS + name: field for name, field in fields.items() if name not in _NOT_IN_THE_FILE}
    definitions[NodeGroupSettings.__name__]["required"] = []  # every key has a default by kind
    definitions[NodeSetShape.__name__]["required"] = ["max"]  # a list of types has the sizes
    _take_keys_of_variants(definitions[ServiceSettings.__name__], definitions[VariantSettings.__name__])
    return {
        "$schema": _DIALECT,
        "title": "Ebbtide stack file",
        "type": "object",
        "required": ["config"],
        "additionalProperties": False,
        "properties": {
            "config": {
                "if": {"required": [BASE]},
                "then": {"$ref": f"{_BASE_FILE}#/$defs/stack"},
                "else": {
                    "type": "object",
                    "required": list(_REQUIRED),
                    "additionalProperties": False,
                    "properties": {BASE: _BASES}
                    | _tidy(sections)
                    | {
                        REDIS_PASSWORD: {
                            "description": f"set with: {SET_TOKEN}; until then {{ secure: {PLACEHOLDER} }}"
                        }
                        | _SECRET,
                        DIGEST_KEY: {"description": f"set with: {SET_DIGEST_KEY}"} | _SECRET,
                    },
                    "patternProperties": {"^(aws|pulumi):": {}, "^(?!ebbtide:|aws:|pulumi:)[^:]+:": _SECRET},
                },
            },
            **{key: {"type": "string"} for key in PULUMI_KEYS},
        },
        "$defs": _tidy(definitions),
    }


def config_schema(stack_schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of `config:` in a stack file without a base."""
    return cast("dict[str, Any]", stack_schema["properties"]["config"]["else"])


def base_schema() -> dict[str, Any]:
    """Return the schema of a base; `$defs/stack` is the schema of `config:` in a stack file with a base."""
    whole = json_schema()
    config = config_schema(whole)
    stack: dict[str, Any] = {**_partial(config), "required": [OURS + "customer"]}
    shared = {key: value for key, value in stack["properties"].items() if key not in OF_ONE_STACK}
    return {
        "$schema": _DIALECT,
        "title": "Ebbtide base of stack files",
        "type": "object",
        "required": ["config"],
        "additionalProperties": False,
        "properties": {"config": {"type": "object", "additionalProperties": False, "properties": shared}},
        "$defs": {"stack": stack, **{name: _partial(definition) for name, definition in whole["$defs"].items()}},
    }


def _partial(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema for a part of the values; null removes a value."""
    partial: dict[str, Any] = {}
    for key, value in schema.items():
        match key:
            case "required" | "minProperties":
                continue
            case "properties" | "patternProperties":
                partial[key] = {name: _or_null(inner) for name, inner in value.items()}
            case "additionalProperties":
                partial[key] = _or_null(value)
            case "anyOf":
                partial[key] = [_partial(choice) for choice in value]
            case "items":
                partial[key] = json.loads(json.dumps(value).replace('"#/', f'"{_STACK_FILE}#/'))
            case _:
                partial[key] = value
    return partial


def _or_null(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    return {"anyOf": [_partial(cast("Mapping[str, Any]", schema)), {"type": "null"}]}


@cache
def schema_text() -> str:
    """Return the text of docs/stack.schema.json."""
    return _text(json_schema())


@cache
def base_schema_text() -> str:
    """Return the text of docs/base.schema.json."""
    return _text(base_schema())


def _text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _take_keys_of_variants(service: dict[str, Any], variant: dict[str, Any]) -> None:
    """Let a service set the keys of a pod for all its variants, so that no variant requires them."""
    keys = cast("dict[str, Any]", variant["properties"])
    service["properties"] |= {key: keys[key] for key in keys if key in INHERITED}
    variant["required"] = []


def _tidy(node: Any) -> Any:
    """Drop generated titles, which repeat the keys; turn examples into values; close mappings with named keys."""
    if isinstance(node, list):
        return [_tidy(inner) for inner in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    mapping = cast("Mapping[str, Any]", node)
    tidy = {
        key: [yaml.safe_load(example) if isinstance(example, str) else example for example in value]
        if key == "examples"
        else _tidy(value)
        for key, value in mapping.items()
        if not (key == "title" and isinstance(value, str))
    }
    if "patternProperties" in tidy and tidy.get("type") == "object":
        tidy["additionalProperties"] = False  # a name that does not match is an error, not an extra
    return tidy
