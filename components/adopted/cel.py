"""Parts of the policies for adopted pods: CEL expressions as text, and the namespaces."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ebbtide.settings.sections.adopted import AdoptedSettings

if TYPE_CHECKING:
    from pulumi_kubernetes.admissionregistration.v1 import MatchResourcesArgsDict, VariableArgsDict

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def text(value: str) -> str:
    """Quote a string. CEL reads JSON's escapes, except surrogate pairs, so non-ASCII characters stay unescaped."""
    return json.dumps(value, ensure_ascii=False)


def texts(values: Iterable[str]) -> str:
    return f"[{', '.join(map(text, values))}]"


def labels(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{text(key)}: {text(value)}" for key, value in sorted(values.items())) + "}"


def one_of(subject: str, values: Iterable[str]) -> str:
    """Return a condition: `subject` equals one of the values, of which there is at least one."""
    values = list(values)
    return f"{subject} == {text(values[0])}" if len(values) == 1 else f"{subject} in {texts(values)}"


def choice(cases: Iterable[tuple[str, str]], otherwise: str) -> str:
    """Return an expression for the value of the first case whose condition holds, with one line for each case."""
    return "".join(f"{condition} ? {value} :\n" for condition, value in cases) + otherwise


def rule_variables(conditions: Mapping[str, str]) -> "list[VariableArgsDict]":
    """Return one variable for each rule's condition, and `rule`: the name of the matching rule, or an empty string.

    A single expression for many rules takes the API server seconds to compile, and may exceed its limit of 100,000
    characters.
    """
    variables = {name: f"is_{name.replace('-', '_')}" for name in sorted(conditions)}
    cases = ((f"variables.{variable}", text(name)) for name, variable in variables.items())
    return [
        *({"name": variable, "expression": conditions[name]} for name, variable in variables.items()),
        {"name": "rule", "expression": choice(cases, text(""))},
    ]


def by_rule(values: Mapping[str, str], otherwise: str) -> str:
    """Return an expression for the value of the pod's rule. Rules with the same value share a line."""
    rules: dict[str, list[str]] = {}
    for rule, value in sorted(values.items()):
        rules.setdefault(value, []).append(rule)
    return choice(((one_of("variables.rule", names), value) for value, names in rules.items()), otherwise)


def adopted_namespaces(rules: Mapping[str, AdoptedSettings]) -> "MatchResourcesArgsDict":
    """Match objects of the rules' namespaces, by name."""
    names = sorted({rule.namespace for rule in rules.values()})
    name_label = "kubernetes.io/metadata.name"
    return {"namespace_selector": {"match_expressions": [{"key": name_label, "operator": "In", "values": names}]}}


def add(path: str, value: str) -> str:
    return f'JSONPatch{{op: "add", path: {text(path)}, value: {value}}}'


def present(field: str, empty: str) -> str:
    """Return patches that create an optional field of the pod: a patch cannot add to a field that does not exist."""
    path = "/" + field.replace("?", "").replace(".", "/")
    return f"(object.{field}.hasValue() ? [] : [{add(path, empty)}])"
