"""Generate documents from the code: the JSON Schemas, the tables of the pages, and the list of runbooks of the site.

`python -m tools.docs.reference` (`make schema`) writes; a test compares. In a page only the table between
`<!-- generated: NAME -->` and `<!-- end -->` is generated, and in the settings of the site the list of runbooks.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import TypeAdapter

from ebbtide.policies import RULES
from ebbtide.preview.dangers import KINDS
from ebbtide.preview.render.as_json import schema_text as preview_schema
from ebbtide.settings.json_schema import base_schema_text, config_schema, json_schema
from ebbtide.settings.json_schema import schema_text as stack_schema
from ebbtide.text.durations import format_duration
from ebbtide.text.files import write_file
from tests.aws.support.page import differences_table, faults_table, forgotten_table
from tests.fidelity.hpa import HpaScenario, likeness, read_recordings
from tests.paths import DATA
from tools.docs.commands import commands
from tools.docs.metrics import (
    ALERTS,
    alert_messages,
    alert_rows,
    exporter_metrics,
    metrics,
    ray_annotations,
    workload_events,
    workload_metrics,
)
from tools.docs.tables import Row, table

ROOT = Path(__file__).parents[2]
SITE = ROOT / "tools" / "docs" / "zensical.toml"
PREVIEW_SCHEMA = ROOT / "docs" / "preview.schema.json"
_BLOCK = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NAVIGATION = re.compile(r"(    # generated: runbooks\n).*?(    # end\n)", re.DOTALL)
_DECISION = re.compile(r"# (\d+)\. (.+)\n\nStatus: (.+) · Date: (\d{4}-\d\d-\d\d)\n")
_NAMED = "<name>"
_MODEL = "ebbtide:workloads"


def documents() -> dict[Path, str]:
    """Return the expected content of the generated files, by path."""
    tables: Mapping[str, Callable[[], str]] = {
        "keys": stack_file_keys,
        "rules": policy_rules,
        "dangers": dangers,
        "commands": commands,
        "metrics": metrics,
        "workload-metrics": workload_metrics,
        "exporter-metrics": exporter_metrics,
        "workload-events": workload_events,
        "alerts": alert_rows,
        "alert-messages": alert_messages,
        "ray-annotations": ray_annotations,
        "decisions": decisions,
        "hpa-likeness": hpa_likeness,
        "aws-differences": differences_table,
        "aws-forgotten": forgotten_table,
        "aws-faults": faults_table,
    }
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if _BLOCK.search(path.read_text(encoding="utf-8"))]

    def filled(match: re.Match[str]) -> str:
        return f"{match[1]}\n{tables[match[2]]()}\n{match[3]}"

    return {
        ROOT / "docs" / "stack.schema.json": stack_schema(),
        ROOT / "docs" / "base.schema.json": base_schema_text(),
        PREVIEW_SCHEMA: preview_schema(PREVIEW_SCHEMA.read_text(encoding="utf-8")),
        SITE: _NAVIGATION.sub(rf"\1{runbooks()}\2", SITE.read_text(encoding="utf-8")),
        **{path: _BLOCK.sub(filled, path.read_text(encoding="utf-8")) for path in pages},
    }


def runbooks() -> str:
    """Return the site's navigation of runbooks: each page with its title, in the order of the alerts."""
    lines: list[str] = []
    for page in dict.fromkeys(alert.runbook for alert in ALERTS):
        title = (ROOT / "docs" / "runbooks" / f"{page}.md").read_text(encoding="utf-8").partition("\n")[0]
        lines.append(f'    {{ "{title.removeprefix("# ")}" = "runbooks/{page}.md" }},\n')
    return "".join(lines)


def policy_rules() -> str:
    rows = [(rule.code, rule.severity.value, rule.title, rule.remedy, rule.source) for rule in RULES]
    return table(("id", "severity", "what holds", "fix", "source"), rows)


def dangers() -> str:
    rows = [(f"`{kind.code}`", " or ".join(kind.severities), kind.title) for _, kind in sorted(KINDS.items())]
    return table(("code", "severity", "what the change does"), rows)


def decisions() -> str:
    """Return the decisions of docs/adr: each begins with its title and a line of status and date."""
    rows: list[Row] = []
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        match = _DECISION.match(path.read_text(encoding="utf-8"))
        if match is None:
            raise ValueError(f"{path.name}: wanted `# 1. Title`, an empty line, `Status: accepted · Date: 2026-01-31`")
        rows.append((match[1], f"[{match[2]}]({path.name})", match[3], match[4]))
    return table(("no.", "decision", "status", "date"), rows)


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
            parts.append(table(("key", "value", "default", "meaning"), special))
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
    if isinstance(default, str) and re.fullmatch(r"PT(\d+H)?(\d+M)?(\d+S)?", default):
        default = format_duration(TypeAdapter(timedelta).validate_python(default))
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


def hpa_likeness() -> str:
    """Compare the modelled HorizontalPodAutoscaler with the real one, from the recordings."""
    rows = [_likeness_row(scenario) for scenario in read_recordings(DATA / "hpa-scenarios" / "recorded.json")]
    heading = ("scenario", "what it shows", "replicas", "looks alike", "model alone", "apart", "takes apart")
    return table(heading, rows)


def _likeness_row(scenario: HpaScenario) -> Row:
    result = likeness(scenario)
    return (
        scenario.name,
        scenario.shows,
        " ".join(map(str, (scenario.first, *result.numbers))),
        f"{result.same} of {result.beats}",
        f"{result.alone_alike} of {len(scenario.takes)}",
        _seconds(result.offset_s),
        _seconds(result.spread_s),
    )


def _seconds(time: float | None) -> str:
    return "other numbers" if time is None else f"{time:.1f} s"


if __name__ == "__main__":
    for document, text in documents().items():
        write_file(document, text)
