"""Rendered stacks as text: all of it for eight, and one line for each object of forty.

A difference says what a change of the code does to running stacks. It does not say whether that is right: laws do, and
`tests/unit/test_former_release.py` holds the URNs of the last release, which a regenerated file can hide.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from ebbtide.recording.resources import Resource, is_part, kind_of, masked_inputs, name_of, short_type
from ebbtide.settings import StackSettings, load_stack, parse_stack
from tests.builders.example import STACK_FILE
from tests.builders.generated import stack_text
from tests.builders.recorded import record
from tests.paths import DATA

FILES = Path(__file__).parent / "files"
GENERATED = FILES / "generated"
SEEDS = range(40)
WHOLE = (
    "demo",
    "example-berlin",
    "example-lisbon",
    "labelling",
    "closed",
    "existing",
    "full-eks",
    "full-existing",
)
_LONG = 100_000
"""Characters of a definition or a dashboard, which their own projects version: such texts are hashed."""

_LIST = 8
"""Dependencies that each resource repeats."""


def whole_stack(name: str) -> str:
    """Every resource of one of the stacks, sorted by URN: its options, and the inputs as YAML."""
    return "\n".join(_blocks(record(_settings(name))).values())


def stack_lines(seed: int) -> str:
    """One line for each resource of a generated stack: end of the URN, name, and a hash of the rest."""
    text = (GENERATED / f"{seed:02}.yaml").read_text(encoding="utf-8")
    settings = parse_stack(yaml.safe_load(text)["config"], stack=f"generated-{seed:02}", file=f"{seed:02}.yaml")
    resources = record(settings)
    blocks = _blocks(resources)
    lines = (_line(resource, _hash(blocks[resource.urn]) if resource.custom else "") for resource in resources)
    return "".join(sorted(lines))


def _line(resource: Resource, content: str) -> str:
    """Only an object in the cluster has a name that its URN does not say."""
    name = name_of(resource) if kind_of(resource) else ""
    return " ".join(part for part in (_end(resource.urn), name, content) if part) + "\n"


def new_stack_file(seed: int) -> str:
    """What today's generator draws; the files that are there stay, so that a changed generator moves nothing."""
    return stack_text(seed)


def _settings(name: str) -> StackSettings:
    if name in {"closed", "existing"}:
        return load_stack(str(DATA / "former-release" / f"Pulumi.{name}.yaml"))
    if name == "labelling":
        return load_stack(str(STACK_FILE))
    if name.startswith("full-"):
        return load_stack(str(FILES / "stacks" / f"{name}.yaml"))
    return load_stack(name, DATA)


def _blocks(resources: Sequence[Resource]) -> Mapping[str, str]:
    """By URN, sorted. A resource depends on what is written there and on whatever that depends on.

    The same long list is written once: a second resource that has it names the first. A component is its URN alone:
    what it was given shows in its parts.
    """
    needs = {resource.urn: {*resource.depends_on} for resource in resources}
    ordered = sorted(resources, key=lambda resource: resource.urn)
    first = dict[tuple[str, ...], str]()
    blocks = dict[str, str]()
    for resource in ordered:
        if not resource.custom:
            blocks[resource.urn] = f"{_end(resource.urn)}\n"
            continue
        directly = needs[resource.urn] - {further for need in needs[resource.urn] for further in _all_of(need, needs)}
        names = tuple(sorted(_short(urn) for urn in directly))
        if len(names) > _LIST and first.setdefault(names, _short(resource.urn)) != _short(resource.urn):
            names = (f"what {first[names]} depends on",)
        blocks[resource.urn] = _block(resource, names)
    return blocks


def _all_of(urn: str, needs: Mapping[str, set[str]]) -> set[str]:
    found = set[str]()
    left = list(needs.get(urn, ()))
    while left:
        if (need := left.pop()) not in found:
            found.add(need)
            left += needs.get(need, ())
    return found


def _block(resource: Resource, depends_on: Sequence[str]) -> str:
    """What a provider is given depends on the machine."""
    inputs = dict(_shown(masked_inputs(resource))) if is_part(resource) else {}
    if kind_of(resource) == "CustomResourceDefinition":
        inputs = {"metadata": inputs["metadata"], "hash": _hash(str(resource.inputs))}
    written = (
        yaml.dump(inputs, Dumper=_Dumper, width=120, allow_unicode=True, default_flow_style=None) if inputs else ""
    )
    options = "".join(f"  ({option})\n" for option in _options(resource, depends_on))
    return f"{_end(resource.urn)}\n{options}{written}"


def _options(resource: Resource, depends_on: Sequence[str]) -> Iterator[str]:
    for name in ("provider", "deleted_with"):
        if urn := getattr(resource, name):
            yield f"{name} {_short(urn)}"
    yield from (f"depends_on {name}" for name in depends_on)
    for name in ("ignore_changes", "aliases", "secret_outputs"):
        yield from (f"{name} {value}" for value in sorted(getattr(resource, name)))
    if resource.delete_timeout:
        yield f"delete_timeout {resource.delete_timeout}"
    yield from (name for name in ("protect", "retain_on_delete", "read") if getattr(resource, name))


def _end(urn: str) -> str:
    """Without what is the same in all URNs of a stack."""
    return urn.split("::", 2)[2].removeprefix("ebbtide:components:")


def _short(urn: str) -> str:
    """The last word of its type, and its name."""
    type_, name = urn.split("::")[2:]
    return f"{short_type(type_)} {name}"


def _shown(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: _document(item) if key.endswith(".json") else _shown(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, str) and (len(value) > _LONG or '"panels"' in value):
        return f"hash {_hash(value)}"
    return value


def _document(text: str) -> str:
    return _shown(text) if '"panels"' in text else json.dumps(json.loads(text), indent=1)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


class _Dumper(yaml.CSafeDumper):
    """Texts of several lines as they read: the documents of the controllers, rules, configuration."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
