"""Blocks of YAML in the pages, and the stack files that they show."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from ebbtide.settings import StackSettings, parse_stack
from tests.paths import ROOT

CONFIG: Mapping[str, Any] = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": {"timezone": "UTC", "week": {"mon-fri": "08:00-18:00"}},
    "ebbtide:cluster": {"version": "1.36"},
}
"""The keys that a page leaves out."""


def blocks_of(page: str) -> list[dict[str, Any]]:
    """All blocks of a page under docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


def stack_of(page: str) -> StackSettings:
    """All sections that the page shows, in one stack. Raises if `check` would refuse it."""
    config: dict[str, Any] = dict(CONFIG)
    for block in blocks_of(page):
        for key, value in block.get("config", block).items():
            if key.startswith("ebbtide:"):
                config[key] = {**config.get(key, {}), **value}
    return parse_stack(config, stack="acme", file=page)
