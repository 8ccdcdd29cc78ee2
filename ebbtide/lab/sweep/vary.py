"""`--vary 'KEY=v1,v2'`: values that replace a stack file's values in turn.

A key is a path below `config:` without the prefix: `workers.*.stabilizationWindow`, `nodeGroups.gpu.instanceTypes`,
`controller.closingGuard`. `*` matches every name that the stack has there. A key without a dot is a key of every pool:
`max` is `workers.*.max`. Values are written as in the file, a list or a mapping in one line: `[m7i.2xlarge]`.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias, cast

from ebbtide.settings.file.document import OURS, read_document
from ebbtide.settings.file.keys import KEYS
from ebbtide.settings.file.problems import did_you_mean
from ebbtide.settings.sections.workers import WorkerSettings

ALL = "*"
EXAMPLE = "--vary 'stabilizationWindow=30s,60s,2m'"
UNREAD = ("customer", "network", "images", "egress", "secrets", "redisPassword", "exceptions", "monitoring")
"""Sections that no replay reads."""
_SECTIONS = tuple(key.removeprefix(OURS) for key in KEYS)
_POOL_KEYS = tuple(field.alias or name for name, field in WorkerSettings.model_fields.items())


class CannotVary(ValueError):
    """The key or its values cannot be varied. The message is one line."""


@dataclass(frozen=True, slots=True)
class Vary:
    key: str
    path: tuple[str, ...]
    values: tuple[object, ...]
    texts: tuple[str, ...]  # of the values, as written


@dataclass(frozen=True, slots=True)
class Value:
    key: str
    path: tuple[str, ...]
    value: object
    text: str

    def __str__(self) -> str:
        return f"{self.key}={self.text}"


Setting: TypeAlias = tuple[Value, ...]
"""One value for each varied key; empty: the unchanged stack."""


def label(setting: Setting) -> str:
    return ", ".join(map(str, setting)) or "as it is"


def settings_of(varied: Sequence[Vary]) -> list[Setting]:
    """Every combination, in the order of the options."""
    values = (
        [Value(vary.key, vary.path, *value) for value in zip(vary.values, vary.texts, strict=True)] for vary in varied
    )
    return list(product(*values))


def read_vary(text: str) -> Vary:
    """Raises `CannotVary`."""
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not key or not values:
        raise CannotVary(f"--vary: wanted KEY=VALUE,VALUE…, found {text!r} (for example {EXAMPLE})")
    path = _path(key)
    document = read_document(f"config: {{ {OURS}values: [{values}\n] }}", "")
    if document.problems:
        raise CannotVary(
            f"--vary {key}: wanted values as a stack file has them, separated by commas, found {values!r} "
            f"({document.problems[0].wanted}; for example {EXAMPLE})"
        )
    parsed = cast("list[object]", document.config[OURS + "values"])
    texts = [part.strip() for part in _parts(values)]
    if len(texts) != len(parsed) or len(set(texts)) != len(texts):
        raise CannotVary(f"--vary {key}: wanted values that differ, found {values!r} (for example {EXAMPLE})")
    return Vary(key, path, tuple(parsed), tuple(texts))


def _parts(values: str) -> Iterator[str]:
    """Split at commas outside of brackets and quotes."""
    depth, quote, part = 0, "", ""
    for letter in values:
        if quote or letter in "'\"":
            quote = "" if letter == quote else quote or letter
        depth += 0 if quote else (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quote:
            yield part
            part = ""
        else:
            part += letter
    yield part


def _path(key: str) -> tuple[str, ...]:
    path = tuple(key.removeprefix(OURS).split("."))
    if path[0] in UNREAD:
        raise CannotVary(f"--vary {key}: cannot be varied: no replay reads {path[0]} (for example stabilizationWindow)")
    if path[0] in _SECTIONS:
        return path
    if len(path) > 1:
        raise CannotVary(
            f"--vary {key}: wanted a section of the stack file first, found {path[0]!r} "
            f"(for example workers.*.{path[-1]}); {did_you_mean(path[0], _SECTIONS)}"
        )
    if key not in _POOL_KEYS:
        raise CannotVary(
            f"--vary {key}: wanted a key of a pool or a path, found {key!r} (for example stabilizationWindow, "
            f"nodeGroups.*.max); {did_you_mean(key, _POOL_KEYS)}"
        )
    return ("workers", ALL, key)


def varied(config: Mapping[str, object], setting: Setting) -> dict[str, object]:
    """The config with the setting's values. Raises `CannotVary` for a path that does not exist."""
    changed = dict(config)
    for value in setting:
        section = OURS + value.path[0]
        changed[section] = deepcopy(changed.get(section))
        if len(value.path) == 1:
            changed[section] = value.value
        elif changed[section] is None and ALL not in value.path:
            changed[section] = {}
        if len(value.path) > 1:
            for holder in _holders(changed[section], value, 1):
                holder[value.path[-1]] = value.value
    return changed


def _holders(node: Any, value: Value, depth: int) -> Iterator[dict[str, Any]]:
    """The mappings that hold the last key of the path; missing mappings on the path are created."""
    if not isinstance(node, dict):
        raise CannotVary(
            f"{'.'.join(value.path[:depth])}: wanted a mapping there to vary {value.key}, found "
            f"{'nothing' if node is None else 'something else'}"
        )
    mapping = cast("dict[str, Any]", node)
    if depth == len(value.path) - 1:
        yield mapping
        return
    step = value.path[depth]
    for name in list(mapping) if step == ALL else [step]:
        if name not in mapping and depth == 1:  # the stack does not have this name
            hint = did_you_mean(name, list(mapping))
            problem = f"{'.'.join(value.path[:2])}: wanted a name that the stack has, found {name!r}"
            raise CannotVary(problem + (hint and f"; {hint}"))
        yield from _holders(mapping.setdefault(name, {}), value, depth + 1)
