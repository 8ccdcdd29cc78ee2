"""Write the schema of a PodSpec for the checks of `pod:` in the stack file, from Kubernetes' own sources.

Run it when Ebbtide supports a new minor: `python tools/pod_schema.py`. It needs Go, which fetches the sources as
modules. It reads three of them:

- the published OpenAPI has fields, types and the keys of lists;
- the generated OpenAPI in Go has the enumerations, which the published one lacks;
- the documentation of `k8s.io/api` of each older minor shows which fields are newer than that minor.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KUBERNETES = "v1.36.3"
OLDER = ("v0.35.0", "v0.34.0", "v0.33.0")  # of k8s.io/api, the newest first
TARGET = Path(__file__).parents[1] / "ebbtide" / "settings" / "fragment" / "data" / "pod-spec.json"

_ROOT = "io.k8s.api.core.v1.PodSpec"
_PLAIN = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "anything",
}
# Types that Go embeds in others, which get their fields.
_EMBEDDED = {
    "Volume": "VolumeSource",
    "Probe": "ProbeHandler",
    "EphemeralContainer": "EphemeralContainerCommon",
}
_BEHIND_A_GATE = {"Toleration": {"Gt", "Lt"}}  # values of alpha features, which EKS disables
_FUNCTION = re.compile(r"func schema_(\w+)\(")
_OF_CORE = "k8sio_api_core_v1_"
_PROPERTY = re.compile(r'\t{5}"([^"]+)": \{$')
_ENUM = re.compile(r"Enum:\s+\[\]interface\{\}\{(.*)\}")
_DOCUMENTED = re.compile(r"^var map_(\w+) = map\[string\]string\{$(.*?)^\}", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r'^\t"(\w+)":', re.MULTILINE)


def module(name: str) -> Path:
    """Return the folder of a module's files."""
    answer = subprocess.run(["go", "mod", "download", "-json", name], check=True, capture_output=True, text=True)
    return Path(json.loads(answer.stdout)["Dir"])


def reached(definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return every type that a PodSpec contains, by full name."""
    types: dict[str, Any] = {}
    waiting = [_ROOT]
    while waiting:
        name = waiting.pop()
        if name not in types and name not in _PLAIN:
            types[name] = definitions[name]
            waiting += re.findall(r'"#/definitions/([^"]+)"', json.dumps(definitions[name]))
    return types


def enumerations(text: str) -> dict[tuple[str, str], list[str]]:
    values: dict[tuple[str, str], list[str]] = {}
    owner = field = ""
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            owner = match[1].removeprefix(_OF_CORE)
        elif match := _PROPERTY.match(line):
            field = match[1]
        elif match := _ENUM.search(line):
            gated = _BEHIND_A_GATE.get(owner, set())
            values[owner, field] = [value for value in json.loads(f"[{match[1]}]") if value not in gated]
    return values


def documented(api: Path) -> set[tuple[str, str]]:
    text = (api / "core" / "v1" / "types_swagger_doc_generated.go").read_text(encoding="utf-8")
    return {(owner, field) for owner, body in _DOCUMENTED.findall(text) for field in _KEY.findall(body)}


def newer() -> dict[tuple[str, str], str]:
    """Return, by type and field, the first minor of fields that the oldest supported one lacks."""
    since: dict[tuple[str, str], str] = {}
    later, minor = documented(module(f"k8s.io/api@v0.{KUBERNETES.removeprefix('v1.')}")), _minor(KUBERNETES)
    for version in OLDER:
        earlier = documented(module(f"k8s.io/api@{version}"))
        since |= dict.fromkeys(later - earlier, minor)
        later, minor = earlier, _minor(version)
    return since


def _minor(version: str) -> str:
    return f"1.{version.split('.')[1]}"


def type_of(node: Mapping[str, Any]) -> str:
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/definitions/")
        return _PLAIN.get(name) or name.rpartition(".")[2]
    if node["type"] == "array":
        return f"[]{type_of(node['items'])}"
    if node["type"] == "object":
        return f"{{}}{type_of(node['additionalProperties'])}"
    return str(node["type"])


def fields(
    name: str,
    definition: Mapping[str, Any],
    enums: Mapping[tuple[str, str], list[str]],
    since: Mapping[tuple[str, str], str],
) -> Iterator[tuple[str, Any]]:
    embedded = _EMBEDDED.get(name, "")
    for field, node in sorted(definition.get("properties", {}).items()):
        facts: dict[str, Any] = {"type": type_of(node)}
        if values := enums.get((name, field)) or enums.get((embedded, field)):
            facts["enum"] = values
        if first := since.get((name, field)) or since.get((embedded, field)):
            facts["since"] = first
        if keys := node.get("x-kubernetes-list-map-keys"):
            facts["keys"] = keys
        yield field, facts if len(facts) > 1 else facts["type"]


def schema() -> dict[str, Any]:
    sources = module(f"k8s.io/kubernetes@{KUBERNETES}")
    published = json.loads((sources / "api" / "openapi-spec" / "swagger.json").read_text(encoding="utf-8"))
    generated = sources / "pkg" / "generated" / "openapi" / "zz_generated.openapi.go"
    enums, since = enumerations(generated.read_text(encoding="utf-8")), newer()
    types: dict[str, Any] = {}
    for full, definition in sorted(reached(published["definitions"]).items()):
        name = full.rpartition(".")[2]
        types[name] = {"fields": dict(fields(name, definition, enums, since))}
        if required := definition.get("required"):
            types[name]["required"] = required
    return {"kubernetes": _minor(KUBERNETES), "types": types}


if __name__ == "__main__":
    TARGET.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
