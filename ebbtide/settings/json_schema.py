"""The JSON Schema of a stack file, generated from the settings' models, for completion and checks in editors.

It covers single values. `ebbtide check` covers relations between values.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

import yaml

from ebbtide.settings.file.document import OURS, PULUMI_KEYS
from ebbtide.settings.file.keys import HOURS, REDIS_PASSWORD
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.secrets import DIGEST_KEY, SET_DIGEST_KEY
from ebbtide.settings.sections.serving.services import INHERITED, ServiceSettings, VariantSettings

_NOT_IN_THE_FILE = ("stack", "region", "redisPasswordSet")
_REQUIRED = (OURS + "customer", HOURS)
_SECRET: dict[str, Any] = {
    "type": "object",
    "required": ["secure"],
    "additionalProperties": False,
    "properties": {"secure": {}},
}


def json_schema() -> dict[str, Any]:
    """Return the schema of a stack file: `config:` and the keys that Pulumi writes."""
    generated = StackSettings.model_json_schema(by_alias=True)
    definitions = cast("dict[str, dict[str, Any]]", generated["$defs"])
    fields = cast("dict[str, dict[str, Any]]", generated["properties"])
    sections = {OURS + name: field for name, field in fields.items() if name not in _NOT_IN_THE_FILE}
    definitions[NodeGroupSettings.__name__]["required"] = []  # every key has a default by kind
    _take_keys_of_variants(definitions[ServiceSettings.__name__], definitions[VariantSettings.__name__])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Ebbtide stack file",
        "type": "object",
        "required": ["config"],
        "additionalProperties": False,
        "properties": {
            "config": {
                "type": "object",
                "required": list(_REQUIRED),
                "additionalProperties": False,
                "properties": _tidy(sections)
                | {
                    REDIS_PASSWORD: {"description": "set with: pulumi config set --secret"} | _SECRET,
                    DIGEST_KEY: {"description": f"set with: {SET_DIGEST_KEY}"} | _SECRET,
                },
                "patternProperties": {"^(aws|pulumi):": {}, "^(?!ebbtide:|aws:|pulumi:)[^:]+:": _SECRET},
            },
            **{key: {"type": "string"} for key in PULUMI_KEYS},
        },
        "$defs": _tidy(definitions),
    }


def schema_text() -> str:
    """Return the text of docs/stack.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


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
