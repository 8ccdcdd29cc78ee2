"""The keys of a stack file as tables, from the JSON Schema that editors use and from what `check` refuses."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import yaml

from ebbtide.settings.json_schema import config_schema, json_schema
from ebbtide.settings.sections.existing import CLUSTER, EXISTING, misplaced
from tools.docs.tables import Row, table

FURTHER_KEYS = "further-keys"
_NAMED = "<name>"
_MODEL = "ebbtide:workloads"
_HEADING = ("key", "value", "default", "meaning")
_SECTION = re.compile(r"^## `(ebbtide:\w+)`(.*)$", re.MULTILINE)
_KEY = re.compile(r"`(\w+)[.\w]*`")
_FIRST_COLUMN = re.compile(r"^\| (.+?) \|", re.MULTILINE)
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)


def stack_file_keys() -> str:
    """Return one table per section of a stack file, from the JSON Schema that editors use.

    A key that a section shares with workloads is explained only there; the section lists its name.
    """
    schema = json_schema()
    config = config_schema(schema)
    parts: list[str] = []
    entry = f"{_NAMED}."
    workloads = _rows(_plain(config["properties"][_MODEL], schema), schema, "")
    same = {(key.strip("`").removeprefix(entry), *rest) for key, *rest in workloads}
    for name, node in cast("dict[str, dict[str, Any]]", config["properties"]).items():
        required = "required" if name in config["required"] else "optional"
        about = _plain(node, schema)
        parts.append(f"## `{name}`\n\n{_sentence(about.get('description', ''))}({required})\n")
        rows = list(_rows(about, schema, ""))
        shared = {} if name == _MODEL else {row: place for row in rows if (place := _place_of(row, same)) is not None}
        if special := [row for row in rows if row not in shared]:
            parts.append(table(_HEADING, special))
        for place in dict.fromkeys(shared.values()):
            names = dict.fromkeys(
                row[0].strip("`").removeprefix(place).split(".")[0].split("[")[0]
                for row in shared
                if shared[row] == place
            )
            listed = ", ".join(f"`{key}`" for key in names)
            parts.append(
                f"\nUnder `{place.rstrip('.')}` these are as for [workloads](#{_MODEL.replace(':', '')}): {listed}.\n"
            )
    return "\n".join(parts)


def _place_of(row: Row, same: Collection[tuple[str, ...]]) -> str | None:
    """Return the prefix of a key's path if the rest is a workload's key with the same description."""
    path, *rest = row[0].strip("`"), *row[1:]
    starts = [0, *(at + 1 for at, letter in enumerate(path) if letter == ".")]
    return next((path[:at] for at in starts if at and (path[at:], *rest) in same), None)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}. " if text else ""


def _plain(node: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve a node's reference, and drop the `null` of an optional value."""
    choices = [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
    merged: dict[str, Any] = {**node, **(choices[0] if len(choices) == 1 else {})}
    if "$ref" not in merged:
        return merged
    target = cast("dict[str, Any]", schema["$defs"][merged.pop("$ref").rsplit("/", 1)[-1]])
    return {**_plain(target, schema), **merged}


def _rows(node: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[Row]:
    """Yield the keys below a node, nested ones included: `holidays.country`, `<name>.image`, `[].policy`."""
    for inner in node.get("patternProperties", {}).values():
        yield from _rows(_plain(inner, schema), schema, f"{path}{_NAMED}.")
    if isinstance(items := node.get("items"), Mapping):
        yield from _rows(_plain(cast("Mapping[str, Any]", items), schema), schema, f"{path.removesuffix('.')}[].")
    for key, value in node.get("properties", {}).items():
        if key == "secure":  # Pulumi writes it for a secret, people do not
            continue
        about = _plain(value, schema)
        default = "required" if key in node.get("required", ()) else _default(about)
        yield f"`{path}{key}`", _value(about, schema), default, _meaning(about)
        yield from _rows(about, schema, f"{path}{key}.")


def _default(about: Mapping[str, Any]) -> str:
    default = about.get("default")
    if default in (None, "", [], {}) or isinstance(default, Mapping):
        return "none"
    return f"`{_yaml(default)}`"


def _yaml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_yaml(item) for item in cast('list[object]', value))}]"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return f"{{ {', '.join(f'{key}: {_yaml(inner)}' for key, inner in pairs)} }}"
    text = str(value).partition("\n")[0]
    if not text.isprintable():
        return json.dumps(text)
    return f'"{text}"' if ":" in text or not isinstance(yaml.safe_load(text), type(value)) else text


def _value(about: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "enum" in about:
        return ", ".join(f"`{_yaml(value)}`" for value in about["enum"])
    if "anyOf" in about:
        kinds = [_value(_plain(choice, schema), schema) for choice in about["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if about.get("type") == "array":
        items = _plain(about.get("items", {}), schema)
        return "list" if "properties" in items else f"list of {_value(items, schema)}"
    if about.get("type") == "integer" and {"minimum", "maximum"} <= about.keys() and about["maximum"] < 1_000_000:
        return f"{about['minimum']} to {about['maximum']}"
    return {"string": "text", "integer": "whole number", "boolean": "`true`, `false`", "object": "mapping"}.get(
        about.get("type", ""), "number"
    )


def _meaning(about: Mapping[str, Any]) -> str:
    examples = "; ".join(f"`{_yaml(example)}`" for example in about.get("examples", ())[:1])
    return f"{about.get('description', '')}{f' (for example {examples})' if examples else ''}"


def further_keys(page: str, position: int) -> str:
    """Return a table of the keys that the hand-written tables of the section around this position lack.

    A section may have one heading for EKS and one for existing clusters: a key is listed where it has an effect.
    """
    headings = list(_SECTION.finditer(page))
    section, of_clusters = next(heading.groups() for heading in reversed(headings) if heading.start() < position)
    texts = [page[heading.end() :].partition("\n## ")[0] for heading in headings if heading[1] == section]
    cells = [cell for text in texts for cell in _FIRST_COLUMN.findall(_GENERATED.sub("", text))]
    explained = {key for cell in cells for key in _KEY.findall(cell)}
    without_effect = _without_effect(EXISTING if EXISTING in of_clusters else "eks", node_pools=True)
    schema = json_schema()
    rows: list[Row] = []
    for path, *rest in _rows(_plain(config_schema(schema)["properties"][section], schema), schema, ""):
        below_name = path.replace(f"`{_NAMED}.", "`")
        key = re.split(r"\W", below_name.strip("`"), maxsplit=1)[0]
        if key not in explained and (section, key) not in without_effect:
            rows.append((below_name, *rest))
    return f"Further keys:\n\n{table(_HEADING, rows)}" if rows else ""


def refused_on_existing_clusters() -> str:
    """Return a table of the keys that `check` refuses on an existing cluster, with its reasons."""
    always = _without_effect(EXISTING, node_pools=True)
    reasons: dict[str, list[str]] = {}
    for at, reason in _without_effect(EXISTING, node_pools=False).items():
        key = f"`{'.'.join(at)}`" if len(at) == 1 else f"`{'.'.join(at).removeprefix('ebbtide:')}`"
        reasons.setdefault(reason, []).append(key if at in always else f"{key} without `cluster.nodePools`")
    return table(("refused", "why"), [(", ".join(keys), reason) for reason, keys in reasons.items()])


def _without_effect(kind: str, *, node_pools: bool) -> dict[tuple[str, ...], str]:
    """Return the keys that `check` refuses for this kind of cluster, with its reasons."""
    schema = json_schema()
    sections: dict[str, Any] = config_schema(schema)["properties"]
    config = {name: dict.fromkeys(_plain(node, schema).get("properties", ()), True) for name, node in sections.items()}
    cluster: dict[str, Any] = {**config[CLUSTER], "kind": kind}
    if not node_pools:
        del cluster["nodePools"]
    findings = misplaced({**config, CLUSTER: cluster}, cluster_keys=frozenset(config[CLUSTER]))
    return {tuple(map(str, finding.at)): finding.hint for finding in findings}
