"""A project with a stack file and bases, and the ways to read it: as a file, and as Pulumi passes its values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.settings import Problem, StackInvalid, StackSettings, load_stack
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import settings_of_texts

STACK = "stacks/Pulumi.acme.yaml"
BASE = "stacks/bases/production.yaml"

PRODUCTION = """\
config:
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }
  ebbtide:workers:
    train:
      source: { queues: [train] }
      image: "example.com/train:1"
      max: 4
      cpu: 4
      memory: 16Gi
      longestJob: 12h
"""
ON_PRODUCTION = """\
config:
  ebbtide:base: bases/production.yaml
  ebbtide:customer: acme
"""


@dataclass(frozen=True)
class BasedProject:
    root: Path

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def stack(self, more: str = "") -> None:
        """Write a stack file on the base, with more lines below `config:`."""
        self.write(STACK, ON_PRODUCTION + more)

    def settings(self) -> StackSettings:
        return load_stack("acme", self.root)

    def as_pulumi_passes(self) -> StackSettings:
        """Settings of the values that Pulumi passes: texts, with keys sorted and null at the top level as empty text.
        Pulumi adds the project's keys.
        """
        config = dict(self._project_values()) | yaml.safe_load((self.root / STACK).read_text())["config"]
        reader = files_in(self.root / "stacks")
        return settings_of_texts(pulumi_texts(config), stack="acme", file=STACK, reader=reader)

    def _project_values(self) -> Mapping[str, Any]:
        file = self.root / "Pulumi.yaml"
        described: dict[str, Any] = yaml.safe_load(file.read_text())["config"] if file.exists() else {}
        return {(key if ":" in key else f"ebbtide:{key}"): _described(value) for key, value in described.items()}

    def problems(self) -> list[str]:
        """The lines of `ebbtide check` with paths from the root."""
        with pytest.raises(StackInvalid) as refused:
            self.settings()
        return [str(problem).removeprefix(f"{self.root}/") for problem in refused.value.problems]

    def problem(self) -> Problem:
        with pytest.raises(StackInvalid) as refused:
            self.settings()
        [problem] = refused.value.problems
        return problem


def _described(value: Any) -> Any:
    return value.get("default", value.get("value")) if hasattr(value, "get") else value


def pulumi_texts(config: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: "" if value is None else value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in sorted(config.items())
    }
