"""Two sides of a preview: the demo customer, and what is changed in it by key or by hand; files in a git repository."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

from ebbtide.findings import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.document import Danger
from ebbtide.preview.sides import Side, side_at
from ebbtide.recording.resources import Resource
from ebbtide.settings import load_stack, parse_stack
from tests.builders.components import demo_stack
from tests.builders.recorded import record
from tests.builders.settings import SHORTEST
from tests.paths import DATA, STACK_FILES

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")

Config = dict[str, Any]
Change = Callable[[Config], object]


def put(section: str, name: str, **values: object) -> Change:
    """Set keys of one entry of a section; None takes a key away."""

    def change(config: Config) -> None:
        entry = config[f"ebbtide:{section}"][name]
        entry.update({key: value for key, value in values.items() if value is not None})
        for key in [key for key, value in values.items() if value is None]:
            entry.pop(key)

    return change


def whole(section: str, **values: object) -> Change:
    """Set keys of a section."""
    return lambda config: config.setdefault(f"ebbtide:{section}", {}).update(values)


def without(section: str, name: str) -> Change:
    return lambda config: config[f"ebbtide:{section}"].pop(name)


def demo(*changes: Change) -> Side:
    config = deepcopy(_demo_config())
    for change in changes:
        change(config)
    settings = parse_stack(config, stack="demo", file="any")
    return Side(stack="demo", settings=settings, resources=record(settings))


@cache
def demo_now() -> Side:
    """As it is in the repository, recorded once."""
    return Side(stack="demo", settings=load_stack("demo", DATA), resources=demo_stack())


def edited(side: Side, edit: Callable[[Resource], Resource | None], *more: Resource) -> Side:
    """The side with some resources changed by hand, left out (None) or added."""
    kept = [new for resource in side.resources if (new := edit(resource)) is not None]
    return replace(side, resources=(*kept, *more))


def with_input(name: str, path: str, value: object) -> Callable[[Resource], Resource]:
    """An edit: this value at this path of the resource of that name."""
    return lambda resource: (
        replace(resource, inputs=_put(resource.inputs, path.split("."), value)) if resource.name == name else resource
    )


def kubernetes(kind: str, name: str, namespace: str = "ebbtide", **inputs: Any) -> Resource:
    """An object that somebody added to the program."""
    type_ = f"kubernetes:any/v1:{kind}"
    urn = f"urn:pulumi:demo::ebbtide::{type_}::{name}"
    metadata = {"name": name, "namespace": namespace, **inputs.pop("metadata", {})}
    return Resource(urn=urn, type=type_, name=name, parent="", custom=True, inputs={"metadata": metadata, **inputs})


def dangers(before: Side | None, after: Side | None) -> tuple[Danger, ...]:
    old, new = (side.resources if side else () for side in (before, after))
    return dangers_of(before, after, changes_between(old, new))


def coded(found: Sequence[Danger]) -> list[tuple[Severity, str, tuple[str, ...]]]:
    return [(danger.severity, danger.code, danger.subjects) for danger in found]


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *arguments: str) -> str:
        command: Sequence[str] = ["git", *IDENTITY, *arguments]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, text: str = SHORTEST, stack: str = "acme") -> None:
        self.write(text, stack)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "a change")

    def write(self, text: str, stack: str = "acme") -> None:
        path = self.root / "stacks" / f"Pulumi.{stack}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def write_base(self, text: str) -> None:
        path = self.root / "stacks" / "bases" / "more.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def at(self, ref: str, stack: str = "acme") -> Side:
        side = side_at(stack, ref, self.root)
        assert side is not None
        return side


def with_max(most: int) -> str:
    """The shortest file with another size of its pool."""
    assert "max: 4" in SHORTEST
    return SHORTEST.replace("max: 4", f"max: {most}")


@cache
def _demo_config() -> Config:
    return cast("Config", yaml.safe_load((STACK_FILES / "Pulumi.demo.yaml").read_text())["config"])


def _put(values: Mapping[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    name, *rest = path
    return {**values, name: _put(values.get(name) or {}, rest, value) if rest else value}
